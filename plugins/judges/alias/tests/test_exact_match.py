"""The judge ``exact-match``: the whole answer, normalized, for questions and clozes."""

import pytest

from ke_core.plugin import Answer, Item, Query, Verdict
from ke_plugin_alias import build_exact_match
from ke_testing.contract import ComponentContract
from ke_testing.records import gold


class TestContract(ComponentContract):
    kind = "judge"
    name = "exact-match"


@pytest.mark.parametrize("form", ["question", "cloze"])
@pytest.mark.parametrize(
    ("text", "verdict"),
    [("the New York!", Verdict.RIGHT), ("new york", Verdict.RIGHT), ("New York, I think", Verdict.WRONG)],
)
def test_whole_answer_is_compared_after_normalization(form, text, verdict) -> None:
    query = Query(id="q", texts=("Where?",), form=form, gold=gold("New York"))
    (found,) = build_exact_match(None).judge(None, [Item(query=query, reply=Answer(text=text))])
    assert found.verdict is verdict
