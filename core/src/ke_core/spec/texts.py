"""Words of a text, names in it, and prompt files."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path
from typing import Any

from ke_core.spec.errors import BadConfig
from ke_core.spec.facts import UNSPACED
from ke_core.spec.protocols import Session

UNMARKED = re.compile(f"[{UNSPACED}].*[{UNSPACED}]", re.DOTALL)
WORD = re.compile(r"\w+(?:['-]\w+)*")  # a hyphen joins: "Guinea" is no word of "Guinea-Bissau"
NAME = re.compile(r"(?:(?<!\w)[-\u2212](?=\d))?\w+(?:(?:['-]|(?<=\d)[.,](?=\d))\w+)*")
"""Also joins the parts of a number: "500" is no word of "1,500", nor "5" of "3.5" or "-5"."""


def words(text: str) -> tuple[str, ...]:
    """Return the words in lower case, without punctuation and possessive endings (NFKC)."""
    return _found(WORD, text)


def holds(text: str, names: Iterable[str]) -> bool:
    """Return whether ``text`` contains one of ``names`` as whole words. A name without words is never found.

    Scripts without spaces do not mark words: a name in one may stand anywhere, if it has more than one character.
    """
    said, plain = _found(NAME, text), _plain(text)
    return any(
        _within(_found(NAME, name), said) or (UNMARKED.fullmatch(name) and _plain(name) in plain) for name in names
    )


def _found(pattern: re.Pattern[str], text: str) -> tuple[str, ...]:
    return tuple(word.removesuffix("'s") for word in pattern.findall(_plain(text)))


def _plain(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold().replace("\u2019", "'")


def _within(name: tuple[str, ...], said: tuple[str, ...]) -> bool:
    size = len(name)
    return bool(size) and any(said[at : at + size] == name for at in range(len(said) - size + 1))


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
