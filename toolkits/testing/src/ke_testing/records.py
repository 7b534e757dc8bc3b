"""Small records for tests of metrics that read a judge's findings."""

from __future__ import annotations

from ke_core.app import aggregate, discover, read_catalog
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
GOLD = Gold(entities=(Entity(label="x"),))
OWN, ASKED = (Query(id=name, texts=(name,), gold=GOLD) for name in ("own", QUESTION))
PROBES = (
    Probe(id="own", aspect=EFFICACY, queries=(OWN,), edits=("e",)),
    Probe(id="reasoning", aspect="reasoning", queries=(ASKED,), phase="both", edits=("e",)),
)


def labeled_outcome(*labels: str, reply: Reply | None = None) -> Outcome:
    """Return an answer with one finding for each label."""
    findings = tuple(Finding(item=f"fact {number}", label=label) for number, label in enumerate(labels))
    return Outcome(reply=reply or Answer(text="x"), judgment=Judgment(verdict=Verdict.UNSURE, findings=findings))


def reasoning_record(case: str = "1", scheme: str = "sorting", **outcomes: Outcome) -> CaseRecord:
    """Return a case with one edit and one question with a chain of thought.

    ``before`` and ``after``: the outcomes of the question.
    """
    made = Case(id=case, edits=(Edit(id="e", statement="s"),), probes=PROBES, tags={"scheme": scheme})
    told = {(phase, "cot", QUESTION): outcomes[phase] for phase in PHASES if phase in outcomes}
    return CaseRecord(case=made, batch=case, outcomes={**told, ("after", "cot", "own"): labeled_outcome("no-thoughts")})


def metric_scores(name: str, *records: CaseRecord) -> dict[tuple[str, str], MetricScore]:
    """Return the untagged scores of an installed metric with its default options, by aspect and phase."""
    spec = read_catalog(discover()).spec("metric", name)
    assert isinstance(spec, MetricSpec)
    found = aggregate(spec.build(spec.config()), spec, records, seed=0)
    return {(score.aspect, score.phase): score for score in found if not score.tags}
