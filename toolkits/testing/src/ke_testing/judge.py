"""The contract of judges. Like a run, it does not send them items that the run decides itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import pytest
from attrs import evolve, frozen

from ke_core.app import Component, OpenJudge, judge_items
from ke_core.plugin import Answer, Entity, Failure, Gold, Item, Judge, JudgeSpec, Judgment, Query, Session, Verdict
from ke_testing.contract import ComponentContract

QUERY = Query(
    id="q",
    texts=("In which city is the Eiffel Tower?",),
    gold=Gold(entities=(Entity(label="Rome", aliases=("Roma", "Città Eterna")),)),
    pre_edit=Gold(entities=(Entity(label="Paris", aliases=("City of Light",)),)),
)
BOTH = Query(
    id="both",
    texts=("In which two cities are the offices of Aldrin Foods?",),
    gold=Gold(entities=(Entity(label="Rome", aliases=("Roma",)), Entity(label="Milan")), require="all"),
    pre_edit=Gold(entities=(Entity(label="Paris"), Entity(label="Lyon")), require="all"),
)
"""A question whose answer requires two names."""


class JudgeContract(ComponentContract):
    """Set ``name``; override ``session`` for a judge that needs a model."""

    kind: ClassVar[str] = "judge"

    @pytest.fixture
    def session(self) -> Session[Any] | None:
        return None

    @pytest.fixture
    def judge(self, spec: JudgeSpec, config: Any) -> Judge:
        return WrappedJudge(spec=spec, wrapped=spec.build(config))

    def test_one_judgment_per_item_in_order(self, judge: Judge, session: Session[Any] | None) -> None:
        items = [item("Rome"), item("Paris"), item("Oslo")]
        judgments = judge.judge(session, items)
        assert len(items) == len(judgments)
        assert all(isinstance(judgment, Judgment) for judgment in judgments)
        assert judgments[::-1] == judge.judge(session, items[::-1])

    def test_the_label_and_every_alias_are_right(self, judge: Judge, session: Session[Any] | None) -> None:
        names = QUERY.gold.entities[0].names
        assert [Verdict.RIGHT] * len(names) == verdicts(judge, session, *map(item, names))

    def test_one_of_two_required_names_is_never_right(self, judge: Judge, session: Session[Any] | None) -> None:
        items = [Item(query=BOTH, reply=Answer(text=text)) for text in ("Rome", "Roma", "Milan", "Rome and Oslo")]
        assert Verdict.RIGHT not in verdicts(judge, session, *items)

    def test_pre_edit_answer_is_not_right(self, judge: Judge, session: Session[Any] | None) -> None:
        assert set(verdicts(judge, session, item("Paris"), item("City of Light"))) <= {Verdict.PRE_EDIT, Verdict.WRONG}

    def test_a_failure_is_never_right(self, judge: Judge, session: Session[Any] | None) -> None:
        failure = Item(query=QUERY, reply=Failure(error="Rome", message="Rome"))
        assert verdicts(judge, session, failure) == [Verdict.WRONG]

    def test_an_unparsed_answer_is_wrong(self, judge: Judge, session: Session[Any] | None) -> None:
        unparsed = Item(query=QUERY, reply=Answer(text="Rome", outcome="unparsed"))
        assert verdicts(judge, session, unparsed) == [Verdict.WRONG]

    def test_an_empty_answer_is_wrong(self, judge: Judge, session: Session[Any] | None) -> None:
        assert verdicts(judge, session, item("")) == [Verdict.WRONG]

    def test_verdicts_are_independent(self, judge: Judge, session: Session[Any] | None) -> None:
        items = [item("Rome"), item("Paris"), item("Oslo")]
        assert judge.judge(session, items) == [judge.judge(session, [one])[0] for one in items]

    def test_prompt_text_is_not_an_answer(self, judge: Judge, session: Session[Any] | None) -> None:
        """``raw`` contains text before and after the answer; the answer is ``text``."""
        echoed = Answer(text="Oslo", raw=f"{QUERY.texts[0]} Oslo. Rome")
        assert Verdict.RIGHT not in verdicts(judge, session, Item(query=QUERY, reply=echoed))

    def test_blank_alias_matches_no_answer(self, judge: Judge, session: Session[Any] | None) -> None:
        gold = Gold(entities=(Entity(label="Rome", aliases=("", " ", "?")),))
        blank = evolve(QUERY, gold=gold)
        items = [Item(query=blank, reply=Answer(text=text)) for text in ("Oslo", "", " ")]
        assert Verdict.RIGHT not in verdicts(judge, session, *items)

    def test_same_input_same_verdict(self, judge: Judge, session: Session[Any] | None) -> None:
        assert judge.judge(session, [item("Rome")]) == judge.judge(session, [item("Rome")])

    def test_no_items_no_judgments(self, judge: Judge, session: Session[Any] | None) -> None:
        assert judge.judge(session, []) == []


@frozen(kw_only=True)
class WrappedJudge:
    """A judge that gets only the items that a run would send it."""

    spec: JudgeSpec
    wrapped: Judge

    def judge(self, session: Session[Any] | None, items: Sequence[Item]) -> list[Judgment]:
        """Return one judgment for each item, in order."""
        component = Component(name=self.spec.name, distribution="", version="")
        opened = OpenJudge(judge=self.wrapped, component=component, session=session, scored=self.spec.scored)
        return judge_items(opened, items)


def item(text: str) -> Item:
    """Return an answer to the contract's question."""
    return Item(query=QUERY, reply=Answer(text=text))


def verdicts(judge: Judge, session: Session[Any] | None, *items: Item) -> list[Verdict]:
    """Return the verdicts only."""
    return [judgment.verdict for judgment in judge.judge(session, items)]
