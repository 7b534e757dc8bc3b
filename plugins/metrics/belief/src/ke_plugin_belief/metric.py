"""Whether edits are believed: values of the belief tests, for both models.

=================== ===============================================================================================
aspect              value of an edit
=================== ===============================================================================================
choice              fraction of the two orders in which the new object is chosen (A, B or "not sure", no context)
choice-old, -unsure the same for the old object, for "not sure"
choice-flips        1 if the choice depends on the order
choice-of-two       as ``choice``, without the option "not sure"
choice-supporting   as ``choice``, after a sentence with the new object; -irrelevant, -contradicting: another fact, the
                    old object
reversal            fraction of the two orders in which the subject is chosen, given the new object
conflict            1 if the answer is the new object after a sentence that states the old one
conflict-old        1 if it is the old one
believed            1 if the new object is chosen in both orders, the subject in both, and the new object stated despite
                    the conflict
=================== ===============================================================================================

The letter with the highest log-probability is chosen; the first of equal ones. An answer that failed chooses nothing.

If the dataset has no old object, another object takes its place (see ``probes``), and the aspects that end in ``-old``
have no value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial

from attrs import frozen

from ke_core.plugin import (
    PHASES,
    CaseRecord,
    Edit,
    Failure,
    NoValue,
    Phase,
    Probe,
    Query,
    Value,
    Verdict,
    expected,
    log_probabilities,
    measured,
    outcome_of,
    verdict_of,
    withheld,
)
from ke_plugin_belief import BELIEVED, CHOICE, CONFLICT, CONTEXTS, FLIPS, NAME, OLD, REVERSAL, TWO, UNSURE
from ke_plugin_belief.probes import LETTERS, NONE, unsuitable
from ke_plugin_belief.probes import TWO as TWO_OPTIONS

NOT_ASKED = "the run did not ask it: use ke eval with --metric belief"
NO_OTHER = "the dataset has no other fact to test it with"
NO_OLD = "the dataset has no old object of the edit"
NO_ALTERNATIVE = "no old object and no other edit of the relation (or a run without --metric belief)"


class Belief:
    """Computes values from records."""

    def values(self, record: CaseRecord) -> Iterator[Value]:
        """Yield every value of each edit, in each phase and style."""
        for edit in record.case.edits:
            probes = {probe.aspect: probe for probe in record.case.probes if _tests(probe, edit)}
            for phase in PHASES:
                styles = [style for probe in probes.values() for style in record.styles_of(probe, phase)]
                for style in dict.fromkeys(styles) or ("",):
                    yield from _Answers(record=record, edit=edit, probes=probes, phase=phase, style=style).values()


def _tests(probe: Probe, edit: Edit) -> bool:
    return probe.aspect.startswith(f"{NAME}-") and probe.edits == (edit.id,)


@frozen(kw_only=True)
class _Answers:
    """The answers to the belief tests of one edit in one phase and style."""

    record: CaseRecord
    edit: Edit
    probes: Mapping[str, Probe]
    phase: Phase
    style: str

    def values(self) -> Iterator[Value]:
        why = self.record.skipped or withheld(self.record, self.phase) or unsuitable(self.edit)
        for aspect, measure in self._measures().items():
            yield measured(aspect, measure, why=why, phase=self.phase, style=self.style, unit=self.edit.id)

    def _measures(self) -> Mapping[str, Callable[[], float]]:
        new, old, unsure = (partial(self._chosen, CHOICE, which=which) for which in ("new", "old", "unsure"))
        return {
            CHOICE: new,
            CHOICE + OLD: old,
            CHOICE + UNSURE: unsure,
            CHOICE + FLIPS: lambda: len(set(self._choices(CHOICE, NONE))) > 1,
            CHOICE + TWO: partial(self._chosen, CHOICE, TWO_OPTIONS),
            **{f"{CHOICE}-{context}": partial(self._chosen, CHOICE, context) for context in CONTEXTS},
            REVERSAL: partial(self._chosen, REVERSAL),
            CONFLICT: partial(self._stated, new=True),
            CONFLICT + OLD: partial(self._stated, new=False),
            BELIEVED: lambda: min(self._chosen(CHOICE), self._chosen(REVERSAL), self._stated(new=True)) == 1,
        }

    def _chosen(self, kind: str, context: str = NONE, *, which: str = "new") -> float:
        """Return the fraction of the orders in which the option ``which`` is chosen."""
        if which == "old":
            self._check_old()
        found = self._choices(kind, context)
        return found.count(which) / len(found)

    def _choices(self, kind: str, context: str) -> list[str]:
        """Return the chosen option for each order: new, old, unsure, or none after a failure."""
        queries = [query for query in self._probe(kind).queries if query.tags["context"] == context]
        if not queries:
            raise NoValue(NO_OTHER)
        return [self._choice(query) for query in queries]

    def _choice(self, query: Query) -> str:
        reply = outcome_of(self.record, self.phase, self.style, query.id).reply
        if isinstance(reply, Failure) and not reply.unscored:
            return "none"
        scores = log_probabilities(reply).logprobs
        letter = LETTERS[scores.index(max(scores))]
        options = {query.gold.entities[0].label: "new", "C": "unsure"}
        return options.get(letter, "old")

    def _stated(self, *, new: bool) -> float:
        """Return whether the answer despite the conflict is the new object, or the old one."""
        if not new:
            self._check_old()
        probe = self._probe(CONFLICT)
        (query,) = probe.queries
        verdict = verdict_of(outcome_of(self.record, self.phase, self.style, query.id))
        right = expected(query, probe, self.phase, edited=True).gold == query.gold
        return verdict is (Verdict.RIGHT if right == new else Verdict.PRE_EDIT)

    def _check_old(self) -> None:
        if self.edit.before is None and self.probes:
            raise NoValue(NO_OLD)

    def _probe(self, kind: str) -> Probe:
        """Return the probe of that kind. Raises NoValue if there is none."""
        found = self.probes.get(f"{NAME}-{kind}")
        if found is None:
            raise NoValue(NO_OTHER if self.probes else NOT_ASKED if self.edit.before is not None else NO_ALTERNATIVE)
        return found
