from __future__ import annotations

import random
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ke_core.plugin import BadData
from ke_weights.corpus import read_corpus


def test_default_corpus_has_a_hundred_thousand_tokens_and_a_license() -> None:
    corpus = read_corpus()
    assert corpus.name == "wordnet"
    assert 70_000 < sum(len(document.split()) for document in corpus.documents) < 90_000
    from importlib.resources import files

    license = files("ke_weights").joinpath("wordnet.LICENSE").read_text(encoding="utf-8")
    assert "Princeton University" in license


@pytest.mark.parametrize(
    ("text", "documents"),
    [
        ("one\n two \n\tthree\n", ("one", "two", "three")),
        ("one\nstill one\n\n\ntwo\r\n\r\nthree", ("one still one", "two", "three")),
    ],
)
def test_text_file_has_documents_per_line_or_paragraph(text: str, documents: tuple[str, ...], tmp_path: Path) -> None:
    path = tmp_path / "own.txt"
    path.write_bytes(text.encode())
    assert read_corpus(str(path)).documents == documents


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "cannot read corpus .*no such file"),
        (b" \n\n", "is empty"),
        (b"caf\xe9", "not UTF-8 text: byte 3"),
        (b"a\0b", "not text: it contains zero"),
    ],
)
def test_unreadable_corpus_is_named(content: bytes | None, why: str, tmp_path: Path) -> None:
    path = tmp_path / "own.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(BadData, match=why):
        read_corpus(str(path))


class Rows:
    """A fake dataset: columns, a length, rows by a list of indices."""

    def __init__(self, **columns: list[Any]) -> None:
        self.columns = columns
        self.column_names = list(columns)

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __getitem__(self, at: list[int]) -> dict[str, list[Any]]:
        return {name: [values[one] for one in at] for name, values in self.columns.items()}


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Any]:
    """A fake of the library ``datasets``. The list's only item is the loaded dataset, or an error."""
    given: list[Any] = [Rows(text=[f"document {n}" for n in range(50)])]

    def load_dataset(name: str, config: str | None, *, split: str, revision: str | None) -> Any:
        if isinstance(given[0], Exception):
            raise given[0]
        given[1:] = [(name, config, split, revision)]
        return given[0]

    fake = ModuleType("datasets")
    fake.load_dataset = load_dataset  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "datasets", fake)
    monkeypatch.chdir(tmp_path)
    return given


@pytest.mark.parametrize(
    ("source", "asked"),
    [
        ("some/text", ("some/text", None, "train", None)),
        ("some/text:20231101.en", ("some/text", "20231101.en", "train", None)),
        ("some/text:en@v1.0", ("some/text", "en", "train", "v1.0")),
    ],
)
def test_hub_dataset_has_owner_name_configuration_and_revision(
    source: str, asked: tuple[str | None, ...], hub: list[Any]
) -> None:
    corpus = read_corpus(source)
    assert hub[1] == asked
    assert corpus.name == source


def test_documents_of_a_dataset_have_the_published_order(hub: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    order = list(range(50))
    random.Random(1).shuffle(order)
    assert read_corpus("some/text").documents == tuple(f"document {n}" for n in order)
    monkeypatch.setattr("ke_weights.corpus.HUB_DOCUMENTS", 7)
    assert read_corpus("some/text").documents == tuple(f"document {n}" for n in order[:7])


def test_covariance_key_has_the_documents_of_a_dataset(hub: list[Any]) -> None:
    one = read_corpus("some/text").sha256
    assert read_corpus("other/name").sha256 == one
    hub[0] = Rows(text=[f"document {n}" for n in range(49)] + ["another"])
    assert read_corpus("some/text").sha256 != one


def test_file_has_priority_over_a_dataset_of_the_same_name(hub: list[Any], tmp_path: Path) -> None:
    (tmp_path / "some").mkdir()
    (tmp_path / "some" / "text").write_text("of the file", encoding="utf-8")
    assert read_corpus("some/text").documents == ("of the file",)


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        (ConnectionError("no\n network"), "cannot load the dataset some/text from the Hub: no network"),
        (Rows(body=["a"]), "some/text has no column 'text'"),
        (Rows(text=["", " \n"]), "some/text has no text"),
    ],
)
def test_dataset_without_text_is_named(rows: Any, why: str, hub: list[Any]) -> None:
    hub[0] = rows
    with pytest.raises(BadData, match=why):
        read_corpus("some/text")


def test_missing_library_error_has_the_install_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadData, match="corpus not found: some/text") as caught:
        read_corpus("some/text")
    assert caught.value.hint.startswith("pip install datasets")
