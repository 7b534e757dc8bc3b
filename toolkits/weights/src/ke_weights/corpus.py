"""Text for second moments: an excerpt of WordNet's glosses that ships with the core, a text file, or a hub dataset."""

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
HUB_DOCUMENTS = 100_000  # drawn of a hub dataset, as published
HUB_SEED = 1  # as published
COLUMN = "text"


@frozen(kw_only=True)
class Corpus:
    """Documents in order, and a SHA-256: of the file they were read from, or of the documents themselves."""

    name: str
    documents: tuple[str, ...] = field(repr=False)
    sha256: str


def read_corpus(source: str = WORDNET) -> Corpus:
    """``wordnet``; a UTF-8 text file, one document a paragraph if it has blank lines, else a line; a hub dataset.

    A hub dataset is ``OWNER/NAME[:CONFIGURATION][@REVISION]``, such as ``wikimedia/wikipedia:20231101.en``. A
    file of that name is taken first. Raises BadData, which names the file or the dataset.
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
        raise BadData(f"corpus {source} is not text: it holds zero bytes", hint="give a plain text file")
    documents = split(text)
    if not documents:
        raise BadData(f"corpus {source} holds no text", hint="one document a line, or paragraphs between blank lines")
    name = WORDNET if source == WORDNET else path.name
    return Corpus(name=name, documents=documents, sha256=hashlib.sha256(raw).hexdigest())


def split(text: str) -> tuple[str, ...]:
    """Documents: paragraphs where there are blank lines, each in one line; else lines."""
    text = text.replace("\r\n", "\n").strip()
    parts = text.split("\n\n") if "\n\n" in text else text.split("\n")
    return tuple(" ".join(part.split("\n")).strip() for part in parts if part.strip())


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise BadData(f"cannot read corpus {path}: {why}", hint=f"give a text file, or {WORDNET!r}") from error


def _from_hub(source: str, name: str, config: str | None, revision: str | None) -> Corpus:
    """The ``text`` of the train split, 100,000 documents in the order that ROME's authors drew theirs in."""
    try:
        library: Any = import_module("datasets")
    except ImportError as error:
        raise BadData(
            f"there is no file {source}, and to read it as a dataset of the hub takes the library datasets",
            hint="pip install datasets, or give a text file",
        ) from error
    try:
        rows = library.load_dataset(name, config, split="train", revision=revision)
    except Exception as error:  # the library's errors are of many kinds: network, name, configuration
        why = " ".join(str(error).split()) or type(error).__name__
        raise BadData(
            f"cannot load the dataset {source} from the hub: {why}",
            hint=f"there is no file {source} either; write OWNER/NAME:CONFIGURATION, or give a text file",
        ) from error
    if COLUMN not in rows.column_names:
        raise BadData(
            f"dataset {source} has no column {COLUMN!r}", hint=f"its columns are: {', '.join(rows.column_names)}"
        )
    order = list(range(len(rows)))
    random.Random(HUB_SEED).shuffle(order)  # noqa: S311  a sample of text, not a secret
    texts = rows[order[:HUB_DOCUMENTS]][COLUMN]
    if not all(isinstance(text, str) for text in texts):
        raise BadData(f"column {COLUMN!r} of dataset {source} does not hold text", hint="choose another dataset")
    documents = tuple(text for text in texts if text.strip())
    if not documents:
        raise BadData(f"dataset {source} holds no text", hint="choose another dataset or configuration")
    return Corpus(name=source, documents=documents, sha256=_sha256(documents))


def _sha256(documents: Iterable[str]) -> str:
    text = hashlib.sha256()
    for document in documents:
        text.update(document.encode() + b"\0")
    return text.hexdigest()
