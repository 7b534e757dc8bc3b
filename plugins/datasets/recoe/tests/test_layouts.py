"""The layouts of the published files and their anomalies, and two published files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ke_plugin_alias.judge
from ke_benchmarks import count_cases
from ke_benchmarks.soundness import problems
from ke_core.plugin import Answer, Case, Item
from ke_plugin_recoe import REASONING, VARIANTS, RecoeConfig
from ke_plugin_recoe.dataset import Recoe
from ke_plugin_recoe.records import parse_triple

Read = Callable[..., list[Case]]
Spoil = Callable[[dict[str, Any]], Any]


def statements(case: Case) -> list[str]:
    return [edit.statement for edit in case.edits]


def note(case: Case) -> str:
    return case.tags.get("note", "")


# --- triples -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("(Ada; sold; 9)", ("Ada", "sold", "9")),
        (
            "(Ada and Mia's duet (1999; live); reached; place 2)",
            ("Ada and Mia's duet (1999; live)", "reached", "place 2"),
        ),
        ("Ada; won; a prize (gold)", ("Ada", "won", "a prize (gold)")),
        ("(Ada; won; a prize (gold))", ("Ada", "won", "a prize (gold)")),
        ("(Ada; sang; in 1999; in Rome)", ("Ada", "sang", "in 1999; in Rome")),
        ("(Quay (2011); is not in; the series", ("Quay (2011)", "is not in", "the series")),
        ("(Ada; won; a prize (gold)", ("Ada", "won", "a prize (gold)")),
        ("(The) Quay; is; a band", ("(The) Quay", "is", "a band")),
        ("(Ada; sold; 9).", ("Ada", "sold", "9")),
        ("( Ada  Lee;  has  sold ;\t9 )", ("Ada Lee", "has sold", "9")),
    ],
)
def test_parse_triple(text: str, parts: tuple[str, str, str]) -> None:
    found = parse_triple(text)
    assert (found.subject, found.relation, found.object) == parts


@pytest.mark.parametrize("text", ["", "(Ada; sold; )", "(Ada; sold)", "(; sold; 9)", "(Ada, sold, 9)"])
def test_incomplete_triple_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="is not a"):
        parse_triple(text)


def test_cloze_is_subject_and_relation_of_the_triple(read: Read, count_record: dict[str, Any]) -> None:
    """The sentence need not contain the subject."""
    fact = count_record["counterfactual_facts"][1]
    fact["atomic_facts"] = ["She has never been in the band"]
    fact["atomic_triples"] = ["(Mia (Stone); has never sung in; Quay)"]
    ((edit,),) = (case.edits for case in read(count_record, scheme="counting"))
    assert edit.cloze is not None
    assert edit.cloze.prompt == "Mia (Stone) has never sung in"
    assert edit.cloze.span == (0, len("Mia (Stone)"))
    assert edit.after is not None
    assert edit.after.objects[0].label == "Quay"
    assert edit.question == 'Fill in the blank: "Mia (Stone), has never sung in: ___."'


# --- layouts -------------------------------------------------------------------------------------------------


def test_layout_of_counting(read: Read, count_record: dict[str, Any]) -> None:
    (case,) = read(count_record, scheme="counting")
    assert statements(case) == ["Mia has never sung in Quay"]
    assert case.edits[0].before is None
    assert case.sentences_before == ("Ada sings in Quay.", "Mia sings in Quay.")
    assert case.sentences_after == ("Ada sings in Quay.", "Mia has never sung in Quay.")
    assert not note(case)


@pytest.mark.parametrize("scheme", ["aggregation", "subtraction"])
def test_layout_of_aggregation_and_subtraction(read: Read, total_record: dict[str, Any], scheme: str) -> None:
    del total_record["indirect_counterfactual_fact"][1]
    (case,) = read(total_record, scheme=scheme)
    assert statements(case) == ["Quay has 5 singers."]
    assert case.sentences_before == ("Quay has 3 singers.", "Pier has 4 singers.")


@pytest.mark.parametrize(
    ("facts", "counterfactuals"),
    [
        ("facts_per_entity", "counterfactuals_per_entity"),
        ("facts", "counterfactual_facts"),
        ("fact", "counterfactual_fact"),
        ("indirect_facts", "indirect_counterfactual_facts"),
    ],
)
def test_keys_are_recognized_by_their_words(
    read: Read, order_record: dict[str, Any], facts: str, counterfactuals: str
) -> None:
    (expected,) = read(order_record, scheme="sorting")
    order_record[facts] = order_record.pop("facts_per_choice")
    order_record[counterfactuals] = order_record.pop("counterfactuals_per_choice")
    assert read(order_record, scheme="sorting") == [expected]
    order_record["unchanged_facts"] = order_record[counterfactuals].pop("unchanged_facts")
    assert read(order_record, scheme="sorting") == [expected]


def test_choices_may_be_keys_of_the_record(read: Read, record: dict[str, Any]) -> None:
    (expected,) = read(record)
    flat = {**record, **record["facts_per_choice"], **record["counterfactuals_per_choice"]}
    del flat["facts_per_choice"], flat["counterfactuals_per_choice"]
    assert read(flat) == [expected]


# --- anomalies -----------------------------------------------------------------------------------------------


def test_numeric_answer_is_converted_to_text(read: Read, count_record: dict[str, Any]) -> None:
    (case,) = read({**count_record, "counterfactual_answer": 0}, scheme="counting")
    (probe,) = [probe for probe in case.probes if probe.aspect == REASONING]
    assert probe.queries[0].gold.entities[0].names == ("0", "one")
    assert note(case) == "number as an answer read as text"


def test_digits_and_words_match_as_numbers(read: Read, count_record: dict[str, Any]) -> None:
    count_record |= {"answer": "22", "answer_alias": ["twenty-two"], "counterfactual_answer": "21"}
    (case,) = read({**count_record, "counterfactual_answer_alias": ["twenty-one"]}, scheme="counting")
    (probe,) = [probe for probe in case.probes if probe.aspect == REASONING]
    judge = ke_plugin_alias.judge.Alias(ke_plugin_alias.AliasConfig())
    items = [Item(query=probe.queries[0], reply=Answer(text=a)) for a in ("21", "Twenty-one", "twenty two", "22", "20")]
    assert [found.verdict.value for found in judge.judge(None, items)] == [
        "right",
        "right",
        "pre-edit",
        "pre-edit",
        "wrong",
    ]


HARMLESS: dict[str, tuple[Spoil, str]] = {
    "a list around a fact": (lambda r: r.update(facts=[[[fact]] for fact in r["facts"]]), ""),
    "a text for a list": (
        lambda r: r["facts"][0].update(atomic_facts="Ada sings in Quay", atomic_triples="(Ada; sings in; Quay)"),
        "",
    ),
    "no alias": (lambda r: r.update(answer_alias=None), ""),
    "an unknown key": (lambda r: r.update(counterfactual_answer_aias=[]), ""),
    "space around the question": (lambda r: r.update(question=f" {r['question']} "), ""),
    "a fact without atomic facts": (
        lambda r: r["facts"].append({"sentence": "I am sorry.", "atomic_facts": [], "atomic_triples": []}),
        "fact without atomic facts left out",
    ),
    "a triple without object": (
        lambda r: r["facts"][1].update(atomic_triples=["(Mia; sings in; )"]),
        "triple without three parts not used",
    ),
    "fewer triples than atomic facts": (
        lambda r: r["facts"][1].update(atomic_triples=[]),
        "triples not used: not as many as atomic facts",
    ),
    "a bracket missing": (
        lambda r: r["counterfactual_facts"][1].update(atomic_triples=["(Mia; has never sung in; Quay"]),
        "closing bracket of a triple added",
    ),
    "the same fact twice": (lambda r: r["counterfactual_facts"].append(r["counterfactual_facts"][1]), ""),
    "the same triple in other words": (
        lambda r: r["counterfactual_facts"].append(
            {**r["counterfactual_facts"][1], "atomic_facts": ["Never has Mia sung in Quay"]}
        ),
        "",
    ),
}


@pytest.mark.parametrize("name", HARMLESS)
def test_harmless_anomalies_do_not_change_the_edits(read: Read, count_record: dict[str, Any], name: str) -> None:
    (sound,) = read(count_record, scheme="counting")
    spoil, said = HARMLESS[name]
    spoil(count_record)
    (case,) = read(count_record, scheme="counting")
    assert case.edits == sound.edits
    assert not case.not_editable
    assert note(case) == said


@pytest.mark.parametrize("triple", ["(Mia; has never sung; in; Quay)", "(Mia; has never sung in)", "(Mia; ; )"])
def test_sentence_is_the_edit_without_usable_triple(read: Read, count_record: dict[str, Any], triple: str) -> None:
    count_record["counterfactual_facts"][1]["atomic_triples"] = [triple]
    (case,) = read(count_record, scheme="counting")
    (edit,) = case.edits
    assert (edit.statement, edit.after, edit.cloze) == ("Mia has never sung in Quay", None, None)
    assert case.tags["edited as"] == "sentences only, since no triple changes"


def test_several_objects_are_one_edit(read: Read, count_record: dict[str, Any]) -> None:
    """Some editors reject two targets of one prompt."""
    fact = count_record["counterfactual_facts"][1]
    fact["atomic_facts"].append("Mia has never sung in Pier.")
    fact["atomic_triples"].append("(mia; has never sung in; Pier)")
    (case,) = read(count_record, scheme="counting")
    (edit,) = case.edits
    assert edit.statement == "Mia has never sung in Quay. Mia has never sung in Pier."
    assert edit.after is not None
    assert [entity.label for entity in edit.after.objects] == ["Quay", "Pier"]


def test_sentence_with_two_triples_is_two_edits(read: Read, count_record: dict[str, Any]) -> None:
    """Each edit id is one statement, so the second triple gets its own."""
    fact = count_record["counterfactual_facts"][1]
    fact["atomic_facts"] = ["Mia left Quay in 1999 for Pier"] * 2
    fact["atomic_triples"] = ["(Mia; left; Quay)", "(Mia; left for; Pier)"]
    (case,) = read(count_record, scheme="counting")
    assert statements(case) == ["Mia left Quay in 1999 for Pier", "Mia left for Pier"]
    assert [edit.after.objects[0].label for edit in case.edits if edit.after] == ["Quay", "Pier"]


UNEDITABLE: dict[str, tuple[Spoil, str]] = {
    "nothing changes": (lambda r: r.update(counterfactual_facts=r["facts"]), "the edit changes nothing"),
    "no counterfactual": (lambda r: r.update(counterfactual_facts=[]), "there are no counterfactual facts"),
    "one answer": (lambda r: r.update(counterfactual_answer=" 2 "), "the counterfactual answer equals the answer"),
}


@pytest.mark.parametrize("name", UNEDITABLE)
def test_uneditable_record_is_a_case_with_a_reason(read: Read, count_record: dict[str, Any], name: str) -> None:
    spoil, reason = UNEDITABLE[name]
    sound = dict(count_record)
    spoil(count_record)
    _sound, case = read(sound, count_record, scheme="counting")
    assert case.not_editable.startswith(reason)
    assert case.edits == ()
    assert case.probes[0].aspect == REASONING
    assert not [problem for problem in problems([case]) if problem.level == "error"]


# --- the published files -------------------------------------------------------------------------------------


def published_cases(folder: Path, scheme: str) -> tuple[Recoe, list[Case]]:
    if not (folder / "recoe" / scheme).is_dir():
        pytest.skip(f"{folder}/recoe/{scheme} is missing")
    dataset = Recoe(variant=VARIANTS[scheme], config=RecoeConfig(data_dir=str(folder / "recoe")))
    return dataset, list(dataset.cases())


@pytest.mark.parametrize(
    ("scheme", "size", "triples", "uneditable", "by_sentence"),
    [("counting", 643, 1341, [90, 99, 101], [219]), ("aggregation", 508, 1687, [], [183])],
)
def test_published_records_are_readable(
    ke_data_dir: Path, scheme: str, size: int, triples: int, uneditable: list[int], by_sentence: list[int]
) -> None:
    """Positions in the file count from 0."""
    dataset, cases = published_cases(ke_data_dir, scheme)
    assert len(cases) == size
    assert [at for at, case in enumerate(cases) if case.not_editable] == uneditable
    assert [at for at, case in enumerate(cases) if "edited as" in case.tags] == by_sentence
    records = list(dataset.all_records())
    assert sum(len(tuple(fact.atoms())) for record in records for fact in record.counterfactuals()) == triples
    assert not [problem for problem in problems(cases) if problem.level == "error"]
    assert count_cases(cases).get("cannot be edited", 0) == len(uneditable)


def test_notes_of_published_counting_records(ke_data_dir: Path) -> None:
    dataset, cases = published_cases(ke_data_dir, "counting")
    assert [at for at, case in enumerate(cases) if note(case).startswith("number")] == [31]
    assert [at for at, case in enumerate(cases) if note(case).startswith("closing")] == [109, 433]
    assert [at for at, case in enumerate(cases) if "more than three" in note(case)] == [162]
    assert len([case for case in cases if "without three parts" in note(case)]) == 9
    records = list(dataset.all_records())
    assert records[31].counterfactual_answer == "0"
    assert len(list(records[332].facts())) == 2
