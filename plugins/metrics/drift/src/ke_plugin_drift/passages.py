"""Unrelated text as scoring requests, two for each passage.

Perplexity: the first words of a passage are the prompt, and the rest is scored. Divergence: its first half is the
prompt, and each of ``NEXT`` is scored as the next word.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.resources import files
from pathlib import Path

from ke_core.plugin import BadConfig, Likelihood

OWN = "own"
GIVEN = 3
"""Words at the start of a passage that are not scored: a model without a start token needs a prompt."""
PASSAGE, AHEAD = "passage-", "next-"
FREQUENT = """
the and of to in is was for on with as at by be he this that have from or had not but what all were when you
can said use each which she do how if will up other about out many some my our more most two would could
should has are who after over such made first new now his him very way long little much own back day it
"""
NEXT = tuple(FREQUENT.split())
"""Frequent words, none a prefix of another: no continuation contains another one, so probabilities add up."""


def read(source: str) -> tuple[Likelihood, ...]:
    """Return two requests for each passage, in order. Raises BadConfig for no text or a passage that is too short."""
    found = [" ".join(line.split()) for line in _lines(source) if line.strip()]
    if not found:
        raise BadConfig(f"drift.text: {source} contains no passage", hint="write one passage per line")
    return tuple(
        request for number, passage in enumerate(found, start=1) for request in _requests(number, passage, source)
    )


def _requests(number: int, passage: str, source: str) -> Iterator[Likelihood]:
    words = passage.split(" ")
    if len(words) <= GIVEN:
        raise BadConfig(
            f"drift.text: passage {number} of {source} has {len(words)} words",
            hint=f"write more than {GIVEN} words per passage",
        )
    yield _ask(f"{PASSAGE}{number}", words[:GIVEN], (" ".join(words[GIVEN:]),))
    yield _ask(f"{AHEAD}{number}", words[: max(GIVEN, len(words) // 2)], NEXT)


def _ask(name: str, given: Sequence[str], continuations: Sequence[str]) -> Likelihood:
    prompt = " ".join(given)
    return Likelihood(
        id=name,
        case="",
        query=name,
        texts=(prompt,),
        form="cloze",
        prompt=prompt,
        continuations=tuple(f" {text}" for text in continuations),
    )


def _lines(source: str) -> list[str]:
    if source == OWN:
        return files("ke_plugin_drift").joinpath("passages.txt").read_text(encoding="utf-8").splitlines()
    try:
        return Path(source).expanduser().read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise BadConfig(f"drift.text: cannot read {source}", hint=f"pass a UTF-8 text file, or {OWN}") from error
