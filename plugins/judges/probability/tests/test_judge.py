"""New object against old one, from log-probabilities computed manually."""

import pytest
from attrs import evolve

from ke_core.plugin import Answer, Entity, Gold, Item, Query, Scored, Verdict
from ke_plugin_probability import ProbabilityConfig, build
from ke_testing.contract import ComponentContract

NEW, OLD = Gold(entities=(Entity(label="Rome"),)), Gold(entities=(Entity(label="San Juan"),))
QUERY = Query(
    id="q", texts=("The tower is in",), form="cloze", continuations=(" Rome", " San Juan"), gold=NEW, stale=OLD
)


class TestContract(ComponentContract):
    kind = "judge"
    name = "probability"

    def test_it_is_given_log_probabilities(self, spec):
        assert spec.scored


def verdict(reply, query=QUERY, **options):
    (found,) = build(ProbabilityConfig(**options)).judge(None, [Item(query=query, reply=reply)])
    return found.verdict


@pytest.mark.parametrize(
    ("logprobs", "compare", "expected"),
    [
        ((-1.0, -4.0), "mean", Verdict.RIGHT),
        ((-3.0, -4.0), "mean", Verdict.STALE),  # -3 against -4 / 2 tokens
        ((-3.0, -4.0), "sum", Verdict.RIGHT),
        ((-2.0, -4.0), "mean", Verdict.WRONG),  # a tie is no win
        ((-5.0, -4.0), "sum", Verdict.STALE),
    ],
)
def test_the_more_probable_object_decides(logprobs, compare, expected):
    assert verdict(Scored(logprobs=logprobs, tokens=(1, 2)), compare=compare) is expected


def test_for_a_control_the_old_object_is_right():
    turned = evolve(QUERY, gold=OLD, stale=NEW)
    assert verdict(Scored(logprobs=(-3.0, -4.0), tokens=(1, 2)), turned) is Verdict.RIGHT


def test_a_third_object_on_top_is_neither_right_nor_stale():
    query = evolve(QUERY, continuations=(*QUERY.continuations, " Oslo"))
    assert verdict(Scored(logprobs=(-3.0, -4.0, -1.0), tokens=(1, 1, 1)), query) is Verdict.WRONG


def test_a_text_is_not_judged():
    assert verdict(Answer(text="Rome")) is Verdict.UNSURE


def test_continuations_without_the_right_object_are_not_judged():
    query = evolve(QUERY, continuations=(" Oslo", " Bonn"))
    assert verdict(Scored(logprobs=(-1.0, -2.0), tokens=(1, 1)), query) is Verdict.UNSURE


def test_what_was_compared_is_on_record():
    reply = Scored(logprobs=(-1.0, -4.0), tokens=(1, 2))
    (found,) = build(ProbabilityConfig()).judge(None, [Item(query=QUERY, reply=reply)])
    assert [(finding.item, finding.note) for finding in found.findings] == [("Rome", "-1"), ("San Juan", "-2")]


def test_a_context_is_right_where_the_continuations_are_the_same():
    query = evolve(QUERY, contexts=("Rome", "San Juan"), continuations=(" is big", " is big"))
    assert verdict(Scored(logprobs=(-1.0, -4.0), tokens=(2, 2)), query) is Verdict.RIGHT
    assert verdict(Scored(logprobs=(-4.0, -1.0), tokens=(2, 2)), query) is Verdict.STALE
