"""Read the documents of the tasks in this folder."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from datasets import Dataset

from ke_core.plugin import loads


def read(name: str, **_metadata: object) -> dict[str, Dataset]:
    """Return the documents of ``name.jsonl`` as the split ``test``, and the few-shot examples as ``train``."""
    here = Path(__file__).parent
    return {"test": _rows(here / f"{name}.jsonl"), "train": _rows(here / "examples.jsonl")}


def _rows(file: Path) -> Dataset:
    return Dataset.from_list([loads(line) for line in file.read_text(encoding="utf-8").splitlines()])


choice, context, generate, text = (partial(read, name) for name in ("choice", "context", "generate", "text"))


def contexts(doc: dict[str, object]) -> list[str]:
    """Return the beginning of the sentence with each option."""
    options = doc["options"]
    assert isinstance(options, list)
    return [str(doc["sentence"]).replace("_", option) for option in options]
