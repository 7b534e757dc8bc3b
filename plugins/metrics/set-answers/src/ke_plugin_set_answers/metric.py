r"""CompKE's metrics (appendix D.3), from the judgments of one case.

A is the answer set before the edits, A* the set after them, P the answered set; A_aug = A* \ A, A_ret = A* & A.

============ =================================================================== ==================
aspect       value, for one wording of the question                              undefined if
============ =================================================================== ==================
aug          \|P & A_aug\| / \|A_aug\|                                           A_aug is empty
ret          \|P & A_ret\| / \|A_ret\|                                           A_ret is empty
acc          the mean of the two means (``MetricSpec.averages``)
acc-question the mean of those of aug and ret that are defined, over questions   both are empty
precision    \|P & A*\| / \|P\|                                                  P is empty
deletion     1 - \|P & (A \ A*)\| / \|A \ A*\|                                   nothing is deleted, P is empty
exact        1 if P is A*
empty-aug    1 if A_aug is empty: nothing to add
empty-ret    1 if A_ret is empty: nothing to retain
any-aug      for one case: the best wording's aug (any-ret, any-exact likewise)
edit-wise    for each edit: 1 if its own question is answered with exactly its   the case is a control
             new objects
pre-edit-... recall (\|P & A\| / \|A\|) and exact (1 if P is A), of the       A is empty (recall)
             unedited model
============ =================================================================== ==================

The first three are recalls: extra items are not penalized, and repeating the injected objects looks like success. The
next three are not in the paper. Without ``pre-edit-``, the unedited model is compared with the same sets as the edited
one. For a control, A* is A, so ``ret`` is the recall of its unchanged answer, and nothing is added or deleted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from attrs import evolve, field, frozen

from ke_core.plugin import (
    EFFICACY,
    JUDGE_UNSURE,
    NOT_ON_RECORD,
    PHASES,
    CaseRecord,
    Gold,
    Outcome,
    Phase,
    Probe,
    Query,
    Value,
    Verdict,
    withheld,
)
from ke_plugin_set_answers import SetAnswersConfig

COMPLEX, PRE_EDIT = "complex", "pre-edit-"
NAMED, LISTED = ("gold", "pre-edit"), ("gold", "pre-edit", "extra")
EACH = ("aug", "ret", "acc-question", "precision", "deletion", "exact")
Part = Literal["aug", "ret"]
WHY: dict[Part, str] = {"aug": "nothing to add", "ret": "nothing to retain"}


@frozen(kw_only=True)
class AnswerSets:
    """The sets of one question in one phase, and the answer: members by key, and the number of items."""

    before: frozenset[str]
    after: frozenset[str]
    named: frozenset[str]
    listed: int

    @classmethod
    def of(cls, query: Query, outcome: Outcome, *, edited: bool) -> AnswerSets:
        """Create from a judgment of the judge ``set``."""
        old = _keys(query.pre_edit or query.gold)
        found = outcome.judgment.findings
        return cls(
            before=old,
            after=_keys(query.gold) if edited else old,
            named=frozenset(f.entity for f in found if f.label in NAMED and f.entity is not None),
            listed=sum(f.label in LISTED for f in found),
        )

    def part(self, part: Part) -> frozenset[str]:
        """Return A_aug or A_ret."""
        return self.after - self.before if part == "aug" else self.after & self.before

    def recall(self, part: Part) -> float | None:
        """Return the fraction of it that was answered; None if it is empty."""
        wanted = self.part(part)
        return len(self.named & wanted) / len(wanted) if wanted else None

    @property
    def precision(self) -> float | None:
        """Return the fraction of the answer that is right."""
        return len(self.named & self.after) / self.listed if self.listed else None

    @property
    def deletion(self) -> float | None:
        """Return the fraction of the deleted members that is no longer answered; None if there are none."""
        gone = self.before - self.after
        return 1 - len(self.named & gone) / len(gone) if gone else None

    @property
    def exact(self) -> bool:
        """Return whether the answer is exactly the set. Without gold it never is, not even if empty."""
        return bool(self.after) and self.named == self.after and self.listed == len(self.after)


@frozen
class SetAnswers:
    """Computes values from records."""

    config: SetAnswersConfig

    def values(self, record: CaseRecord) -> Iterator[Value]:
        """Yield every observation of this case."""
        for probe in record.case.probes:
            for phase in PHASES:
                if probe.aspect not in (EFFICACY, COMPLEX) or not probe.asked(phase):
                    continue
                for style in record.styles_of(probe, phase) or ("",):
                    yield from self._probe(record, probe, phase, style)

    def _probe(self, record: CaseRecord, probe: Probe, phase: Phase, style: str) -> Iterator[Value]:
        made = ObservedCase(record=record, phase=phase, style=style, tags=probe.tags)
        if probe.aspect == EFFICACY:
            yield from made.edit_wise(probe)
            return
        seen: list[AnswerSets] = []
        for query in probe.queries:
            outcome = record.outcomes.get((phase, style, query.id))
            why = record.skipped or _why(outcome)
            if why or outcome is None:
                yield from evolve(made, tags=query.tags).missing(why)
                continue
            sets = AnswerSets.of(query, outcome, edited=record.edited)
            seen.append(sets)
            yield from self._question(evolve(made, tags=query.tags), sets)
            if phase == "before":
                yield from _pre_edit(evolve(made, tags=query.tags), AnswerSets.of(query, outcome, edited=False))
        yield from _best(made, seen, whole=len(seen) == len(probe.queries))

    def _question(self, made: ObservedCase, sets: AnswerSets) -> Iterator[Value]:
        empty = {"one": 1.0, "zero": 0.0}.get(self.config.empty)
        recalls = {part: sets.recall(part) for part in WHY}
        for part, reason in WHY.items():
            value = recalls[part]
            yield made.value(part, empty if value is None else value, reason)
            yield made.value(f"empty-{part}", float(value is None))
        defined = [value for value in recalls.values() if value is not None]
        yield made.value("acc-question", sum(defined) / len(defined) if defined else None, "the answer is empty")
        silent = "nothing was answered"
        yield made.value("precision", sets.precision, silent)
        yield made.value(
            "deletion", sets.deletion if sets.listed else None, silent if not sets.listed else "nothing to delete"
        )
        yield made.value("exact", float(sets.exact))


@frozen(kw_only=True)
class ObservedCase:
    """One case in one phase and style: the source of values, and their tags."""

    record: CaseRecord
    phase: Phase
    style: str
    tags: Mapping[str, str] = field(factory=dict)

    def value(self, aspect: str, value: float | None, why: str = "", *, unit: str = "") -> Value:
        """Return one observation, or a missing value with the reason."""
        return Value(
            aspect=aspect,
            value=value,
            phase=self.phase,
            style=self.style,
            unit=unit or self.record.case.id,
            tags=self.tags,
            skipped_because="" if value is not None else why,
        )

    def missing(self, why: str) -> Iterator[Value]:
        """Return the missing values of a question without a judgment."""
        yield from (self.value(aspect, None, why) for aspect in EACH)

    def edit_wise(self, probe: Probe) -> Iterator[Value]:
        """Return whether the edit's own question is answered correctly. For a control, other cases may have edited its
        fact.
        """
        for query in probe.queries:
            outcome = self.record.outcomes.get((self.phase, self.style, query.id))
            why = self.record.skipped or withheld(self.record, self.phase) or _why(outcome)
            right = outcome is not None and outcome.judgment.verdict is Verdict.RIGHT
            aspect = f"{PRE_EDIT if self.phase == 'before' else ''}edit-wise"  # judged with the answers of that phase
            yield self.value(aspect, None if why else float(right), why, unit=",".join(probe.edits))


def _pre_edit(made: ObservedCase, sets: AnswerSets) -> Iterator[Value]:
    """Yield how much of the pre-edit answer the unedited model recalls."""
    yield made.value(f"{PRE_EDIT}recall", sets.recall("ret"), WHY["ret"])
    yield made.value(f"{PRE_EDIT}exact", float(sets.exact))


def _best(made: ObservedCase, seen: Sequence[AnswerSets], *, whole: bool) -> Iterator[Value]:
    """Return the best of all wordings, as in MQuAKE; one missing wording would bias it."""
    for part, reason in WHY.items():
        values = [value for sets in seen if (value := sets.recall(part)) is not None]
        best = max(values) if whole and values else None
        yield made.value(f"any-{part}", best, reason if whole else NOT_ON_RECORD)
    yield made.value("any-exact", float(any(sets.exact for sets in seen)) if whole else None, NOT_ON_RECORD)


def _why(outcome: Outcome | None) -> str:
    if outcome is None:
        return NOT_ON_RECORD
    return JUDGE_UNSURE if outcome.judgment.verdict is Verdict.UNSURE else ""


def _keys(gold: Gold) -> frozenset[str]:
    return frozenset(entity.key for entity in gold.entities)
