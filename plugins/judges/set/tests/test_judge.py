"""Findings and verdicts for answers that list several members."""

from __future__ import annotations

from itertools import permutations

import pytest
from attrs import evolve

from ke_core.plugin import Answer, Entity, Gold, Item, Judgment, Query, Verdict
from ke_plugin_set import SetConfig
from ke_plugin_set.judge import SetJudge

SF = Entity(label="San Francisco", aliases=("SF", "Frisco"), id="sf")
LA = Entity(label="Los Angeles", aliases=("LA",), id="la")
BOSNIA = Entity(label="Bosnia and Herzegovina", id="ba")
RIGHT, WRONG, PRE_EDIT, UNSURE = Verdict.RIGHT, Verdict.WRONG, Verdict.PRE_EDIT, Verdict.UNSURE


def query(new: tuple[Entity, ...], old: tuple[Entity, ...] | None = None, require: str = "all") -> Query:
    pre_edit = None if old is None else Gold(entities=old)
    return Query(id="q", texts=("Where?",), gold=Gold(entities=new, require=require), pre_edit=pre_edit)  # type: ignore[arg-type]


def judged(asked: Query, text: str, **options: object) -> Judgment:
    (found,) = SetJudge(config=SetConfig(**options)).judge(None, [Item(query=asked, reply=Answer(text=text))])  # type: ignore[arg-type]
    return found


def seen(found: Judgment) -> list[tuple[str, str, str | None]]:
    return [(finding.item, finding.label, finding.entity) for finding in found.findings]


def test_every_item_is_a_finding() -> None:
    found = judged(query((SF, LA), (LA,)), "LA, New York and SF")
    assert seen(found) == [("LA", "gold", "la"), ("New York", "extra", None), ("SF", "gold", "sf")]
    assert found.verdict is WRONG


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("San Francisco, Los Angeles", RIGHT),
        ("los angeles; the san francisco", RIGHT),
        ("Los Angeles", PRE_EDIT),
        ("San Francisco", WRONG),
        ("", WRONG),
    ],
)
def test_complete_gold_set_is_right_and_complete_pre_edit_set_pre_edit(text: str, verdict: Verdict) -> None:
    assert judged(query((SF, LA), (LA,)), text).verdict is verdict


def test_member_of_the_pre_edit_set_only_is_pre_edit() -> None:
    assert seen(judged(query((SF,), (LA,)), "SF, LA")) == [("SF", "gold", "sf"), ("LA", "pre-edit", "la")]


def test_alias_matches_in_any_case() -> None:
    assert judged(query((SF,)), "sf").verdict is RIGHT


def test_repeated_member_counts_once() -> None:
    assert seen(judged(query((SF, LA)), "SF, sf, Frisco, LA")) == [("SF", "gold", "sf"), ("LA", "gold", "la")]


def test_item_names_one_member_only() -> None:
    twins = (Entity(label="Georgia", id="state"), Entity(label="Georgia", id="country"))
    assert seen(judged(query(twins), "Georgia")) == [("Georgia", "gold", "state")]
    assert judged(query(twins), "Georgia").verdict is WRONG


def test_shared_names_are_paired_for_the_most_matches() -> None:
    one = Entity(label="Congo-Brazzaville", aliases=("Congo",), id="cg")
    two = Entity(label="Congo", id="cd")
    assert judged(query((one, two)), "Congo, Congo-Brazzaville").verdict is RIGHT
    assert judged(query((two, one)), "Congo-Brazzaville, Congo").verdict is RIGHT


def test_gold_name_with_and_is_not_split() -> None:
    assert judged(query((BOSNIA, SF)), "Bosnia and Herzegovina and SF").verdict is RIGHT


def test_contains_finds_a_name_inside_an_item() -> None:
    assert judged(query((SF,)), "the city of San Francisco", match="contains").verdict is RIGHT
    assert judged(query((SF,)), "the city of San Francisco").verdict is WRONG
    assert judged(query((LA,)), "Lahore", match="contains").verdict is WRONG


def test_extras_are_allowed_by_option() -> None:
    assert judged(query((SF,)), "SF, Oslo", extras=True).verdict is RIGHT


def test_any_member_is_enough_with_require_any() -> None:
    assert judged(query((SF, LA), require="any"), "LA").verdict is RIGHT


def test_gold_without_a_name_is_unsure() -> None:
    assert judged(query(()), "Oslo").verdict is UNSURE


def test_prompt_text_is_not_an_answer() -> None:
    item = Item(query=query((SF,)), reply=Answer(text="", raw="San Francisco"))
    assert SetJudge(config=SetConfig()).judge(None, [item])[0].verdict is WRONG


def test_blank_alias_matches_nothing() -> None:
    blank = Entity(label="Oslo", aliases=(" ", "."), id="o")
    assert judged(query((blank,)), "Rome").verdict is WRONG


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("San Francisco, the city by the bay, and it is known for its fog", RIGHT),
        ("San Francisco is a city.", RIGHT),
        ("Los Angeles, and it is known for its films", PRE_EDIT),
        ("the home of Frisco", WRONG),
        ("San Franciscans", WRONG),
    ],
)
def test_cloze_counts_the_members_at_its_beginning(text: str, verdict: Verdict) -> None:
    assert judged(evolve(query((SF,), (LA,)), form="cloze"), text).verdict is verdict


def test_cloze_may_list_a_set_before_other_text() -> None:
    both = evolve(query((SF, LA)), form="cloze")
    assert judged(both, "Los Angeles, SF, and Los Angeles (the harbour) and has a long coast").verdict is RIGHT
    assert judged(both, "Los Angeles, which lies on the coast, and San Francisco").verdict is WRONG


def test_cloze_may_begin_with_a_member_and_a_colon() -> None:
    paris = Entity(label="Paris", id="p")
    assert judged(evolve(query((paris,)), form="cloze"), "Paris: the City of Light").verdict is RIGHT


NAMES = ("Mission: Impossible", "Star Wars: Episode IV \u2013 A New Hope", "Europe Ecology \u2013 The Greens", "Lost")


@pytest.mark.parametrize("order", [*permutations(range(len(NAMES)))])
def test_order_of_a_set_does_not_matter(order: tuple[int, ...]) -> None:
    members = tuple(Entity(label=name) for name in NAMES)
    listed = ", ".join(NAMES[at] for at in order)
    assert judged(query(members), listed).verdict is RIGHT
    assert judged(query(tuple(members[at] for at in order)), ", ".join(NAMES)).verdict is RIGHT
