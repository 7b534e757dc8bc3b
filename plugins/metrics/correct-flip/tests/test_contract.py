"""The metric keeps the contract of metrics, on a case with an edit and a question."""

from __future__ import annotations

import pytest

from ke_core.plugin import (
    EFFICACY,
    Answer,
    Case,
    CaseRecord,
    Edit,
    Entity,
    Gold,
    Judgment,
    Outcome,
    Probe,
    Query,
    Verdict,
)
from ke_testing.metric import MetricContract


class TestCorrectFlip(MetricContract):
    name = "correct-flip"

    @pytest.fixture
    def record(self) -> CaseRecord:
        gold = Gold(entities=(Entity(label="x"),), require="any")
        own, asked = (Query(id=name, texts=(name,), gold=gold) for name in ("own", "question"))
        probes = (
            Probe(id="own", aspect=EFFICACY, queries=(own,), edits=("e",)),
            Probe(id="reasoning", aspect="reasoning", queries=(asked,), phase="both", edits=("e",)),
        )
        right = Outcome(reply=Answer(text="x"), judgment=Judgment(verdict=Verdict.RIGHT))
        return CaseRecord(
            case=Case(id="1", edits=(Edit(id="e", statement="s"),), probes=probes, tags={"scheme": "sorting"}),
            batch="1",
            outcomes={
                ("before", "direct", "question"): right,
                ("after", "direct", "question"): right,
                ("after", "direct", "own"): right,
            },
        )
