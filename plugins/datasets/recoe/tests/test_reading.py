"""Cases of records, and errors of invalid files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ke_plugin_alias.judge
from ke_benchmarks.soundness import problems
from ke_core.plugin import COUNTERFACTUALS_PERPLEXITY, FACTS_PERPLEXITY, Answer, BadData, Case, Dataset, Item, Query
from ke_plugin_recoe import REASONING, RELEASED, VARIANTS, WHOLE, RecoeAtlasConfig, RecoeConfig, ke_datasets
from ke_plugin_recoe.dataset import Recoe
from ke_testing.dataset import DatasetContract

Read = Callable[..., list[Case]]


class TestAtlas(DatasetContract):
    name = "recoe-atlas"


class TestMasked(DatasetContract):
    name = "recoe-atlas"
    options = {"mask": "true"}  # noqa: RUF012  the contract declares it as a ClassVar


class TestOwn(DatasetContract):
    name = "recoe"

    @pytest.fixture
    def dataset(
        self,
        own: Callable[..., Dataset],
        record: dict[str, Any],
        total_record: dict[str, Any],
        order_record: dict[str, Any],
    ) -> Dataset:
        return own(
            {**record, "scheme": "superlative"},
            {**total_record, "scheme": "aggregation"},
            {**order_record, "scheme": "sorting"},
        )


class PublishedContract(DatasetContract):
    """Skipped where the published file is missing."""

    @pytest.fixture
    def config(self, ke_data_dir: Path) -> RecoeConfig:
        folder = ke_data_dir / "recoe"
        return RecoeConfig(data_dir=str(folder) if folder.is_dir() else None)


class TestCounting(PublishedContract):
    name = "recoe-counting"


class TestAggregation(PublishedContract):
    name = "recoe-aggregation"


class TestSorting(PublishedContract):
    name = "recoe-sorting"


def asked(case: Case) -> Query:
    (query,) = [query for probe in case.probes if probe.aspect == REASONING for query in probe.queries]
    return query


def judged(query: Query, *answers: str) -> list[str]:
    judge = ke_plugin_alias.judge.Alias(ke_plugin_alias.AliasConfig())
    return [
        found.verdict.value for found in judge.judge(None, [Item(query=query, reply=Answer(text=a)) for a in answers])
    ]


# --- edits ---------------------------------------------------------------------------------------------------


def test_every_atomic_counterfactual_is_an_edit(read: Read, record: dict[str, Any]) -> None:
    """Two counterfactuals with one and two atomic facts are three edits."""
    (case,) = read(record)
    assert [edit.statement for edit in case.edits] == [
        "Ada Reed sold two million records.",
        "Mia Stone sold nine million records.",
        "Mia Stone won the Kelp Prize.",
    ]
    first, _second, third = case.edits
    assert first.before is not None
    assert first.after is not None
    assert (first.before.objects[0].label, first.after.objects[0].label) == (
        "nine million records",
        "two million records",
    )
    assert first.cloze is not None
    assert (first.cloze.template, first.cloze.subject) == ("{} sold", "Ada Reed")
    assert third.before is None
    assert first.question == 'Fill in the blank: "Ada Reed sold ___."'
    assert not problems([case])


def test_only_indirect_facts_are_edits(read: Read, total_record: dict[str, Any]) -> None:
    """Direct facts are ignored; an unchanged count is not an edit."""
    (case,) = read(total_record, scheme="aggregation")
    assert [edit.statement for edit in case.edits] == ["Quay has 5 singers."]
    assert [found.text for found in case.facts_after] == ["Quay has 5 singers.", "Pier has 4 singers."]


def scored(case: Case) -> dict[str, list[str]]:
    """Return the scored sentences by side."""
    return {
        probe.aspect: [query.texts[0] + query.continuations[0] for query in probe.queries]
        for probe in case.probes
        if "perplexity" in probe.aspect
    }


def test_every_atomic_sentence_of_both_sides_is_scored(
    read: Read, record: dict[str, Any], total_record: dict[str, Any], order_record: dict[str, Any]
) -> None:
    """Direct and unchanged facts are not scored."""
    (case,) = read(record)
    assert scored(case) == {
        FACTS_PERPLEXITY: [
            "Ada Reed sold nine million records.", "Ada Reed won the Kelp Prize.",
            "Mia Stone sold two million records.",
        ],
        COUNTERFACTUALS_PERPLEXITY: [
            "Ada Reed sold two million records.", "Mia Stone sold nine million records.",
            "Mia Stone won the Kelp Prize.",
        ],
    }  # fmt: skip
    assert {(p.phase, p.require, p.edits) for p in case.probes if "perplexity" in p.aspect} == {
        ("both", "all", tuple(edit.id for edit in case.edits))
    }
    (total,) = read(total_record, scheme="aggregation")
    assert scored(total) == {
        FACTS_PERPLEXITY: ["Quay has 3 singers.", "Pier has 4 singers."],
        COUNTERFACTUALS_PERPLEXITY: ["Quay has 5 singers.", "Pier has 4 singers."],
    }
    (sorting,) = read(order_record, scheme="sorting")
    assert "Leo Park sold 2 records." not in scored(sorting)[FACTS_PERPLEXITY]


def test_sentences_are_scored_in_the_style_direct_only(own: Callable[..., Recoe], record: dict[str, Any]) -> None:
    dataset = own({**record, "scheme": "superlative"})
    (case,) = dataset.cases()
    query = next(probe for probe in case.probes if probe.aspect == FACTS_PERPLEXITY).queries[0]
    put = dataset.prompt(query, "direct")
    assert put is not None
    assert put.text == "Ada"
    assert dataset.prompt(query, "cot") is None


def test_embedded_dataset_has_the_prefix_of_the_family() -> None:
    assert {spec.prefix for spec in ke_datasets()} == {"recoe"}


def test_option_perplexity(tmp_path: Path, record: dict[str, Any]) -> None:
    path = tmp_path / "own.json"
    path.write_text(json.dumps([{**record, "scheme": "superlative"}]), encoding="utf-8")
    config = RecoeConfig(file=str(path), perplexity=False)
    (case,) = Recoe(variant=WHOLE, config=config).cases()
    assert scored(case) == {}
    specs = {spec.name: spec for spec in ke_datasets()}
    assert specs["recoe"].for_config(RecoeConfig()).metrics == ("correct-flip", "fact-perplexity", "retrieval")
    assert specs["recoe"].for_config(config).metrics == ("correct-flip", "retrieval")
    assert specs["recoe-atlas"].for_config(RecoeAtlasConfig(perplexity=False)).metrics == ("correct-flip", "retrieval")


def test_unchanged_facts_are_optional_context(read: Read, record: dict[str, Any], order_record: dict[str, Any]) -> None:
    (sorting,) = read(order_record, scheme="sorting")
    assert "Leo Park sold 2 records." not in [edit.statement for edit in sorting.edits]
    assert "Leo Park sold 2 records." in [found.text for found in sorting.facts_before]
    (with_empty,) = read(record)
    del record["counterfactuals_per_choice"]["unchanged_facts"]
    assert read(record) == [with_empty]


# --- answers -------------------------------------------------------------------------------------------------


def test_shared_alias_belongs_to_the_old_answer(read: Read, record: dict[str, Any]) -> None:
    (case,) = read(record)
    found = judged(asked(case), "Mia Holt", "Mia Stone.", "A.R.", "Ada Reed", "Mia Reed", "Leo Park")
    assert found == ["right", "right", "pre-edit", "pre-edit", "pre-edit", "wrong"]


def test_order_must_be_exact(read: Read, order_record: dict[str, Any]) -> None:
    (case,) = read(order_record, scheme="sorting")
    found = judged(
        asked(case),
        "Leo Park, Ada Reed, Mia Stone",
        "Leo Park, Ada Reed and Mia Stone.",
        "Leo Park, Mia Stone, Ada Reed",
        "L. Park, Mia Holt, Ada Reed",
        "Ada Reed, Leo Park, Mia Stone",
        "Leo Park, Ada Reed",
    )
    assert found == ["right", "right", "pre-edit", "pre-edit", "wrong", "wrong"]


def test_numbers_are_compared_as_numbers(read: Read, total_record: dict[str, Any]) -> None:
    (case,) = read(total_record, scheme="aggregation")
    assert judged(asked(case), "9", "nine", "9.0", "7", "seven", "19", "") == [
        "right", "right", "right", "pre-edit", "pre-edit", "wrong", "wrong",
    ]  # fmt: skip


def test_yes_and_no_ignore_case(read: Read, record: dict[str, Any]) -> None:
    record |= {"answer": "Yes", "counterfactual_answer": "No", "answer_alias": [], "counterfactual_answer_alias": []}
    (case,) = read(record, scheme="comparative")
    assert judged(asked(case), "no", "No", "yes", "Yes.", "perhaps") == [
        "right",
        "right",
        "pre-edit",
        "pre-edit",
        "wrong",
    ]


# --- files ---------------------------------------------------------------------------------------------------


def test_published_counts() -> None:
    assert RELEASED == {
        "superlative": 1172, "comparative": 1153, "counting": 643, "sorting": 1034, "aggregation": 508,
        "subtraction": 500,
    }  # fmt: skip
    assert WHOLE.published == {"cases": 5010}
    assert {scheme: one.published["cases"] for scheme, one in VARIANTS.items()} == RELEASED


def test_all_schemes_and_an_own_file(
    read: Read,
    own: Callable[..., Recoe],
    record: dict[str, Any],
    total_record: dict[str, Any],
    order_record: dict[str, Any],
) -> None:
    named = {"superlative": record, "aggregation": total_record, "sorting": order_record}
    apart = [case for scheme, one in named.items() for case in read(one, scheme=scheme)]
    together = own(*({**one, "scheme": scheme} for scheme, one in named.items()))
    assert list(together.cases()) == apart
    assert [case.id for case in apart] == ["superlative-1", "aggregation-1", "sorting-1"]
    assert together.info().published == {}
    assert len(together.info().sha256) == 64


def test_scheme_in_several_files(tmp_path: Path, record: dict[str, Any]) -> None:
    folder = tmp_path / "superlative"
    folder.mkdir()
    for name, question in (("b.json", "Which second?"), ("a.json", "Which first?")):
        (folder / name).write_text(json.dumps([{**record, "question": question}]), encoding="utf-8")
    dataset = Recoe(variant=VARIANTS["superlative"], config=RecoeConfig(data_dir=str(tmp_path)))
    assert [asked(case).texts[0] for case in dataset.cases()] == ["Which first?", "Which second?"]


def test_missing_files_have_instructions(tmp_path: Path) -> None:
    dataset = Recoe(variant=VARIANTS["sorting"], config=RecoeConfig(data_dir=str(tmp_path)))
    with pytest.raises(BadData, match="the folder sorting of recoe is missing") as wrong:
        list(dataset.cases())
    assert "license" in (wrong.value.hint or "")
    assert dataset.info().sha256 == ""


WRONG: dict[str, tuple[Any, str]] = {
    "missing": (lambda r: r.pop("answer"), r"answer: missing"),
    "mistyped": (lambda r: r.update(answer=["9"]), r"answer: \['9'\] is not a text"),
    "blank": (lambda r: r.update(question=" "), r"question is blank"),
    "bare-id": (lambda r: r.update(answer="Q31415"), r"no label, only its Wikidata id"),
    "no-facts": (lambda r: r.pop("facts_per_choice"), r"facts: unknown layout"),
    "no-counterfactuals": (lambda r: r.pop("counterfactuals_per_choice"), r"counterfactuals: unknown layout"),
    "fact-as-text": (
        lambda r: r["facts_per_choice"].update(choice_1_facts=["Ada sings."]),
        r"facts_per_choice.choice_1_facts: 'Ada sings.' is not a fact",
    ),
    "mistyped-fact": (
        lambda r: r["facts_per_choice"]["choice_2_facts"][0].update(atomic_facts=[{}]),
        r"choice_2_facts.atomic_facts: {} is not a text",
    ),
    "cloze": (
        lambda r: r["facts_per_choice"]["choice_2_facts"][0].update(atomic_clozes=["Mia sold"]),
        r"needs exactly one {}",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_invalid_record_is_named(read: Read, record: dict[str, Any], name: str) -> None:
    spoil, said = WRONG[name]
    spoil(record)
    with pytest.raises(BadData, match=said) as wrong:
        read(record)
    assert "part.json, record 1: " in str(wrong.value)


@pytest.mark.parametrize("text", ["", "[", '[{"question": "Wh', "{}", "[1]", "[]"])
def test_invalid_file_is_named(read: Read, text: str) -> None:
    with pytest.raises(BadData, match=r"part\.json"):
        read(text=text)


def test_own_records_require_a_scheme(own: Callable[..., Recoe], record: dict[str, Any]) -> None:
    with pytest.raises(BadData, match="record 1: scheme: missing"):
        list(own(record).cases())
    with pytest.raises(BadData, match="scheme: must be one of superlative"):
        list(own({**record, "scheme": "guessing"}).cases())
