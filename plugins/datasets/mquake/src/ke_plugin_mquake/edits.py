"""The view by edits: every distinct edit is a case of its own, with neighbors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from attrs import evolve, field, frozen

from ke_benchmarks import single_edit_cases, sort_key
from ke_core.plugin import Case, Edit, Fact, Query

NEAR = 10
"""Clozes of other subjects for each edit, like CounterFact's neighborhood prompts."""


def edit_cases(found: Sequence[Case]) -> Iterator[Case]:
    """Return each distinct edit as a case, in the order of first mention."""
    return single_edit_cases(found, UneditedFacts.of(found).near)


@frozen(kw_only=True)
class UneditedFacts:
    """True facts whose subjects no edit of the file changes, by relation, in pseudo-random order."""

    facts: Mapping[str, Sequence[tuple[Fact, Query]]] = field(factory=dict)

    @classmethod
    def of(cls, found: Sequence[Case]) -> UneditedFacts:
        """Collect the facts of all old chains. Subjects are compared by id and by label: labels are ambiguous."""
        edits = [edit for case in found for edit in case.edits if edit.after is not None]
        touched = {name for edit in edits if edit.after for name in (edit.after.subject.key, edit.after.subject.label)}
        facts: dict[str, dict[str, tuple[Fact, Query]]] = {}
        for case in found:
            hops = next(probe.queries for probe in case.probes if probe.id == "instance-before")
            for fact, hop in zip(case.facts_before, hops, strict=True):
                if fact.subject.key not in touched and fact.subject.label not in touched and hop.cloze:
                    facts.setdefault(fact.relation.key, {}).setdefault(hop.cloze, (fact, hop))
        return cls(
            facts={
                relation: [known[cloze] for cloze in sorted(known, key=lambda cloze: sort_key(relation, cloze))]
                for relation, known in facts.items()
            }
        )

    def near(self, edit: Edit, after: Fact) -> tuple[Query, ...]:
        """Return up to ten clozes whose objects differ from the edit's new one: equal objects could not reveal a
        change.

        A hash of the edit's id selects them, so they depend neither on the run nor on the other edits.
        """
        known = self.facts.get(after.relation.key, ())
        start = int(sort_key("start", edit.id)[:8], 16)
        turned = (known[(start + at) % len(known)] for at in range(len(known)))
        taken = {name.casefold() for name in after.objects[0].names}
        names = ((fact, hop) for fact, hop in turned if fact.objects[0].key != after.objects[0].key)
        chosen = [hop for fact, hop in names if fact.objects[0].label.casefold() not in taken][:NEAR]
        return tuple(evolve(hop, id=f"near-{number}") for number, hop in enumerate(chosen, start=1))
