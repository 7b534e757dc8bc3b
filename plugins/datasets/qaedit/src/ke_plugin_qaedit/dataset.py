"""The dataset classes: the published file, and the embedded records."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import evolve, field, frozen

from ke_benchmarks import EmbeddedDataset, FileDataset, digest_of_json, embedded_records
from ke_core.plugin import Case, Decoding, Parse, Prompt, Query
from ke_plugin_qaedit import STYLES, QAEditConfig
from ke_plugin_qaedit.atlas import atlas_records
from ke_plugin_qaedit.cases import QAEditRecord, case

WILD = Decoding(max_tokens=50, stop=(".", "\n"))
"""The released code: greedy, at most 50 new tokens, stop at a period or a line end."""
WHOLE = Parse(until="")
INSTRUCTION = "Answer the question. Write only the answer.\nQuestion: {}\nAnswer:"


@frozen(kw_only=True)
class QAEdit(FileDataset):
    """QAEdit. A record needs the target of another one, so all of them are read at once."""

    config: QAEditConfig = field(factory=QAEditConfig)

    def cases(self) -> Iterator[Case]:
        """Yield every case in the order of the file, with its position from 0 as id."""
        records = self.all_records()
        for place, record in enumerate(records):
            yield case(str(place), record, _decoy(records, place), self.config.locality)

    def all_records(self) -> list[QAEditRecord]:
        """Return the records of the file."""
        return list(self.records(QAEditRecord, key=""))

    def prompt(self, query: Query, style: str) -> Prompt | None:
        """Return the bare question, or the question with an instruction. A target is always scored after the former."""
        if style not in STYLES:
            return None
        bare = style == "question" or query.continuations
        text = query.texts[0] if bare else INSTRUCTION.format(query.texts[0])
        stop = WILD.stop if self.config.stop == "period" else ("\n",)
        return Prompt(text=text, decoding=evolve(WILD, stop=stop), parse=WHOLE)


@frozen(kw_only=True)
class QAEditAtlas(EmbeddedDataset, QAEdit):
    """Records of the embedded graph."""

    def all_records(self) -> list[QAEditRecord]:
        """Return the embedded records."""
        return embedded_records(atlas_records(), QAEditRecord, self.variant.name)

    def checksum(self) -> str:
        """Return the checksum of the records."""
        return digest_of_json(atlas_records())


def _decoy(records: list[QAEditRecord], place: int) -> str:
    """Return the target of the next record that has another one (of the first record after the last)."""
    own = records[place].target.strip()
    others = (record.target.strip() for record in (*records[place + 1 :], *records[:place]))
    return next((target for target in others if target.casefold() != own.casefold()), "unknown")
