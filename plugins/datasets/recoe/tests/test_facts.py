"""Edited facts, facts for judges, and aliases of numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ke_plugin_alias.judge
from ke_core.plugin import Answer, Case, Item, Query
from ke_core.runner.judging import held
from ke_plugin_recoe import ATLAS, REASONING, RecoeAtlasConfig
from ke_plugin_recoe.dataset import RecoeAtlas

Read = Callable[..., list[Case]]


def judged(query: Query, *answers: str) -> list[str]:
    judge = ke_plugin_alias.judge.Alias(ke_plugin_alias.AliasConfig())
    items = [Item(query=query, reply=Answer(text=answer)) for answer in answers]
    return [found.verdict.value for found in judge.judge(None, items)]


def test_direct_facts_are_not_edited(read: Read, total_record: dict[str, Any]) -> None:
    """In the format of the README, they are a separate group."""
    text = "Quay and Pier have {} singers together."

    def direct(number: int) -> list[dict[str, Any]]:
        said = text.format(number)
        return [
            {"fact": said, "atomic_facts": [said], "atomic_triples": [f"(Quay and Pier; number of singers; {number})"]}
        ]

    own = {
        **{key: value for key, value in total_record.items() if "fact" not in key or "answer" in key},
        "facts_per_choice": {"choice_1_facts": total_record["indirect_fact"], "direct_facts": direct(7)},
        "counterfactuals_per_choice": {
            "choice_1_counterfactuals": total_record["indirect_counterfactual_fact"],
            "direct_counterfactuals": direct(9),
        },
    }
    (case,) = read(own, scheme="aggregation")
    assert [edit.statement for edit in case.edits] == ["Quay has 5 singers."]


def test_facts_for_judges_and_masking(read: Read, record: dict[str, Any]) -> None:
    """Judges get every fact; masking excludes "won", which has several objects."""
    won = "Mia Stone won the Weed Prize."
    record["counterfactuals_per_choice"]["choice_2_counterfactuals"].append(
        {"fact": won, "atomic_facts": [won], "atomic_triples": ["(Mia Stone; won; the Weed Prize)"]}
    )
    (case,) = read(record)
    assert "won" not in {fact.relation.label for fact in case.facts_after}
    assert (
        held(case, "after", edited=True)
        == case.sentences_after
        == ("Ada Reed sold two million records.", "Mia Stone sold nine million records and won the Kelp Prize.", won)
    )
    assert held(case, "before", edited=True) == (
        "Ada Reed sold nine million records and won the Kelp Prize.",
        "Mia Stone sold two million records.",
    )


def test_numbers_keep_their_aliases(read: Read, total_record: dict[str, Any]) -> None:
    """A name of both answers belongs to the old answer."""
    total_record |= {
        "answer_alias": ["seven singers", "some", "9.0"],
        "counterfactual_answer_alias": ["nine", "9 singers", "some", "7.0"],
    }
    (case,) = read(total_record, scheme="aggregation")
    (query,) = [query for probe in case.probes if probe.aspect == REASONING for query in probe.queries]
    assert query.gold.entities[0].names == ("9", "nine", "9 singers")
    assert judged(query, "9 singers", "seven singers", "some", "19 singers", "7.0") == [
        "right", "pre-edit", "pre-edit", "wrong", "pre-edit",
    ]  # fmt: skip


def test_counterfactual_facts_include_unchanged_facts() -> None:
    """An unchanged fact is, for example, the second count of a sum."""
    dataset = RecoeAtlas(variant=ATLAS, config=RecoeAtlasConfig())
    material = dataset.material()["counterfactual-facts"]
    assert material.oracle
    cases = list(dataset.cases())
    assert {case.id: case.sentences_after for case in cases} == material.value
    assert any(len(case.sentences_after) > len(case.edits) for case in cases if case.tags["scheme"] == "aggregation")
