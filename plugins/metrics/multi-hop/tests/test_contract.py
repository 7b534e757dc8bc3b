"""Both metrics keep the contract of metrics."""

import pytest
from attrs import evolve

from ke_core.plugin import Answer, CaseRecord, Step
from ke_testing.metric import MetricContract
from ke_testing.toy import toy_record


class TestMultiHop(MetricContract):
    name = "multi-hop"


class TestRetrieval(MetricContract):
    name = "retrieval"

    @pytest.fixture
    def record(self) -> CaseRecord:
        """Of a method that looks things up."""
        toy = toy_record()
        reply = Answer(text="Italy", steps=(Step(kind="subquestion", text="?", retrieved=("x",), answer="Rome"),))
        return evolve(toy, outcomes={key: evolve(one, reply=reply) for key, one in toy.outcomes.items()})
