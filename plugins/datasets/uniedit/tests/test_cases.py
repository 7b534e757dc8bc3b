"""Cases of made-up records in the published format, and of the embedded ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ke_core.plugin import BadConfig, Dataset, KEWarning
from ke_testing.dataset import DatasetContract, build_dataset, read_error, with_field, write_json

EDIT = ["h_e", "r_e", "t_e"]


def entity(name: str, label: str, *aliases: str) -> dict[str, Any]:
    return {"id": name, "label": label, "description": "", "aliases": list(aliases)}


def fact(subject: str, relation: str, target: str, head: dict[str, Any], tail: dict[str, Any]) -> dict[str, Any]:
    return {
        "prompt": f"The {relation} of {subject} is",
        "target": target,
        "subject": subject,
        "head_entity": head,
        "property": {"id": f"P-{relation}", "label": relation, "single_value": True},
        "tail_entity": {"datatype": "wikibase-item", "value": tail, "order_in_property": 0},
        "single_inverse": True,
    }


MILLS, CRANE = entity("Q1", "Ostrel Mills", "the Mills"), entity("Q2", "Tobin Crane", "T. Crane")
ORM, LUME = entity("Q3", "Orm"), entity("Q4", "the Lume")
FACT = fact("Ostrel Mills", "founder", "Tobin Crane", MILLS, CRANE)
OWN = {"path": EDIT, **FACT}
BIRTH = {"path": ["t_e", "r_0", "e_0"], **fact("Tobin Crane", "birthplace", "Orm", CRANE, ORM)}
FOUNDED = {"path": ["e_0", "r_e", "t_e"], **fact("the Lume", "founder", "Tobin Crane", LUME, CRANE)}


def single(prompt: str, target: str, paths: list[list[str]], *hops: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"path_type": "single", "prompt": prompt, "target": target, "paths": paths, "one_hops": list(hops), **more}


REPHRASE = single("Ostrel Mills was set up by", "Tobin Crane", [[*EDIT, "f", "s"]], OWN)
MULTI_HOP = single(
    "The founder of Ostrel Mills was born in", "Orm", [[*EDIT, "f", "s"], ["t_e", "r_0", "e_0", "f", "s"]], OWN, BIRTH
)
REVERSAL = single("Tobin Crane founded", "Ostrel Mills", [["t_e", "r_e", "h_e", "b", "m"]], OWN)
ALIAS = single(
    "The founder of the Mills is", "T. Crane", [[*EDIT, "f", "s"]], OWN | {"subject": "the Mills", "target": "T. Crane"}
)
SAME = {
    "path_type": "double",
    "prompt": "Do Ostrel Mills and the Lume have the same founder?",
    "target": "Yes",
    "single_path1": {"path_type": "single", "paths": [[*EDIT, "f", "s"]], "one_hops": [OWN]},
    "single_path2": {"path_type": "single", "paths": [["e_0", "r_e", "t_e", "f", "s"]], "one_hops": [FOUNDED]},
}
NEAR = single(
    "The birthplace of Tobin Crane is", "Orm", [["t_e", "r_0", "e_0", "f", "s"]], BIRTH, loc_type="tail of edit"
)


def record(generality: Any = MULTI_HOP, locality: Any = NEAR) -> dict[str, Any]:
    return {"edit": FACT, "generality": {"0": generality}, "locality": {"0": locality}}


@pytest.fixture
def stored(tmp_path: Path) -> Callable[..., Dataset]:
    """Write the file of a domain and build the dataset that reads it."""

    def store(content: Any, domain: str = "mills", **options: str) -> Dataset:
        folder = tmp_path / options.get("part", "test")
        folder.mkdir(exist_ok=True)
        write_json(folder / f"{domain}.json", content)
        return build_dataset("uniedit", data_dir=str(tmp_path), **options)

    return store


class TestFile(DatasetContract):
    name = "uniedit"
    whole = False

    @pytest.fixture
    def dataset(self, stored) -> Dataset:
        return stored({"7": record(), "9": record(SAME)})


class TestAtlas(DatasetContract):
    name = "uniedit-atlas"


@pytest.mark.parametrize(
    ("question", "criterion"),
    [
        (REPHRASE, "rephrase"),
        (MULTI_HOP, "multi-hop"),
        (REVERSAL, "reversal"),
        (ALIAS, "rephrase + subject alias + object alias"),
        (SAME, "same entity"),
    ],
)
def test_criteria_of_generality_follow_from_the_chains(stored, question, criterion) -> None:
    [case] = stored({"7": record(question)}).cases()
    [probe] = [probe for probe in case.probes if probe.aspect == "portability"]
    assert probe.tags == {"criterion": criterion, "domain": "mills"}


OTHER = fact("Vell", "birthplace", "Orm", entity("Q8", "Vell"), ORM)


@pytest.mark.parametrize(
    ("hop", "criterion"),
    [
        (BIRTH, "object specificity"),
        (FOUNDED, "relation specificity + object specificity"),
        ({"path": ["h_e", "r_0", "e_0"], **fact("Ostrel Mills", "river", "Orm", MILLS, ORM)}, "subject specificity"),
        (
            {"path": ["h_e", "r_e", "e_0"], **fact("Ostrel Mills", "founder", "Orm", MILLS, ORM)},
            "subject specificity + relation specificity + 1-N forgetting",
        ),
        ({"path": ["e_1", "r_0", "e_0"], **OTHER}, "unrelated"),
    ],
)
def test_criteria_of_locality_follow_from_shared_entities_and_relations(stored, hop, criterion) -> None:
    near = single("x is", "y", [[*hop["path"], "f", "s"]], hop)
    [case] = stored({"7": record(locality=near)}).cases()
    assert case.probes[-1].tags["criterion"] == criterion


@pytest.mark.parametrize(("hops", "targets"), [("edit", ["Tobin Crane", "Orm"]), ("keep", ["Tobin Crane"])])
def test_other_hops_are_edited_in_or_left_to_the_model(stored, hops, targets) -> None:
    [case] = stored({"7": record()}, hops=hops).cases()
    assert [edit.target for edit in case.edits] == targets
    assert case.id == "mills-7"


def test_same_entity_question_asks_for_yes_or_no(stored) -> None:
    [case] = stored({"7": record(SAME)}).cases()
    query = next(probe.queries[0] for probe in case.probes if probe.aspect == "portability")
    assert query.texts[0].endswith("founder? Answer with yes or no:")


def test_object_may_be_named_by_any_published_name(stored) -> None:
    query = next(stored({"7": record()}).cases()).probes[0].queries[0]
    assert query.gold.entities[0].names == ("Tobin Crane", "T. Crane")


@pytest.mark.parametrize(
    ("question", "names"),
    [
        (REPHRASE, ("Tobin Crane", "T. Crane")),
        (REVERSAL, ("Ostrel Mills", "the Mills")),
        (ALIAS, ("T. Crane", "Tobin Crane")),
        (MULTI_HOP, ("Orm",)),
    ],
)
def test_answer_to_a_generality_question_may_be_any_published_name(stored, question, names) -> None:
    [case] = stored({"7": record(question)}).cases()
    [query] = [probe.queries[0] for probe in case.probes if probe.aspect == "portability"]
    assert query.gold.entities[0].names == names


@pytest.mark.parametrize(
    "tail", [{"datatype": "time", "value": {"time": "+1820"}}, {"datatype": "string", "value": "1820"}]
)
def test_value_as_object_has_no_aliases(stored, tail) -> None:
    """The released files have the value of a string or a formula as a text."""
    edit = {**FACT, "target": "1820", "tail_entity": tail}
    [case] = stored({"7": {**record(), "edit": edit}}).cases()
    assert case.probes[0].queries[0].gold.entities[0].names == ("1820",)


@pytest.mark.parametrize("datatype", ["string", "external-id"])
def test_value_may_look_like_the_id_of_an_entity(stored, datatype) -> None:
    """The formula of a hop, or the number of a road."""
    hop = {**BIRTH, "target": "P1127", "tail_entity": {"datatype": datatype, "value": "P1127"}}
    [case] = stored({"7": record(MULTI_HOP | {"one_hops": [OWN, hop]})}).cases()
    assert [edit.target for edit in case.edits] == ["Tobin Crane", "P1127"]


def test_entity_without_label_is_named(stored) -> None:
    content = {"7": record(MULTI_HOP | {"one_hops": [OWN, BIRTH | {"target": "Q1127"}]})}
    assert "target is Q1127: no label, only its Wikidata id" in read_error(stored(content).cases)


@pytest.mark.parametrize("name", ["prompt", "target", "subject"])
def test_records_with_an_incomplete_fact_are_skipped_and_counted(stored, name) -> None:
    content = {
        "7": record(MULTI_HOP | {"one_hops": [OWN, BIRTH | {name: " "}]}),
        "8": record(locality=NEAR | {"one_hops": [BIRTH | {name: ""}]}),
        "9": {**record(), "edit": FACT | {name: ""}},
        "10": record(),
    }
    with pytest.warns(KEWarning, match="uniedit: skipped records with a blank prompt, target or subject: 3"):
        assert [case.id for case in stored(content).cases()] == ["mills-10"]


def test_domains_and_part_are_options(stored) -> None:
    stored({"1": record()}, "art")
    dataset = stored({"2": record()}, "mills", domains="art")
    assert [case.id for case in dataset.cases()] == ["art-1"]
    assert [case.id for case in stored({"3": record()}, "art", part="train").cases()] == ["art-3"]
    message = read_error(stored({"2": record()}, domains="law").cases)
    assert "uniedit has no domain 'law'" in message


@pytest.mark.parametrize("options", [{"domains": "art"}, {"part": "train"}])
def test_embedded_dataset_refuses_domains_and_part(options) -> None:
    with pytest.raises(BadConfig, match=r"uniedit-atlas does not read uniedit\.domains or uniedit\.part"):
        build_dataset("uniedit-atlas", **options)


def test_missing_folder_is_named(tmp_path) -> None:
    dataset = build_dataset("uniedit", data_dir=str(tmp_path))
    assert "the folder test of uniedit is missing" in read_error(dataset.cases)
    assert dataset.checksum() == ""


@pytest.mark.parametrize("path", ["edit.prompt", "edit.head_entity.id", "locality"])
def test_missing_field_is_named(stored, path) -> None:
    message = read_error(stored({"7": with_field(record(), path)}).cases)
    assert f"case 7: {path}: missing" in message


def test_missing_field_of_a_hop_is_named(stored) -> None:
    message = read_error(stored({"7": record(with_field(MULTI_HOP, "one_hops.1.path"))}).cases)
    assert message.endswith("one_hops[1].path: missing")


def test_question_without_the_chains_of_its_type_is_an_error(stored) -> None:
    message = read_error(stored({"7": record(with_field(SAME, "single_path2"))}).cases)
    assert "single_path1 or single_path2: missing" in message


def test_embedded_questions_have_seven_criteria() -> None:
    found: Counter[str] = Counter()
    for case in build_dataset("uniedit-atlas").cases():
        found.update(probe.tags["criterion"] for probe in case.probes if "criterion" in probe.tags)
    assert set(found) == {
        "rephrase", "reversal", "multi-hop", "same entity", "subject specificity", "relation specificity", "unrelated",
    }  # fmt: skip


def test_folder_may_be_relative(stored, tmp_path, monkeypatch) -> None:
    stored({"7": record()})
    monkeypatch.chdir(tmp_path)
    assert len([*build_dataset("uniedit", data_dir=".").cases()]) == 1


def test_no_embedded_locality_question_is_edited_by_any_case() -> None:
    cases = list(build_dataset("uniedit-atlas").cases())
    edited = {edit.cloze.prompt for case in cases for edit in case.edits}
    queries = [
        query for case in cases for probe in case.probes if probe.aspect == "locality" for query in probe.queries
    ]
    assert not edited & {query.texts[0] for query in queries}
