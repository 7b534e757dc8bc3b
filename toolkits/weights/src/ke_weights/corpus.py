"""Text for the key covariance: an excerpt of WordNet's glosses in this package, a text file, or a Hub dataset."""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Iterable
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Any

from attrs import field, frozen

from ke_core.plugin import BadData

WORDNET = "wordnet"
HUB = re.compile(r"(?P<name>[\w.-]+/[\w.-]+)(?::(?P<config>[\w.-]+))?(?:@(?P<revision>[\w.-]+))?")
HUB_DOCUMENTS = 100_000  # sampled from a Hub dataset, as published
HUB_SEED = 1  # as published
COLUMN = "text"


@frozen(kw_only=True)
class Corpus:
    """Documents in order, and a SHA-256: of the file that they were read from, or of the documents."""

    name: str
    documents: tuple[str, ...] = field(repr=False)
    sha256: str


def read_corpus(source: str = WORDNET) -> Corpus:
    """Return ``wordnet``, a UTF-8 text file, or a Hub dataset.

    A file has one document per paragraph if it has blank lines, else per line. A Hub dataset is
    ``OWNER/NAME[:CONFIGURATION][@REVISION]``, such as ``wikimedia/wikipedia:20231101.en``; a file with that name wins.
    Raises BadData with the file or the dataset.
    """
    path = Path(source).expanduser()
    hub = HUB.fullmatch(source)
    if source != WORDNET and hub and not path.exists():
        return _from_hub(source, **hub.groupdict())
    try:
        raw = files(__package__).joinpath("wordnet.txt").read_bytes() if source == WORDNET else _read(path)
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadData(f"corpus {source} is not UTF-8 text: byte {error.start}", hint="convert it to UTF-8") from error
    if "\0" in text:
        raise BadData(f"corpus {source} is not text: it contains zero bytes", hint="use a plain text file")
    documents = split(text)
    if not documents:
        raise BadData(f"corpus {source} is empty", hint="write one document per line or paragraph")
    name = WORDNET if source == WORDNET else path.name
    return Corpus(name=name, documents=documents, sha256=hashlib.sha256(raw).hexdigest())


def split(text: str) -> tuple[str, ...]:
    """Return documents: paragraphs if there are blank lines, each in one line; else lines."""
    text = text.replace("\r\n", "\n").strip()
    parts = text.split("\n\n") if "\n\n" in text else text.split("\n")
    return tuple(" ".join(part.split("\n")).strip() for part in parts if part.strip())


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise BadData(f"cannot read corpus {path}: {why}", hint=f"use a text file, or {WORDNET!r}") from error


def _from_hub(source: str, name: str, config: str | None, revision: str | None) -> Corpus:
    """Return the ``text`` of the train split: 100,000 documents in the order that ROME's authors sampled."""
    try:
        library: Any = import_module("datasets")
    except ImportError as error:
        raise BadData(
            f"corpus not found: {source} is not a file, and loading it from the Hub needs the library datasets",
            hint="pip install datasets, or use a text file",
        ) from error
    try:
        rows = library.load_dataset(name, config, split="train", revision=revision)
    except Exception as error:  # the library raises many kinds of errors
        why = " ".join(str(error).split()) or type(error).__name__
        raise BadData(
            f"cannot load the dataset {source} from the Hub: {why}",
            hint=f"no file {source} exists either; use OWNER/NAME:CONFIGURATION, or a text file",
        ) from error
    if COLUMN not in rows.column_names:
        raise BadData(
            f"dataset {source} has no column {COLUMN!r}", hint=f"its columns are {', '.join(rows.column_names)}"
        )
    order = list(range(len(rows)))
    random.Random(HUB_SEED).shuffle(order)  # noqa: S311  not for security
    texts = rows[order[:HUB_DOCUMENTS]][COLUMN]
    documents = tuple(text for text in texts if text.strip())
    if not documents:
        raise BadData(f"dataset {source} has no text", hint="use another dataset or configuration")
    return Corpus(name=source, documents=documents, sha256=_sha256(documents))


def _sha256(documents: Iterable[str]) -> str:
    text = hashlib.sha256()
    for document in documents:
        text.update(document.encode() + b"\0")
    return text.hexdigest()
