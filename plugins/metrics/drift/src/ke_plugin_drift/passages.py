"""Held-out text as asks: the first words of a passage are the prompt, the rest is what is scored."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from ke_core.plugin import BadConfig, Likelihood

OWN = "own"
GIVEN = 3
"""Words that a passage begins with and that are not scored: a model without a start token needs something to read."""


def read(source: str) -> tuple[Likelihood, ...]:
    """One ask a passage, in order. Raises BadConfig, which names the file, for no text and for a passage too short."""
    found = [" ".join(line.split()) for line in _lines(source) if line.strip()]
    if not found:
        raise BadConfig(f"drift.text: {source} holds no passage", hint="one passage a line")
    return tuple(_ask(number, passage, source) for number, passage in enumerate(found, start=1))


def _ask(number: int, passage: str, source: str) -> Likelihood:
    words = passage.split(" ")
    if len(words) <= GIVEN:
        raise BadConfig(
            f"drift.text: passage {number} of {source} has {len(words)} words", hint=f"more than {GIVEN} a passage"
        )
    prompt, rest = " ".join(words[:GIVEN]), " ".join(words[GIVEN:])
    name = f"passage-{number}"
    return Likelihood(
        id=name, case="", query=name, texts=(prompt,), form="cloze", prompt=prompt, continuations=(f" {rest}",)
    )


def _lines(source: str) -> list[str]:
    if source == OWN:
        return files("ke_plugin_drift").joinpath("passages.txt").read_text(encoding="utf-8").splitlines()
    try:
        return Path(source).expanduser().read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise BadConfig(f"drift.text: {source} cannot be read", hint=f"a UTF-8 text file, or {OWN}") from error
