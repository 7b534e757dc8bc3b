"""MQuAKE's metrics (Zhong et al. 2023, section 3.2), from the judgements of one case.

=============== ===============================================================================================
aspect          value, for one case unless it says otherwise
=============== ===============================================================================================
edit-wise       for each edit: 1 if its own question (or cloze) is answered right; a mean over edits, not cases
instance-wise   1 if every single-hop question behind the multi-hop one is answered right
multi-hop       1 if any wording of the multi-hop question is answered right, however many there are
multi-hop-stale 1 if none is right, and one gets the answer that was right before the edit
edit-retrieval  for each edit: 1 if it is the first thing retrieved for its own question
retrieval       1 if, for some wording of the multi-hop question, every edit of the case was retrieved (Table 14)
hops-answered   for each wording of the multi-hop question: the share of its hops whose answer some step arrived at
edit-weighed    for each hop of such a wording whose edit some step retrieved: 1 if that step arrived at its object
=============== ===============================================================================================

The two of retrieval exist only for cases where some answer has steps, that is, where the method looks things up; a
question for which it looked up nothing, or which failed, then counts as 0. Controls have no edits to retrieve. The two
after them exist where steps are sub-questions; no judge sees a step, so its answer is compared here, with the hop's
gold names, letters' case and a full stop at the end aside. How many answers could not be read, or failed, is counted by
the core for every benchmark.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from attrs import field, frozen

from ke_core.plugin import EFFICACY, Answer, CaseRecord, Outcome, Phase, Probe, Query, Step, Value, Verdict

INSTANCE, MULTI_HOP = "instance", "multi-hop"
SUBQUESTION = "subquestion"
HEADLINE = {EFFICACY: "edit-wise", INSTANCE: "instance-wise", MULTI_HOP: "multi-hop"}
PHASES: tuple[Phase, ...] = ("before", "after")


@frozen(kw_only=True)
class Asked:
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
            skipped_because=self.missing,
        )

    @property
    def right(self) -> bool:
        """Whether the probe is passed: one right answer, or all, as it requires."""
        verdicts = [outcome.judgement.verdict is Verdict.RIGHT for outcome in self.outcomes]
        return any(verdicts) if self.probe.require == "any" else all(verdicts)

    @property
    def stale(self) -> bool:
        """Whether the old answer was given, and never the new one."""
        verdicts = {outcome.judgement.verdict for outcome in self.outcomes}
        return Verdict.STALE in verdicts and Verdict.RIGHT not in verdicts


@frozen(kw_only=True)
class MultiHop:
    """Reads records; nothing else."""

    def values(self, record: CaseRecord) -> Iterator[Value]:
        """Every observation of this case."""
        looks_up = record.edited and _looks_up(record)
        goes_by_hops = record.edited and any(step.kind == SUBQUESTION for step in _steps(record))
        for asked in _asked(record):
            yield asked.value(HEADLINE[asked.probe.aspect], asked.right)
            if asked.probe.aspect == MULTI_HOP:
                yield asked.value("multi-hop-stale", asked.stale)
            if looks_up and asked.phase == "after":
                yield from _retrieved(asked, [edit.id for edit in record.case.edits])
            if goes_by_hops and asked.phase == "after" and asked.probe.aspect == MULTI_HOP:
                yield from _hops(asked)


def _looks_up(record: CaseRecord) -> bool:
    """Whether the method goes by steps; then an answer that failed before its first look-up counts too."""
    return any(True for _step in _steps(record))


def _steps(record: CaseRecord) -> Iterator[Step]:
    """Every step of the edited model's answers."""
    for (phase, _style, _query), outcome in record.outcomes.items():
        if phase == "after" and isinstance(outcome.reply, Answer):
            yield from outcome.reply.steps


def _retrieved(asked: Asked, edits: Sequence[str]) -> Iterator[Value]:
    """Whether what was looked up was what was needed. The single-hop questions of an instance need no edit each."""
    answers = [outcome.reply for outcome in asked.outcomes if isinstance(outcome.reply, Answer)]
    found = [[name for step in answer.steps for name in step.retrieved] for answer in answers]
    if asked.probe.aspect == EFFICACY:
        yield asked.value("edit-retrieval", any(names[:1] == list(asked.probe.edits) for names in found))
    elif asked.probe.aspect == MULTI_HOP:
        yield asked.value("retrieval", any(set(edits) <= set(names) for names in found))


def _hops(asked: Asked) -> Iterator[Value]:
    """How far each wording's steps came, hop by hop."""
    if asked.missing:
        yield asked.value("hops-answered", 0)
        return
    for query, outcome in zip(asked.probe.queries, asked.outcomes, strict=True):
        reply = outcome.reply
        steps = [step for step in reply.steps if step.kind == SUBQUESTION] if isinstance(reply, Answer) else []
        if query.hops:
            arrived = [any(_names(hop, step) for step in steps) for hop in query.hops]
            yield asked.value("hops-answered", sum(arrived) / len(arrived))
        for hop in query.hops:
            found = [step for step in steps if hop.edit is not None and step.retrieved[:1] == (hop.edit,)]
            if found:
                yield asked.value("edit-weighed", any(_names(hop, step) for step in found))


def _names(hop: Query, step: Step) -> bool:
    """Whether the step's answer is a gold name of the hop."""
    said = _plain(step.answer)
    return bool(said) and any(said == _plain(name) for entity in hop.gold.entities for name in entity.names)


def _plain(text: str) -> str:
    return " ".join(text.casefold().split()).removesuffix(".")


def _asked(record: CaseRecord) -> Iterator[Asked]:
    """Every probe of the case in every phase and style in which it was asked; one that was not, without a style."""
    for probe in record.case.probes:
        unit = ",".join(probe.edits) if probe.aspect == EFFICACY else record.case.id
        for phase in PHASES:
            if probe.aspect not in HEADLINE or not probe.asked(phase):
                continue
            for style in _styles(record, probe, phase) or ("",):
                outcomes = [record.outcomes.get((phase, style, query.id)) for query in probe.queries]
                there = [outcome for outcome in outcomes if outcome is not None]
                missing = record.skipped or _missing(len(outcomes) - len(there), there)
                yield Asked(probe=probe, phase=phase, style=style, unit=unit, outcomes=there, missing=missing)


def _styles(record: CaseRecord, probe: Probe, phase: Phase) -> tuple[str, ...]:
    names = [query.id for query in probe.queries]
    return tuple(s for s in record.styles(phase) if any((phase, s, name) in record.outcomes for name in names))


def _missing(absent: int, there: Sequence[Outcome]) -> str:
    """Why a probe has no verdict. One missing answer is enough: the others alone would favour one side."""
    if absent:
        return "a question has no answer on record"
    unsure = any(outcome.judgement.verdict is Verdict.UNSURE for outcome in there)
    return "the judge could not say" if unsure else ""
