"""The dataset itself: what the core calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from attrs import frozen

from ke_core.plugin import Case, Decoding, Deferred, FileDataset, Material, Prompt, Query
from ke_plugin_counterfact import STYLES
from ke_plugin_counterfact.cases import case
from ke_plugin_counterfact.records import Record

WORDS = Decoding(max_tokens=24, stop=("\n",))


@frozen(kw_only=True)
class Counterfact(FileDataset):
    """CounterFact. Its cases are read from the file as they are asked for."""

    def cases(self) -> Iterator[Case]:
        """Every case, in the order of the file."""
        return map(case, self.records(Record))

    def prompt(self, query: Query, style: str) -> Prompt | None:
        """The bare sentence, as ROME is evaluated."""
        return Prompt(text=query.texts[0], decoding=WORDS) if style in STYLES else None

    def material(self) -> Mapping[str, Material]:
        """The oracle tables of every dataset, and two of this one, oracle too, by case id.

        ``generation-prompts``: openings about the subject, for a measure of fluency. ``attribute-prompts``: clozes of
        subjects that have the edit's new object in truth. Neither counts in the scores of this dataset.
        """
        return {
            **super().material(),
            "generation-prompts": Material(
                value=Deferred(lambda: {str(r.case_id): r.generation_prompts for r in self.records(Record)}),
                oracle=True,
            ),
            "attribute-prompts": Material(
                value=Deferred(lambda: {str(r.case_id): r.attribute_prompts for r in self.records(Record)}), oracle=True
            ),
        }
