"""What is said of a query and of a case's record, for every report and metric alike."""

from __future__ import annotations

import pytest

from ke_core.spec.facts import Entity
from ke_core.spec.queries import Case, Gold, Probe, Query
from ke_core.spec.results import Answer, CaseRecord, Judgement, Outcome, Verdict

NAMES = (Entity(label="Rome"), Entity(label="Oslo"))


@pytest.mark.parametrize(
    ("require", "words"), [("all", "ROME and OSLO"), ("any", "ROME or OSLO"), ("ordered", "ROME, then OSLO")]
)
def test_a_gold_in_words_says_how_its_entities_go_together(require, words) -> None:
    assert Gold(entities=NAMES, require=require).words(lambda entity: entity.label.upper()) == words
    assert Gold(require=require).words(str) == "nothing"


def test_the_styles_of_a_probe_are_those_in_which_any_of_its_queries_was_asked() -> None:
    one, other, third = (Query(id=name, texts=("?",), gold=Gold(entities=NAMES)) for name in ("one", "other", "third"))
    probe, unasked = Probe(id="p", aspect="a", queries=(one, other)), Probe(id="q", aspect="a", queries=(third,))
    outcome = Outcome(reply=Answer(text="Rome"), judgement=Judgement(verdict=Verdict.RIGHT))
    places = (("after", "cot", "other"), ("after", "direct", "one"), ("before", "own", "one"), ("after", "own", "none"))
    record = CaseRecord(case=Case(id="1", probes=(probe, unasked)), batch="1", outcomes=dict.fromkeys(places, outcome))
    assert record.styles_of(probe, "after") == ("cot", "direct")
    assert record.styles_of(probe, "before") == ("own",)
    assert record.styles_of(unasked, "after") == ()
