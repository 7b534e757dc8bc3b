"""Small records for tests of metrics and reports."""

from __future__ import annotations

from typing import Any

from attrs import evolve

from ke_core.app import Component, DataRef, ModelRef, Plan, RunSpec, aggregate, installed_catalog
from ke_core.plugin import (
    EFFICACY,
    Answer,
    Case,
    CaseRecord,
    Edit,
    Entity,
    Finding,
    Gold,
    Judgment,
    MetricScore,
    MetricSpec,
    Outcome,
    Phase,
    Probe,
    Query,
    Reply,
    Verdict,
)

PHASES: tuple[Phase, ...] = ("before", "after")
QUESTION = "question"


def make_run_spec(editor: str | Component = "memit", *, dataset: str = "atlas", **changes: Any) -> RunSpec:
    """Return the specification of a run that was never made. ``changes``: its other fields."""
    spec = RunSpec(
        ke="0.1.0",
        model=ModelRef(source="hf", id="tiny", digest="abcdef0123456789", dtype="float32"),
        editor=Component(name=editor, distribution="d", version="1.0") if isinstance(editor, str) else editor,
        dataset=DataRef(component=Component(name=dataset, distribution="d", version="2.0"), sha256="0" * 64),
        styles=("direct",),
        plan=Plan(size=1),
        edited_form="cloze",
    )
    return evolve(spec, **changes)


def gold(*labels: str) -> Gold:
    """Return a gold answer with these labels."""
    return Gold(entities=tuple(Entity(label=label) for label in labels))


def outcome(reply: Reply | str, verdict: Verdict = Verdict.WRONG, findings: tuple[Finding, ...] = ()) -> Outcome:
    """Return a judged reply. A text becomes an answer."""
    reply = Answer(text=reply) if isinstance(reply, str) else reply
    return Outcome(reply=reply, judgment=Judgment(verdict=verdict, findings=findings))


def labeled_outcome(*labels: str, reply: Reply | str = "x") -> Outcome:
    """Return an answer with one finding for each label."""
    findings = tuple(Finding(item=f"fact {number}", label=label) for number, label in enumerate(labels))
    return outcome(reply, Verdict.UNSURE, findings)


def reasoning_record(case: str = "1", scheme: str = "sorting", **outcomes: Outcome) -> CaseRecord:
    """Return a case with one edit and one question with a chain of thought.

    ``before`` and ``after``: the outcomes of the question.
    """
    own, asked = (Query(id=name, texts=(name,), gold=gold("x")) for name in ("own", QUESTION))
    probes = (
        Probe(id="own", aspect=EFFICACY, queries=(own,), edits=("e",)),
        Probe(id="reasoning", aspect="reasoning", queries=(asked,), phase="both", edits=("e",)),
    )
    made = Case(id=case, edits=(Edit(id="e", statement="s"),), probes=probes, tags={"scheme": scheme})
    told = {(phase, "cot", QUESTION): outcomes[phase] for phase in PHASES if phase in outcomes}
    return CaseRecord(case=made, batch=case, outcomes={**told, ("after", "cot", "own"): labeled_outcome("no-thoughts")})


def metric_scores(name: str, *records: CaseRecord) -> dict[tuple[str, str], MetricScore]:
    """Return the untagged scores of an installed metric with its default options, by aspect and phase."""
    spec = installed_catalog().spec("metric", name)
    assert isinstance(spec, MetricSpec)
    found = aggregate(spec.build(spec.config()), spec, records, seed=0)
    return {(score.aspect, score.phase): score for score in found if not score.tags}
