"""Words and sentences of a text, names in it, and prompt files."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from ke_core.spec.errors import BadConfig
from ke_core.spec.protocols import Session
from ke_core.spec.results import Answer

WORD = re.compile(r"\w+(?:['-]\w+)*")  # a hyphen joins: "Guinea" is no word of "Guinea-Bissau"


def words(text: str) -> tuple[str, ...]:
    """Return the words in lower case, without punctuation and possessive endings (NFKC)."""
    plain = unicodedata.normalize("NFKC", text).casefold().replace("\u2019", "'")
    return tuple(word.removesuffix("'s") for word in WORD.findall(plain))


NGRAM_WEIGHTS = {2: 1 / 3, 3: 2 / 3}
"""Weights of bigrams and trigrams. ROME's released evaluation uses 2/3 and 4/3 and halves the sum."""


def ngram_entropy(text: str) -> float | None:
    """Return the weighted entropy of bigrams and trigrams (fluency), in bits; None for fewer than three words.

    Repetitive text has a low entropy.
    """
    said = words(text)
    if len(said) < max(NGRAM_WEIGHTS):
        return None
    return math.fsum(weight * _entropy(said, n) for n, weight in NGRAM_WEIGHTS.items())


def _entropy(said: Sequence[str], n: int) -> float:
    counts = Counter(zip(*(said[start:] for start in range(n)), strict=False))
    total = counts.total()
    return -math.fsum(count / total * math.log2(count / total) for count in counts.values())


def holds(text: str, names: Iterable[str]) -> bool:
    """Return whether ``text`` contains one of ``names`` as whole words. A name without words is never found (V4)."""
    said = words(text)
    return any(_within(words(name), said) for name in names)


def _within(name: tuple[str, ...], said: tuple[str, ...]) -> bool:
    size = len(name)
    return bool(size) and any(said[at : at + size] == name for at in range(len(said) - size + 1))


CONSISTENT, INCONSISTENT, UNRELATED, FACT_UNSURE = "consistent", "inconsistent", "unrelated", "fact-unsure"
SUPPORT, NOT_SUPPORT, SUPPORT_UNSURE = "support", "not-support", "support-unsure"
NO_THOUGHTS = "no-thoughts"
FACT_LABELS = (CONSISTENT, INCONSISTENT, UNRELATED, FACT_UNSURE)
SUPPORT_LABELS = (SUPPORT, NOT_SUPPORT, SUPPORT_UNSURE)
NAMED = re.compile(r"^\W*(?:thoughts?|reasoning)\s*:\s*", re.IGNORECASE)
LEADS_TO = re.compile(
    r"(?:^|(?<=[.\s]))(?:(?:so|thus|therefore|hence),?\s+)?(?:the\s+)?(?:final\s+)?answer(?:\s+is)?\s*:?[\s*\"']*\Z",
    re.IGNORECASE,
)
ENDS = re.compile(r"(?<=[.!?])\s+(?=[\"'(\[]?[A-Z0-9])|\n+")


def thoughts_of(answer: Answer) -> str:
    """Return the text before the answer, without words such as "so the answer is". Empty if there is none.

    For a truncated answer, return everything that was generated.
    """
    raw = answer.raw.strip()
    if answer.outcome == "answered" and answer.text:
        raw = raw[: _start(raw, answer.text)]
    return NAMED.sub("", LEADS_TO.sub("", raw.rstrip())).strip()


def _start(raw: str, text: str) -> int:
    """Return the position of the answer: its last occurrence after words that lead to it, or its last occurrence."""
    places = [match.start() for match in re.finditer(f"(?={re.escape(text)})", raw)][::-1]
    return next((at for at in places if LEADS_TO.search(raw, 0, at)), max(places, default=0))


def sentences(text: str) -> tuple[str, ...]:
    """Return the sentences of a text, each once, in order. A period within a word or a number does not end one."""
    return tuple(dict.fromkeys(part.strip() for part in ENDS.split(text) if part.strip()))


OWN, DATASET = "own", "dataset"


def prompt_text(
    package: str, file: str, chosen: str, *, session: Session[Any] | None = None, material: str = "", option: str
) -> str:
    """Return a prompt text, stripped.

    ``chosen`` is the value of ``option``: ``own`` (``package/prompts/file``), ``dataset`` (the session's material of
    that name) or a folder that contains ``file``. Raises BadConfig if the text is missing or empty.
    """
    if chosen == OWN:
        return (files(package) / "prompts" / file).read_text(encoding="utf-8").strip()
    if chosen != DATASET:
        return _read(Path(chosen).expanduser() / file, file, option)
    if session is None or material not in session.material:
        raise BadConfig(f"{option}=dataset: this dataset brings no {material or file}", hint=f"use {option}=own")
    text: str = session.material[material].value
    return text.strip()


def _read(path: Path, file: str, option: str) -> str:
    try:
        text = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise BadConfig(f"{option}: {path} cannot be read", hint=f"a folder with a {file}") from error
    if not text:
        raise BadConfig(f"{option}: {path} is empty", hint="write worked examples into it, or leave the option")
    return text
