"""The dataset class."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from attrs import frozen

from ke_benchmarks import FileDataset, usable_records
from ke_core.plugin import Case, Decoding, Prompt, Query
from ke_plugin_zsre import STYLES
from ke_plugin_zsre.cases import ZsreAlternative, ZsreRecord, case

WORDS = Decoding(max_tokens=24, stop=("\n",))


@frozen(kw_only=True)
class Zsre(FileDataset):
    """zsRE. It reads cases from the file as they are requested."""

    hop_by_hop: ClassVar[bool] = True

    def cases(self) -> Iterator[Case]:
        """Yield every case in the order of the file, with its position from 0 as id.

        With ``target=alt``, records with a blank ``alt`` are skipped; a warning at the end states how many.
        """
        records = enumerate(self.records(ZsreAlternative if self.config.target == "alt" else ZsreRecord, key=""))
        for place, record in usable_records(records, _usable, f"{self.variant.file}: skipped because of a blank alt"):
            yield case(str(place), record)

    def prompt(self, query: Query, style: str) -> Prompt | None:
        """Return the bare question, as in the published evaluations."""
        return Prompt(text=query.texts[0], decoding=WORDS) if style in STYLES else None


def _usable(numbered: tuple[int, ZsreRecord]) -> bool:
    return not isinstance(numbered[1], ZsreAlternative) or bool(numbered[1].alt.strip())
