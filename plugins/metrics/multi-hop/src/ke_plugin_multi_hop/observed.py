"""The recorded probes of a case, used by both metrics of this package."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from attrs import evolve, field, frozen

from ke_core.plugin import (
    EFFICACY,
    JUDGE_UNSURE,
    NOT_ON_RECORD,
    PHASES,
    CaseRecord,
    Outcome,
    Phase,
    Probe,
    Query,
    Value,
    Verdict,
    withheld,
)

INSTANCE, MULTI_HOP = "instance", "multi-hop"
TURNED = {Verdict.RIGHT: Verdict.PRE_EDIT, Verdict.PRE_EDIT: Verdict.RIGHT}


@frozen(kw_only=True)
class ObservedProbe:
    """One probe of a case in one phase and style. ``missing``: why there is no verdict."""

    probe: Probe
    phase: Phase
    style: str
    unit: str
    outcomes: Sequence[Outcome] = field(factory=tuple)
    missing: str = ""

    def value(self, aspect: str, value: float) -> Value:
        """Return an observation; missing with the reason if there is no verdict."""
        return Value(
            aspect=aspect,
            value=None if self.missing else float(value),
            phase=self.phase,
            style=self.style,
            unit=self.unit,
            tags=self.probe.tags,
            skipped_because=self.missing,
        )

    def after_edits(self, *, edited: bool) -> ObservedProbe:
        """Return the unedited model's replies, compared with the answers that are right after the edits.

        Before editing, judges label the pre-edit answer as right and the new one as pre-edit. For a control the
        pre-edit answer stays right.
        """
        if self.missing or not edited:
            return self
        pairs = zip(self.probe.queries, self.outcomes, strict=True)
        return evolve(self, outcomes=[_turned(query, outcome) for query, outcome in pairs])

    @property
    def right(self) -> bool:
        """Return whether the probe passes: any or all answers right, as it requires."""
        verdicts = [outcome.judgment.verdict is Verdict.RIGHT for outcome in self.outcomes]
        return any(verdicts) if self.probe.require == "any" else all(verdicts)

    @property
    def pre_edit(self) -> bool:
        """Return whether the pre-edit answer was given, and never the new one."""
        verdicts = {outcome.judgment.verdict for outcome in self.outcomes}
        return Verdict.PRE_EDIT in verdicts and Verdict.RIGHT not in verdicts


def _turned(query: Query, outcome: Outcome) -> Outcome:
    """Swap right and pre-edit, unless both are the same answer."""
    if query.pre_edit in (None, query.gold):
        return outcome
    found = outcome.judgment
    return evolve(outcome, judgment=evolve(found, verdict=TURNED.get(found.verdict, found.verdict)))


def asked(record: CaseRecord, aspects: Collection[str]) -> Iterator[ObservedProbe]:
    """Return probes of those aspects for every recorded phase and style; without a style if there are no replies."""
    for probe in record.case.probes:
        unit = ",".join(probe.edits) if probe.aspect == EFFICACY else record.case.id
        for phase in PHASES:
            if probe.aspect not in aspects or not probe.asked(phase):
                continue
            for style in record.styles_of(probe, phase) or ("",):
                outcomes = [record.outcomes.get((phase, style, query.id)) for query in probe.queries]
                there = [outcome for outcome in outcomes if outcome is not None]
                missing = record.skipped or _withheld(record, probe, phase)
                missing = missing or _missing(len(outcomes) - len(there), there)
                yield ObservedProbe(probe=probe, phase=phase, style=style, unit=unit, outcomes=there, missing=missing)


def _withheld(record: CaseRecord, probe: Probe, phase: Phase) -> str:
    """Return why a control's single facts have no verdict: other cases may edit those of its new chain."""
    single = probe.aspect in (EFFICACY, INSTANCE)
    return withheld(record, phase) if single else ""


def _missing(absent: int, there: Sequence[Outcome]) -> str:
    """Return why a probe has no verdict. One missing answer is enough: using only the others would bias the rate."""
    if absent:
        return NOT_ON_RECORD
    unsure = any(outcome.judgment.verdict is Verdict.UNSURE for outcome in there)
    return JUDGE_UNSURE if unsure else ""
