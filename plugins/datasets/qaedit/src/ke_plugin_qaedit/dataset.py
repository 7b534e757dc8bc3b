"""The dataset classes: the published file, and the embedded records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from attrs import evolve, field, frozen

from ke_benchmarks import EmbeddedDataset, FileDataset, digest_of_json, embedded_records, with_decoys
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
    """QAEdit. It reads cases from the file as they are requested."""

    config: QAEditConfig = field(factory=QAEditConfig)

    def cases(self) -> Iterator[Case]:
        """Yield every case in the order of the file, with its position from 0 as id."""
        for place, (record, decoy) in enumerate(with_decoys(self.all_records(), lambda record: record.target)):
            yield case(str(place), record, decoy, self.config.locality)

    def all_records(self) -> Iterable[QAEditRecord]:
        """Yield the records of the file."""
        return self.records(QAEditRecord, key="")

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

    def all_records(self) -> Iterable[QAEditRecord]:
        """Return the embedded records."""
        return embedded_records(atlas_records(), QAEditRecord, self.variant.name)

    def checksum(self) -> str:
        """Return the checksum of the records."""
        return digest_of_json(atlas_records())
