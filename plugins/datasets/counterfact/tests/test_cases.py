"""Cases of made-up records."""

from __future__ import annotations

import pytest

from ke_benchmarks import count_cases
from ke_benchmarks.soundness import problems
from ke_core.plugin import FLUENCY, SINGLE_ASPECTS, Dataset
from ke_testing.dataset import DatasetContract


class TestCounterfact(DatasetContract):
    name = "counterfact"
    whole = False

    @pytest.fixture
    def dataset(self, records, stored) -> Dataset:
        return stored(records)


def told(case):
    return {p.id: [(q.texts[0], q.form, q.continuations) for q in p.queries] for p in case.probes}


def test_probes_contain_every_prompt_of_the_record(record, stored) -> None:
    (case,) = stored([record]).cases()
    own, paraphrases = "Ostrel Mills has its seat in", record["paraphrase_prompts"]
    first, second = (text.strip() for text in paraphrases)
    near = record["neighborhood_prompts"]
    changed, kept = (" Zarl", " Harwick"), (" Harwick", " Zarl")
    assert told(case) == {
        "efficacy": [(own, "cloze", ())],
        "efficacy-probability": [(own, "cloze", changed)],
        "paraphrase": [(first, "cloze", ())],
        "paraphrase-2": [(second, "cloze", ())],
        "paraphrase-probability": [(first, "cloze", changed), (second, "cloze", changed)],
        "locality": [(text, "cloze", ()) for text in near],
        "locality-probability": [(text, "cloze", kept) for text in near],
    }
    assert {probe.aspect for probe in case.probes} == set(SINGLE_ASPECTS)


def test_records_with_openings_are_sound(records, stored) -> None:
    """The files have no names of relations, and openings have no right answer."""
    found = problems(stored(records, openings="3").cases())
    assert [problem for problem in found if problem.level == "error"] == []


def test_openings_are_continued_without_stop_rule(record, stored) -> None:
    record["generation_prompts"] = ["Ostrel Mills's neighbors are ", "Ostrel Mills is near", "Ostrel Mills is near"]
    dataset = stored([record], openings="3")
    (case,) = dataset.cases()
    (probe,) = [probe for probe in case.probes if probe.aspect == FLUENCY]
    assert [query.texts[0] for query in probe.queries] == ["Ostrel Mills's neighbors are", "Ostrel Mills is near"]
    prompt = dataset.prompt(probe.queries[0], "direct")
    assert prompt is not None
    assert (prompt.decoding.max_tokens, prompt.decoding.stop) == (100, ())
    assert prompt.parse("a\nb") == ("a\nb", True)
    assert probe.phase == "both"
    assert not any(key.endswith(probe.queries[0].id) for key in dataset.material()["answers"].value)


def test_gold_of_neighbors_is_the_old_object(record, stored) -> None:
    (case,) = stored([record]).cases()
    golds = {p.id: {q.gold.entities[0].label for q in p.queries} for p in case.probes}
    assert golds.pop("locality") == golds.pop("locality-probability") == {"Harwick"}
    assert set().union(*golds.values()) == {"Zarl"}


def test_edit_is_a_sentence_with_the_span_of_its_subject(record, stored) -> None:
    (case,) = stored([record]).cases()
    (edit,) = case.edits
    assert edit.id == edit.statement == "Ostrel Mills has its seat in Zarl"
    assert edit.cloze.prompt[slice(*edit.cloze.span)] == "Ostrel Mills"
    assert edit.before.objects[0].id == "Q9001"
    assert edit.operation == "replace"
    assert case.tags == {"relation": "P159"}


def test_subject_may_occur_twice_in_the_prompt(record, stored) -> None:
    record["requested_rewrite"]["prompt"] = "Ostrel Mills' own chronicle says that {} sits in"
    (case,) = stored([record]).cases()
    assert case.edits[0].cloze.prompt == "Ostrel Mills' own chronicle says that Ostrel Mills sits in"


def test_equal_statements_are_one_edit(record, stored) -> None:
    found = count_cases(stored([record, record | {"case_id": 1}]).cases())
    assert (found["cases"], found["edit mentions"], found["distinct statements"]) == (2, 2, 1)


def test_unscored_prompts_are_oracle_material(records, stored) -> None:
    material = stored(records).material()
    assert material["generation-prompts"].value["0"] == ("Ostrel Mills's neighbors are",)
    assert material["attribute-prompts"].value["1"] == ("Polder Glass has its seat in",)
    assert all(piece.oracle for piece in material.values())
    assert material["answers"].value["0/edit"] == "Zarl"


def test_no_locality_without_neighbors(record, stored) -> None:
    (case,) = stored([record | {"neighborhood_prompts": []}]).cases()
    assert "locality" not in told(case)


def test_published_count_source_and_license(records, stored) -> None:
    info = stored(records).info()
    assert info.published == {"cases": 21_919}
    assert info.source == "https://rome.baulab.info/data/dsets/counterfact.json"
    assert "MIT" in info.license
