"""The dataset class."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from attrs import frozen

from ke_benchmarks import FileDataset, LazyMapping
from ke_core.plugin import Case, Decoding, Material, Parse, Prompt, Query
from ke_plugin_counterfact import STYLES
from ke_plugin_counterfact.cases import OPENING, case
from ke_plugin_counterfact.records import CounterfactRecord

WORDS = Decoding(max_tokens=24, stop=("\n",))
ON = Decoding(max_tokens=100)
"""Length of the texts in ROME's fluency measurement; nothing stops them earlier."""


@frozen(kw_only=True)
class Counterfact(FileDataset):
    """CounterFact. It reads cases from the file as they are requested."""

    hop_by_hop: ClassVar[bool] = True

    def cases(self) -> Iterator[Case]:
        """Yield every case in the order of the file."""
        return (case(record, self.config.openings) for record in self.records(CounterfactRecord))

    def prompt(self, query: Query, style: str) -> Prompt | None:
        """Return the bare sentence, as in ROME's evaluation. Openings have no stop rule."""
        if style in STYLES and query.id.startswith(OPENING):
            return Prompt(text=query.texts[0], decoding=ON, parse=Parse(until=""))
        return Prompt(text=query.texts[0], decoding=WORDS) if style in STYLES else None

    def material(self) -> Mapping[str, Material]:
        """Return the oracle tables of every dataset, and two more by case id.

        ``generation-prompts``: openings about the subject, to measure fluency. ``attribute-prompts``: clozes about
        subjects that really have the edit's new object. Neither is scored.
        """

        def by_case(name: str) -> Material:
            found = lambda: {str(r.case_id): getattr(r, name) for r in self.records(CounterfactRecord)}  # noqa: E731
            return Material(value=LazyMapping(found), oracle=True)

        return {
            **super().material(),
            "generation-prompts": by_case("generation_prompts"),
            "attribute-prompts": by_case("attribute_prompts"),
        }
