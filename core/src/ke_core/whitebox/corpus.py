"""Text for second moments: an excerpt of WordNet's glosses that ships with the core, or any text file."""

from __future__ import annotations

import hashlib
from importlib.resources import files
from pathlib import Path

from attrs import field, frozen

from ke_core.errors import BadData

WORDNET = "wordnet"


@frozen(kw_only=True)
class Corpus:
    """Documents in order, and the SHA-256 of the file they were read from."""

    name: str
    documents: tuple[str, ...] = field(repr=False)
    sha256: str


def read_corpus(source: str = WORDNET) -> Corpus:
    """``wordnet``, or a UTF-8 text file: one document a paragraph if it has blank lines, else a line.

    Raises BadData, which names the file.
    """
    try:
        raw = files(__package__).joinpath("wordnet.txt").read_bytes() if source == WORDNET else _read(source)
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadData(f"corpus {source} is not UTF-8 text: byte {error.start}", hint="convert it to UTF-8") from error
    text = text.replace("\r\n", "\n").strip()
    parts = text.split("\n\n") if "\n\n" in text else text.split("\n")
    documents = tuple(" ".join(part.split("\n")).strip() for part in parts if part.strip())
    if not documents:
        raise BadData(f"corpus {source} holds no text", hint="one document a line, or paragraphs between blank lines")
    name = WORDNET if source == WORDNET else Path(source).name
    return Corpus(name=name, documents=documents, sha256=hashlib.sha256(raw).hexdigest())


def _read(source: str) -> bytes:
    try:
        return Path(source).expanduser().read_bytes()
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise BadData(f"cannot read corpus {source}: {why}", hint=f"give a text file, or {WORDNET!r}") from error
