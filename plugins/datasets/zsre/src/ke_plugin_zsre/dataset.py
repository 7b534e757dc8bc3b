"""The dataset class."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

from attrs import frozen

from ke_benchmarks import FileDataset
from ke_core.plugin import Case, Decoding, Prompt, Query
from ke_plugin_zsre import STYLES
from ke_plugin_zsre.cases import ZsreAlternative, ZsreRecord, case

WORDS = Decoding(max_tokens=24, stop=("\n",))


@frozen(kw_only=True)
class Zsre(FileDataset):
    """zsRE. It reads cases from the file as they are requested."""

    def cases(self) -> Iterator[Case]:
        """Yield every case in the order of the file, with its position from 0 as id.

        With ``target=alt``, records with a blank ``alt`` are skipped; a warning at the end states how many.
        """
        left_out = 0
        for place, record in enumerate(
            self.records(ZsreAlternative if self.config.target == "alt" else ZsreRecord, key="")
        ):
            if isinstance(record, ZsreAlternative) and not record.alt.strip():
                left_out += 1
            else:
                yield case(str(place), record)
        if left_out:
            warnings.warn(f"{self.variant.file}: skipped because of a blank alt: {left_out}", stacklevel=2)

    def prompt(self, query: Query, style: str) -> Prompt | None:
        """Return the bare question, as in the published evaluations."""
        return Prompt(text=query.texts[0], decoding=WORDS) if style in STYLES else None
