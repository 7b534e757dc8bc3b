"""Verdicts for given log-probabilities."""

import pytest
from attrs import evolve

from ke_core.plugin import Answer, Entity, Gold, Item, Query, Scored, Verdict
from ke_plugin_probability import ProbabilityConfig, build
from ke_testing.contract import ComponentContract

NEW, OLD = Gold(entities=(Entity(label="Rome"),)), Gold(entities=(Entity(label="San Juan"),))
QUERY = Query(
    id="q", texts=("The tower is in",), form="cloze", continuations=(" Rome", " San Juan"), gold=NEW, pre_edit=OLD
)


class TestContract(ComponentContract):
    kind = "judge"
    name = "probability"

    def test_spec_declares_scored(self, spec):
        assert spec.scored


def verdict(reply, query=QUERY, **options):
    (found,) = build(ProbabilityConfig(**options)).judge(None, [Item(query=query, reply=reply)])
    return found.verdict


@pytest.mark.parametrize(
    ("logprobs", "compare", "expected"),
    [
        ((-1.0, -4.0), "mean", Verdict.RIGHT),
        ((-3.0, -4.0), "mean", Verdict.PRE_EDIT),  # -3 against -4 / 2 tokens
        ((-3.0, -4.0), "sum", Verdict.RIGHT),
        ((-2.0, -4.0), "mean", Verdict.WRONG),  # tie
        ((-5.0, -4.0), "sum", Verdict.PRE_EDIT),
    ],
)
def test_more_probable_object_decides(logprobs, compare, expected):
    assert verdict(Scored(logprobs=logprobs, tokens=(1, 2)), compare=compare) is expected


def test_old_object_is_right_for_a_control():
    turned = evolve(QUERY, gold=OLD, pre_edit=NEW)
    assert verdict(Scored(logprobs=(-3.0, -4.0), tokens=(1, 2)), turned) is Verdict.RIGHT


def test_most_probable_third_object_is_wrong():
    query = evolve(QUERY, continuations=(*QUERY.continuations, " Oslo"))
    assert verdict(Scored(logprobs=(-3.0, -4.0, -1.0), tokens=(1, 1, 1)), query) is Verdict.WRONG


def test_text_is_unsure():
    assert verdict(Answer(text="Rome")) is Verdict.UNSURE


def test_continuations_without_the_gold_object_are_unsure():
    query = evolve(QUERY, continuations=(" Oslo", " Bonn"))
    assert verdict(Scored(logprobs=(-1.0, -2.0), tokens=(1, 1)), query) is Verdict.UNSURE


def test_compared_values_are_findings():
    reply = Scored(logprobs=(-1.0, -4.0), tokens=(1, 2))
    (found,) = build(ProbabilityConfig()).judge(None, [Item(query=QUERY, reply=reply)])
    assert [(finding.item, finding.note) for finding in found.findings] == [("Rome", "-1"), ("San Juan", "-2")]


def test_contexts_are_compared_if_the_continuations_are_equal():
    query = evolve(QUERY, contexts=("Rome", "San Juan"), continuations=(" is big", " is big"))
    assert verdict(Scored(logprobs=(-1.0, -4.0), tokens=(2, 2)), query) is Verdict.RIGHT
    assert verdict(Scored(logprobs=(-4.0, -1.0), tokens=(2, 2)), query) is Verdict.PRE_EDIT
