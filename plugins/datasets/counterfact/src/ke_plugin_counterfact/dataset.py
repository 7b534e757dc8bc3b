"""The dataset itself: what the core calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from attrs import frozen

from ke_benchmarks import FileDataset, LazyMapping
from ke_core.plugin import Case, Decoding, Material, Parse, Prompt, Query
from ke_plugin_counterfact import STYLES
from ke_plugin_counterfact.cases import OPENING, case
from ke_plugin_counterfact.records import CounterfactRecord

WORDS = Decoding(max_tokens=24, stop=("\n",))
ON = Decoding(max_tokens=100)
"""As long as ROME's fluency is measured on; nothing ends it."""


@frozen(kw_only=True)
class Counterfact(FileDataset):
    """CounterFact. Its cases are read from the file as they are asked for."""

    def cases(self) -> Iterator[Case]:
        """Every case, in the order of the file."""
        return (case(record, self.config.openings) for record in self.records(CounterfactRecord))

    def prompt(self, query: Query, style: str) -> Prompt | None:
        """The bare sentence, as ROME is evaluated; an opening is gone on from, whatever is written."""
        if style in STYLES and query.id.startswith(OPENING):
            return Prompt(text=query.texts[0], decoding=ON, parse=Parse(until=""))
        return Prompt(text=query.texts[0], decoding=WORDS) if style in STYLES else None

    def material(self) -> Mapping[str, Material]:
        """The oracle tables of every dataset, and two of this one, oracle too, by case id.

        ``generation-prompts``: openings about the subject, for a measure of fluency. ``attribute-prompts``: clozes of
        subjects that have the edit's new object in truth. Neither counts in the scores of this dataset.
        """
        return {
            **super().material(),
            "generation-prompts": Material(
                value=LazyMapping(
                    lambda: {str(r.case_id): r.generation_prompts for r in self.records(CounterfactRecord)}
                ),
                oracle=True,
            ),
            "attribute-prompts": Material(
                value=LazyMapping(
                    lambda: {str(r.case_id): r.attribute_prompts for r in self.records(CounterfactRecord)}
                ),
                oracle=True,
            ),
        }
