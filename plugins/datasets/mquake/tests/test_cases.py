"""Cases of made-up records."""

from __future__ import annotations

import pytest

from ke_core.plugin import expected


def only(dataset):
    (case,) = dataset.cases()
    return case


def probes(case):
    return {probe.id: probe for probe in case.probes}


def labels(gold):
    return [entity.label for entity in gold.entities]


def test_probes_of_a_case(record, stored) -> None:
    found = probes(only(stored([record])))
    assert {
        name: (probe.aspect, probe.phase, probe.require, [query.id for query in probe.queries])
        for name, probe in found.items()
    } == {
        "efficacy-1": ("efficacy", "after", "any", ["hop-1"]),
        "instance-before": ("instance", "before", "all", ["hop-1", "old-hop-2"]),
        "instance-after": ("instance", "after", "all", ["hop-1", "hop-2"]),
        "multi-hop": ("multi-hop", "both", "any", ["multi-hop-1", "multi-hop-2"]),
    }


def test_edited_hop_has_its_edit_and_pre_edit_answer(record, stored) -> None:
    case = only(stored([record]))
    edited, unedited = probes(case)["instance-after"].queries
    assert (edited.edit, unedited.edit) == (case.edits[0].id, None) == ("Q1|P27|Q3", None)
    assert (labels(edited.gold), labels(edited.pre_edit), unedited.pre_edit) == (["Boland"], ["Aland"], None)
    assert edited.pre_edit.entities[0].aliases == ("AL",)
    assert probes(case)["efficacy-1"].queries == (edited,)


def test_gold_before_editing_is_the_old_chain(record, stored) -> None:
    before = probes(only(stored([record])))["instance-before"].queries
    assert [labels(query.gold) for query in before] == [["Aland"], ["Alaville"]]
    assert all(query.edit is None and query.pre_edit is None for query in before)


def test_each_wording_comes_first_once(record, stored) -> None:
    queries = probes(only(stored([record])))["multi-hop"].queries
    assert [query.texts for query in queries] == [tuple(record["questions"]), tuple(reversed(record["questions"]))]
    assert {query.gold.entities[0].names for query in queries} == {("Boville", "Bo City")}


@pytest.mark.parametrize("number", [1, 2, 5])
def test_any_number_of_wordings(record, stored, number) -> None:
    record["questions"] = [f"Question {n}?" for n in range(number)]
    queries = probes(only(stored([record])))["multi-hop"].queries
    assert len(queries) == number
    assert all(len(query.texts) == number for query in queries)


def test_repeated_wording_is_asked_once(record, stored) -> None:
    record["questions"] = ["Which?", "Which?", "What?"]
    queries = probes(only(stored([record])))["multi-hop"].queries
    assert [query.texts for query in queries] == [("Which?", "What?"), ("What?", "Which?")]


def test_extended_answers_are_right_before_editing_only(record, stored) -> None:
    record["answer_extended"] = ["Old Alaville"]
    probe = probes(only(stored([record])))["multi-hop"]
    query = probe.queries[0]
    assert "Old Alaville" in expected(query, probe, "before", edited=True).gold.entities[0].names
    assert "Old Alaville" not in expected(query, probe, "after", edited=True).gold.entities[0].names


def test_subject_may_occur_twice_in_the_prompt(record, stored) -> None:
    rewrite = record["requested_rewrite"][0]
    rewrite["prompt"] = "In Mira Toll's own book, {} is a citizen of"
    case = only(stored([record]))
    cloze = case.edits[0].cloze
    assert cloze.prompt == "In Mira Toll's own book, Mira Toll is a citizen of"
    assert cloze.prompt[slice(*cloze.span)] == "Mira Toll"
    assert cloze.span[0] == len("In Mira Toll's own book, ")


def test_no_template_from_a_text_that_names_its_subject_twice(record, stored) -> None:
    for name in ("single_hops", "new_single_hops"):
        record[name][0]["question"] = "Mira Toll? Of what country is Mira Toll a citizen?"
    relation = only(stored([record])).edits[0].after.relation
    assert (relation.question, relation.cloze) == (None, "{} is a citizen of")


def test_subject_may_contain_braces(record, stored) -> None:
    record["requested_rewrite"][0]["subject"] = "{} {0}"
    assert only(stored([record])).edits[0].statement == "{} {0} is a citizen of Boland"


def test_blank_aliases_are_ignored(record, stored) -> None:
    record["new_answer_alias"] = ["", " ", "Bo City"]
    record["new_single_hops"][0]["answer_alias"] = [""]
    case = only(stored([record]))
    assert probes(case)["multi-hop"].queries[0].gold.entities[0].names == ("Boville", "Bo City")
    assert case.edits[0].after.objects[0].names == ("Boland",)


def test_case_ids_and_order_are_those_of_the_file(record, stored) -> None:
    other = {**record, "case_id": 3}
    assert [case.id for case in stored([record, other]).cases()] == ["7", "3"]


def test_tags_are_those_of_the_record(record, stored) -> None:
    assert dict(only(stored([record])).tags) == {"hops": "2", "edits": "1"}


def test_contradicted_case_is_not_in_mquake_2002(record, stored, make, tmp_path) -> None:
    other = {**record, "case_id": 8}
    other["requested_rewrite"] = [
        {
            "prompt": "The capital of {} is",
            "relation_id": "P36",
            "target_new": {"str": "Newville", "id": "Q9"},
            "target_true": {"str": "Boville", "id": "Q5"},
            "subject": "Boland",
            "question": "What is the capital of Boland?",
        }
    ]
    last = {**record["new_single_hops"][1], "answer": "Newville"}
    other["new_single_hops"] = [record["new_single_hops"][0], last]
    other["orig"] = {
        **record["orig"],
        "new_triples": [["Q1", "P27", "Q3"], ["Q3", "P36", "Q9"]],
        "new_triples_labeled": [["Mira Toll", "country of citizenship", "Boland"], ["Boland", "capital", "Newville"]],
        "edit_triples": [["Q3", "P36", "Q9"]],
    }
    stored([record, other])
    assert [case.id for case in make("mquake-2002", data_dir=str(tmp_path)).cases()] == ["8"]


def test_aliases_by_label_are_oracle_material(record, stored) -> None:
    material = stored([record]).material()["aliases"]
    assert material.oracle
    assert material.value == {"Aland": ("AL",), "Alaville": (), "Boland": ("BO",), "Boville": ("Bo City",)}


def test_answers_are_the_gold_answers_after_editing(record, stored) -> None:
    assert stored([record]).material()["answers"].value == {
        "7/hop-1": "Boland",
        "7/hop-2": "Boville",
        "7/old-hop-2": "Alaville",
        "7/multi-hop-1": "Boville",
        "7/multi-hop-2": "Boville",
    }


def test_there_is_no_split_of_its_own(record, stored) -> None:
    assert stored([record]).split(1, 0) is None


def test_sub_questions_have_pre_edit_answers(record, stored) -> None:
    material = stored([record]).material()["sub-questions"]
    assert material.oracle
    hops = material.value["7/multi-hop-2"]
    assert [(hop.question, hop.statement) for hop in hops["after"]] == [
        ("What is the country of citizenship of Mira Toll?", "Mira Toll is a citizen of Aland"),
        ("What is the capital of Boland?", "The capital of Boland is Boville"),
    ]
    assert [hop.answer for hop in hops["before"]] == ["Aland", "Alaville"]
    assert [hop.answer for hop in material.value["7/hop-1"]["after"]] == ["Aland"]
