"""The dataset itself: what the core calls."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import frozen

from ke_core.plugin import Case, Decoding, FileDataset, Prompt, Query
from ke_plugin_zsre import STYLES
from ke_plugin_zsre.cases import case
from ke_plugin_zsre.records import Record

WORDS = Decoding(max_tokens=24, stop=("\n",))


@frozen(kw_only=True)
class Zsre(FileDataset):
    """zsRE. Its cases are read from the file as they are asked for."""

    def cases(self) -> Iterator[Case]:
        """Every case, in the order of the file, named by its place there from 0 on."""
        for place, record in enumerate(self.records(Record, key="")):
            yield case(str(place), record, self.config.target)

    def prompt(self, query: Query, style: str) -> Prompt | None:
        """The bare question, as the published evaluations put it."""
        return Prompt(text=query.texts[0], decoding=WORDS) if style in STYLES else None
