"""Which facts of a record are edited, what its judges are given, and the names of its numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import ke_plugin_alias
from ke_core.plugin import Answer, Case, Item, Query
from ke_core.run.judging import held
from ke_plugin_recoe import ATLAS, REASONING, AtlasConfig
from ke_plugin_recoe.dataset import RecoeAtlas

Read = Callable[..., list[Case]]


def judged(query: Query, *answers: str) -> list[str]:
    judge = ke_plugin_alias.build(ke_plugin_alias.AliasConfig())
    items = [Item(query=query, reply=Answer(text=answer)) for answer in answers]
    return [found.verdict.value for found in judge.judge(None, items)]


def gap(ours: tuple[int, int], theirs: tuple[int, int], *, direct: bool) -> dict[str, Any]:
    """A subtraction whose answer is the second number, before and after."""

    def side(first: int, second: int) -> list[dict[str, Any]]:
        said = [
            ("Quay has {} singers.", "(Quay; number of singers; {})", first),
            ("Pier has {} singers.", "(Pier; number of singers; {})", second),
            ("Quay has {} singers more than Pier.", "(Quay; number of singers more than Pier; {})", first - second),
        ]
        return [
            {"fact": text.format(n), "atomic_facts": [text.format(n)], "atomic_triples": [triple.format(n)]}
            for text, triple, n in (said if direct else said[:2])
        ]

    return {
        "question": "How many singers more than Pier does Quay have?",
        "answer": str(ours[0] - ours[1]),
        "counterfactual_answer": str(theirs[0] - theirs[1]),
        "answer_alias": [],
        "counterfactual_answer_alias": [],
        "facts_per_choice": {"choice_1_facts": side(*ours)},
        "counterfactuals_per_choice": {"choice_1_counterfactuals": side(*theirs)},
    }


@pytest.mark.parametrize("direct", [True, False], ids=["with the direct fact", "without one"])
def test_a_component_that_equals_the_difference_is_edited(read: Read, direct: bool) -> None:  # noqa: FBT001
    """10 and 5 become 12 and 6: the difference is the second number in both worlds."""
    (case,) = read(gap((10, 5), (12, 6), direct=direct), scheme="subtraction")
    assert [edit.statement for edit in case.edits] == ["Quay has 12 singers.", "Pier has 6 singers."]
    assert [edit.before.objects[0].label for edit in case.edits if edit.before] == ["10", "5"]


def test_judges_are_given_every_fact_and_masking_the_functional_ones(read: Read, record: dict[str, Any]) -> None:
    """Section 8: what was thought is judged against the joined set; "won" may have several objects."""
    won = "Mia Stone won the Weed Prize."
    record["counterfactuals_per_choice"]["choice_2_counterfactuals"].append(
        {"fact": won, "atomic_facts": [won], "atomic_triples": ["(Mia Stone; won; the Weed Prize)"]}
    )
    (case,) = read(record)
    assert "won" not in {fact.relation.label for fact in case.facts_after}
    assert (
        held(case, "after", edited=True)
        == case.sentences_after
        == (
            "Ada Reed sold two million records.",
            "Mia Stone sold nine million records and won the Kelp Prize.",
            won,
        )
    )
    assert held(case, "before", edited=True) == (
        "Ada Reed sold nine million records and won the Kelp Prize.",
        "Mia Stone sold two million records.",
    )


def test_numbers_keep_all_their_aliases(read: Read, total_record: dict[str, Any]) -> None:
    """The match is with answer or alias (section 6); a name that both answers have is the old answer's."""
    total_record |= {
        "answer_alias": ["seven singers", "some", "9.0"],
        "counterfactual_answer_alias": ["nine", "9 singers", "some", "7.0"],
    }
    (case,) = read(total_record, scheme="aggregation")
    (query,) = [query for probe in case.probes if probe.aspect == REASONING for query in probe.queries]
    assert query.gold.entities[0].names == ("9", "nine", "9 singers")
    assert judged(query, "9 singers", "seven singers", "some", "19 singers", "7.0") == [
        "right", "stale", "stale", "wrong", "stale",
    ]  # fmt: skip


def test_section_4_2_input_augmentation_is_given_the_whole_edited_world() -> None:
    """An edit is no fact that stays, such as the second count of a sum."""
    dataset = RecoeAtlas(variant=ATLAS, config=AtlasConfig())
    material = dataset.material()["counterfactual-facts"]
    assert material.oracle
    cases = list(dataset.cases())
    assert {case.id: case.sentences_after for case in cases} == material.value
    assert any(len(case.sentences_after) > len(case.edits) for case in cases if case.tags["scheme"] == "aggregation")
