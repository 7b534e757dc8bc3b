"""The ripple metric keeps the contract of metrics, on an edit with a test of each criterion."""

from __future__ import annotations

from typing import ClassVar

import pytest

from ke_core.plugin import EFFICACY, Case, CaseRecord, Edit, Entity, Gold, Judgment, Outcome, Probe, Query, Verdict
from ke_core.plugin import Answer as Said
from ke_plugin_ripple import CRITERIA
from ke_testing.metric import MetricContract


def one_of_each() -> CaseRecord:
    def query(name: str) -> Query:
        return Query(id=name, texts=(name,), form="cloze", gold=Gold(entities=(Entity(label="x"),), require="any"))

    own = Probe(id="own", aspect=EFFICACY, queries=(query("own"),), edits=("e",))
    tests = [Probe(id=a, aspect=a, queries=(query(a),), given=(query(f"{a}-given"),)) for a in CRITERIA]
    case = Case(id="1", edits=(Edit(id="e", statement="s"),), probes=(own, *tests))
    right = Outcome(reply=Said(text="x"), judgment=Judgment(verdict=Verdict.RIGHT))
    before = {("before", "cloze", given.id): right for probe in tests for given in probe.given}
    after = {("after", "cloze", asked.id): right for probe in case.probes for asked in probe.queries}
    return CaseRecord(case=case, batch="1", outcomes=before | after)


class TestRipple(MetricContract):
    name = "ripple"

    @pytest.fixture
    def record(self) -> CaseRecord:
        return one_of_each()


class TestAsReleased(TestRipple):
    options: ClassVar[dict[str, str]] = {"targets": "all", "unit": "tests", "aliasing": "old", "edits": "all"}
