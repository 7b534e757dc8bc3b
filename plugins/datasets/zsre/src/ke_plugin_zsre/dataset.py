"""The dataset itself: what the core calls."""

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
    """zsRE. Its cases are read from the file as they are asked for."""

    def cases(self) -> Iterator[Case]:
        """Every case, in the order of the file, named by its place there from 0 on.

        With ``target=alt`` a record whose ``alt`` is blank is none; how many there are, a warning says at the end.
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
            warnings.warn(f"{self.variant.file}: left out for a blank alt: {left_out}", stacklevel=2)

    def prompt(self, query: Query, style: str) -> Prompt | None:
        """The bare question, as the published evaluations put it."""
        return Prompt(text=query.texts[0], decoding=WORDS) if style in STYLES else None
