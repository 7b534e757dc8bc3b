"""Published and made-up records as cases."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ke_core.app import App, discover, installed_catalog
from ke_core.cli.main import build, invoke
from ke_core.plugin import EFFICACY, BadData, Case, Dataset, Probe
from ke_plugin_ripple_edits.words import RELATIONS, split_prompt
from ke_testing.dataset import DatasetContract, build_dataset, read_error, with_field


class TestAtlas(DatasetContract):
    name = "ripple-edits-atlas"


class TestMasked(DatasetContract):
    name = "ripple-edits-atlas"
    options = {"mask": "true"}  # noqa: RUF012  the contract declares it as a ClassVar


class TestSample(DatasetContract):
    name = "ripple-edits"

    @pytest.fixture
    def dataset(self, sample: Path, toy: Any) -> Dataset:
        return build_dataset("ripple-edits", file=str(sample))


def probes(case: Case, aspect: str) -> list[Probe]:
    return [probe for probe in case.probes if probe.aspect == aspect]


@pytest.fixture
def real(sample: Path, toy: Any) -> list[Case]:
    return list(build_dataset("ripple-edits", file=str(sample)).cases())


def test_published_edits_are_parsed(real: list[Case]) -> None:
    edits = [case.edits[0] for case in real]
    assert [edit.cloze.subject for edit in edits if edit.cloze] == [
        "꼠", "Goursez Vreizh", "Frederic Piesch", "Leonardo DiCaprio",
    ]  # fmt: skip
    assert [edit.after.objects[0].label for edit in edits if edit.after] == [
        "33910 Lestarge", "Franche-Comté", "Archbishop of León, Mexico", "Syria",
    ]  # fmt: skip
    assert [edit.before.objects[0].label for edit in edits if edit.before] == [
        "꼟", "France", "mayor of Vienna", "United States of America",
    ]  # fmt: skip
    assert edits[1].cloze is not None
    assert edits[1].cloze.template == "The name of the country which {} is associated with is"
    assert edits[0].after is not None
    assert edits[0].after.objects[0].aliases == ("(33910) 2000 LJ9", "Lestarge")


def test_published_tests_are_complete(real: list[Case]) -> None:
    counts = [Counter(probe.id.partition("-")[0] for probe in case.probes) for case in real]
    assert counts == [
        {EFFICACY: 1, "known": 1, "LG": 1, "SA": 2, "RS": 1},
        {EFFICACY: 1, "known": 1, "LG": 4, "CI": 1, "SA": 1, "RS": 1},
        {EFFICACY: 1, "known": 1, "SA": 1, "RS": 4, "PV": 1},
        {EFFICACY: 1, "known": 1, "RS": 1},
    ]
    assert [case.tags for case in real[2:]] == [
        {"subset": "random", "relation": "POSITION_HELD"},
        {"subset": "popular", "relation": "COUNTRY_OF_CITIZENSHIP"},
    ]


def test_published_questions_without_answer_have_no_gold(real: list[Case]) -> None:
    (first, *_rest) = probes(real[1], "logical-generalization")
    assert first.queries[0].gold.entities == ()
    assert first.given[0].gold.entities == ()


def test_test_that_is_its_own_condition_is_asked_once(real: list[Case]) -> None:
    (aliased, *_rest) = probes(real[0], "subject-aliasing")
    assert aliased.given == aliased.queries
    assert aliased.queries[0].pre_edit is not None
    assert aliased.queries[0].pre_edit.entities[0].label == "꼟"
    (unrelated,) = probes(real[1], "relation-specificity")
    assert unrelated.given[0].id == unrelated.queries[0].id
    assert unrelated.queries[0].pre_edit is None


def test_two_hop_queries(loaded: Any, record: dict[str, Any]) -> None:
    (case,) = loaded(record)
    (probe,) = probes(case, "compositionality-1")
    (query,) = probe.queries
    assert query.relation == "SPOUSE/CHILD"
    assert [(entity.label, entity.id) for entity in query.gold.entities] == [("Cy", "Q-Cy")]
    assert [condition.texts[0] for condition in probe.given] == ["The name of the child of Bea Dun is"]
    assert query.gold.require == "any"


def test_keys_and_criteria(loaded: Any, record: dict[str, Any], toy: Any) -> None:
    record["Forgetfulness"] = [toy.grouped(toy.query("PV", "x"))]
    record["Compositionality_II"] = [toy.grouped(toy.query("CII", "x"), condition="AND")]
    (case,) = loaded(record)
    found = {probe.id: (probe.aspect, probe.queries[0].texts[0][:4]) for probe in case.probes}
    assert found["PV-1"] == ("preservation", "PV")
    assert found["CII-1"] == ("compositionality-2", "CII")
    assert found["RS-1"][0] == "relation-specificity"
    assert {probe.id: probe.require for probe in case.probes}["CII-1"] == "all"


def test_edit_of_a_record(loaded: Any, record: dict[str, Any]) -> None:
    (case,) = loaded(record)
    (edit,) = case.edits
    assert (edit.id, edit.statement) == ("Q1|SPOUSE|Q2", "The name of the spouse of Al Dun is Bea Dun")
    own, known = case.probes[:2]
    assert (own.phase, own.queries[0].gold.entities[0].label) == ("after", "Bea Dun")
    assert (known.phase, known.queries[0].gold.entities[0].label) == ("before", "Ada Moe")
    assert {(fact.subject.key, fact.relation.key) for fact in case.facts_after} == {
        ("Q1", "SPOUSE"), ("Q2", "CHILD"), ("Q2", "SPOUSE"),
    }  # fmt: skip


def test_injected_fact_has_no_old_object(loaded: Any, record: dict[str, Any]) -> None:
    record["example_type"] = "recent"
    del record["edit"]["original_fact"]
    (case,) = loaded(record)
    assert case.edits[0].before is None
    assert case.probes[1].queries[0].gold.entities[0].label == "Bea Dun"


def test_old_object_missing_from_its_prompt_is_unknown(loaded: Any, record: dict[str, Any]) -> None:
    record["edit"]["original_fact"]["prompt"] = "The name of the spouse of Al Dun is ."
    (case,) = loaded(record)
    assert case.edits[0].before is None
    assert case.probes[0].queries[0].pre_edit is None


def test_bare_id_is_not_a_name(loaded: Any, record: dict[str, Any], toy: Any) -> None:
    """The released code writes the id if Wikidata has no label."""
    record["edit"]["prompt"] = "The name of the spouse of Al Dun is Q2."
    record["Subject_Aliasing"] = []
    record["Relation_Specificity"] = [toy.grouped(toy.query("The child of Al is", "Q77", ids=["Q77"]))]
    (case,) = loaded(record)
    assert case.probes[0].queries[0].gold.entities == ()
    assert probes(case, "relation-specificity")[0].queries[0].gold.entities == ()


def validated(path: Path) -> object:
    """Return the exit status of ``ke datasets validate``."""
    app = App(discover())
    return invoke(build(app), ["datasets", "validate", "ripple-edits", "-o", f"ripple-edits.file={path}"], app)


def test_published_records_validate_with_warnings_only(sample: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert validated(sample) == 0
    assert capsys.readouterr().out.rstrip().endswith("ripple-edits: 4 cases, 0 errors, 10 warnings")


def test_missing_answers_and_labels_are_warnings(
    toy: Any, record: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record["edit"]["prompt"] = "The name of the spouse of Al Dun is Q2."
    record["Subject_Aliasing"] = []
    record["Relation_Specificity"] = [toy.grouped(toy.query("The child of Al is"))]
    (tmp_path / "own.json").write_text(json.dumps([record]))
    assert validated(tmp_path / "own.json") == 0
    out = capsys.readouterr().out
    assert "has no right answer" in out
    assert "'Q2' has no label, only its id" in out
    assert " 0 errors, " in out


def test_embedded_dataset_has_no_known_flaws(toy: Any) -> None:
    assert build_dataset("ripple-edits-atlas").info().known_flaws == frozenset()


@pytest.mark.parametrize(
    ("aliases", "named"),
    [(["", "m", "man"], [("m", ("man",))]), ([" "], []), ([], [])],
    ids=["aliases", "blank", "none"],
)
def test_first_alias_replaces_a_missing_label(
    loaded: Any, record: dict[str, Any], toy: Any, aliases: list[str], named: list[Any]
) -> None:
    """The released generator writes an empty label if Wikidata has none in English."""
    nameless = toy.query("The gender of Al Dun is", "", relation="SEX_OR_GENDER", ids=["Q66"])
    nameless["answers"][0]["aliases"] = aliases
    record["Relation_Specificity"] = [toy.grouped(nameless)]
    (case,) = loaded(record)
    (probe,) = probes(case, "relation-specificity")
    assert [(entity.label, entity.aliases) for entity in probe.queries[0].gold.entities] == named


def test_ids_may_be_lists_or_numbers(loaded: Any, record: dict[str, Any], toy: Any) -> None:
    many = toy.query(
        "The number of children Al Dun has is", "3", relation="NUMBER_OF_CHILDREN", ids=[3], subject=["Q1"]
    )
    record["Logical_Generalization"] = [toy.grouped(many)]
    (case,) = loaded(record)
    assert probes(case, "logical-generalization")[0].queries[0].gold.entities[0].label == "3"


@pytest.mark.parametrize(
    ("prompt", "relation", "objects", "other", "object_"),
    [
        ("The gender of This is X is male.", "SEX_OR_GENDER", (), "The gender of This is X is female.", "male"),
        ("Up follows What is Love.", "FOLLOWS", (), "Up follows Down.", "What is Love"),
        ("The place of birth of A is St. Ives.", "PLACE_OF_BIRTH", (), "The place of birth of A is Paris.", "St. Ives"),
        ("The name of the spouse of A is Sammy Davis Jr..", "SPOUSE", ("Sammy Davis Jr.",), "", "Sammy Davis Jr."),
        ("The name of the child of A is B is C.", "CHILD", ("B is C",), "", "B is C"),
        ("The name of the award A won is Best.", "AWARD_RECEIVED", (), "", "Best"),
    ],
)
def test_object_is_parsed_from_its_prompt(
    prompt: str, relation: str, objects: tuple[str, ...], other: str, object_: str
) -> None:
    assert split_prompt(prompt, relation, objects=objects, other=other).object == object_


def test_all_53_relations_are_known() -> None:
    assert len(RELATIONS) == 53


def test_default_metric_and_judge() -> None:
    catalog = installed_catalog()
    for name in ("ripple-edits", "ripple-edits-recent", "ripple-edits-random", "ripple-edits-popular"):
        spec = catalog.spec("dataset", name)
        assert (spec.metrics, spec.judge) == (("ripple",), "containment")
        assert (spec.builder is not None) == (name == "ripple-edits")


# --- bad input -------------------------------------------------------------------------------------------


QUERY = "Relation_Specificity.0.test_queries.0"


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        ("example_type", "unheard", "example_type is 'unheard', not recent or random or popular"),
        ("example_type", ..., "example_type: missing"),
        ("edit.prompt", 5, "edit.prompt: must be a text, not a whole number"),
        ("edit.prompt", " ", "prompt is blank"),
        ("edit.relation", "COUSIN", "edit.relation COUSIN is unknown"),
        ("edit.prompt", "Al married Bea.", "edit.prompt does not have the form of SPOUSE"),
        ("edit.subject_id", {}, "subject_id must be a text, a number or a list of them"),
        ("edit.target_label", "Zoe", "target_label is not in prompt"),
        ("edit.target_label", "Q40271", "no label, only its Wikidata id"),
        ("Relation_Specificity", ..., "Relation_Specificity is missing"),
        ("Logical_Generalization", ..., "Logical_Generalization: missing"),
        ("Relation_Specificity.0.test_queries", [], "test_queries is empty"),
        ("Relation_Specificity.0.test_condition", "XOR", "test_condition is 'XOR', not OR or AND"),
        (f"{QUERY}.query_type", "three_hop", "query_type is 'three_hop', not regular or two_hop"),
        (f"{QUERY}.query_type", "two_hop", "second_relation or second_hop_target_ids is missing"),
        (f"{QUERY}.answers", "male", "must be a list, not a text"),
        (f"{QUERY}.answers.0.value", None, "must be a text, not null"),
        (f"{QUERY}.answers.0.aliases", [3], "must be a text, not a whole number"),
    ],
)
def test_invalid_field_is_named(loaded: Any, record: dict[str, Any], path: str, value: Any, says: str) -> None:
    error = read_error(lambda: loaded(record, with_field(record, path, value)))
    assert says in error
    assert "own.json, record 2" in error


def test_blank_aliases_are_ignored(loaded: Any, record: dict[str, Any]) -> None:
    (case,) = loaded(with_field(record, f"{QUERY}.answers.0.aliases", ["", " ", "m"]))
    assert probes(case, "relation-specificity")[0].queries[0].gold.entities[0].aliases == ("m",)


@pytest.mark.parametrize("name", ["atlas", "recent", "random", "popular"])
def test_own_file_is_refused_by_the_other_datasets(name: str, sample: Path) -> None:
    with pytest.raises(BadData, match=rf"ripple-edits-{name} does not read ripple-edits\.file"):
        build_dataset(f"ripple-edits-{name}", file=str(sample))


def test_missing_option_file_has_instructions(toy: Any) -> None:
    with pytest.raises(BadData, match="needs a file") as caught:
        list(build_dataset("ripple-edits").cases())
    assert "ripple-edits.file=FILE" in caught.value.hint
