"""The dataset class."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from attrs import frozen

from ke_benchmarks import CaseDataset, read_cases, read_header
from ke_core.plugin import Case, DatasetInfo, Decoding, Prompt, Query, sha256_of, with_room
from ke_plugin_cases import CasesConfig


@frozen(kw_only=True)
class Cases(CaseDataset):
    """The dataset ``cases``. It reads the file case by case, each time the cases are requested."""

    hop_by_hop: ClassVar[bool] = True
    config: CasesConfig
    path: Path

    def cases(self) -> Iterator[Case]:
        """Yield every case in the order of the file. Raises BadData with file, line and field."""
        return read_cases(self.path)

    def prompt(self, query: Query, style: str) -> Prompt | None:
        """Return the few-shot prompt, or the bare cloze."""
        return put(query) if style == "direct" else None

    def info(self) -> DatasetInfo:
        """Return the description from the header. ``sha256`` covers the whole file."""
        header = read_header(self.path)
        return DatasetInfo(
            title=header.title or header.name,
            license=header.license or "not stated in the file",
            source=header.source or self.path.name,
            cite=header.cite,
            sha256=sha256_of(self.path),
            published={"cases": header.cases} if header.cases is not None else {},
        )


SHOWN = (
    ("How many legs does a spider have?", "eight"),
    ("What do bees make from nectar?", "honey"),
    ("Which colors does a traffic light show?", "red, amber, green"),
    ("In which season do leaves fall?", "autumn"),
    ("Which metal is liquid at room temperature?", "mercury"),
)
DEMONSTRATIONS = "".join(f"Q: {question}\nA: {answer}\n" for question, answer in SHOWN)
ANSWER = Decoding(max_tokens=32, stop=("\n",))  # an answer with several names is longer than one name


def put(query: Query) -> Prompt:
    """Return the complete prompt. Long or multi-line answers get a larger token limit."""
    text, bare = query.texts[0], query.form == "cloze"
    prompt = Prompt(text=text if bare else f"{DEMONSTRATIONS}Q: {text}\nA:", decoding=ANSWER)
    golds = [gold for gold in (query.gold, query.pre_edit) if gold is not None]
    answers = [entity.label for gold in golds for entity in gold.entities]
    return with_room(prompt, answers, until="" if bare else "\nQ:")
