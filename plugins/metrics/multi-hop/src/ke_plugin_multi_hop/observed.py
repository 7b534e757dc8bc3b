"""The probes of a case as they were asked: what both metrics of this package look at."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from attrs import evolve, field, frozen

from ke_core.plugin import (
    EDITS_WITHHELD,
    EFFICACY,
    JUDGE_UNSURE,
    NOT_ON_RECORD,
    CaseRecord,
    Outcome,
    Phase,
    Probe,
    Query,
    Value,
    Verdict,
)

INSTANCE, MULTI_HOP = "instance", "multi-hop"
PHASES: tuple[Phase, ...] = ("before", "after")
TURNED = {Verdict.RIGHT: Verdict.STALE, Verdict.STALE: Verdict.RIGHT}


@frozen(kw_only=True)
class ObservedProbe:
    """One probe of a case as it was asked in one phase and style. ``missing`` says why there is no verdict."""

    probe: Probe
    phase: Phase
    style: str
    unit: str
    outcomes: Sequence[Outcome] = field(factory=tuple)
    missing: str = ""

    def value(self, aspect: str, value: float) -> Value:
        """An observation; none, with the reason, where there is no verdict (V9)."""
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
        """Return the same answers of the unedited model, compared with the answers that are right after the edits.

        Before editing, judges take the pre-edit answer for right and the new one for stale. For a control the pre-edit
        answer stays right.
        """
        if self.missing or not edited:
            return self
        pairs = zip(self.probe.queries, self.outcomes, strict=True)
        return evolve(self, outcomes=[_turned(query, outcome) for query, outcome in pairs])

    @property
    def right(self) -> bool:
        """Whether the probe is passed: one right answer, or all, as it requires."""
        verdicts = [outcome.judgment.verdict is Verdict.RIGHT for outcome in self.outcomes]
        return any(verdicts) if self.probe.require == "any" else all(verdicts)

    @property
    def stale(self) -> bool:
        """Whether the old answer was given, and never the new one."""
        verdicts = {outcome.judgment.verdict for outcome in self.outcomes}
        return Verdict.STALE in verdicts and Verdict.RIGHT not in verdicts


def _turned(query: Query, outcome: Outcome) -> Outcome:
    """Swap right and stale, unless both stand for the same answer."""
    if query.stale in (None, query.gold):
        return outcome
    found = outcome.judgment
    return evolve(outcome, judgment=evolve(found, verdict=TURNED.get(found.verdict, found.verdict)))


def asked(record: CaseRecord, aspects: Collection[str]) -> Iterator[ObservedProbe]:
    """Probes of those aspects, in every phase and style in which they were asked; in none, without a style."""
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
    """Why a control's single facts have no verdict: those of its new chain may be edited by other cases, or by none."""
    single = probe.aspect in (EFFICACY, INSTANCE)
    return EDITS_WITHHELD if single and phase == "after" and not record.edited else ""


def _missing(absent: int, there: Sequence[Outcome]) -> str:
    """Why a probe has no verdict. One missing answer is enough: the others alone would favor one side."""
    if absent:
        return NOT_ON_RECORD
    unsure = any(outcome.judgment.verdict is Verdict.UNSURE for outcome in there)
    return JUDGE_UNSURE if unsure else ""
