"""Cases of made-up records in the published format, and of the embedded ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ke_core.plugin import BadConfig, Dataset, KEWarning
from ke_plugin_wikibigedit import STEPS, numbers
from ke_plugin_wikibigedit.dataset import Wikibigedit
from ke_testing.dataset import DatasetContract, build_dataset, read_error, with_field, write_json

RECORD = {
    "tag": "update",
    "subject": "Ostrel Mills",
    "relation": "owner",
    "object": "Tobin Crane",
    "update": "Who owns Ostrel Mills?",
    "rephrase": "Ostrel Mills belongs to whom?",
    "personas": None,
    "personas_1": "Hey, whose mills are the Ostrel Mills?",
    "ans": "Tobin Crane",
    "loc": "Who owns the Lume?",
    "loc_ans": "nobody",
    "mhop": "Where was the owner of Ostrel Mills born?",
    "mhop_ans": "Orm",
}


@pytest.fixture
def stored(tmp_path: Path) -> Callable[..., Wikibigedit]:
    """Write the files of some timesteps and build the dataset that reads them."""

    def store(*contents: list[Any], **options: str) -> Wikibigedit:
        for step, content in zip(STEPS, contents, strict=False):
            write_json(tmp_path / f"wiki_big_edit_{step}.json", content)
        given = {"steps": ",".join(str(step) for step in range(1, len(contents) + 1))} | options
        return build_dataset("wikibigedit", data_dir=str(tmp_path), **given)

    return store


class TestFile(DatasetContract):
    name = "wikibigedit"
    whole = False

    @pytest.fixture
    def dataset(self, stored) -> Dataset:
        return stored([RECORD, RECORD | {"ans": "Ann Lisk", "subject": None}], [RECORD])


class TestAtlas(DatasetContract):
    name = "wikibigedit-atlas"


def test_questions_of_a_record(stored) -> None:
    [case] = stored([RECORD]).cases()
    asked = {probe.id: (probe.aspect, probe.queries[0].texts[0]) for probe in case.probes}
    assert {name: found for name, found in asked.items() if "forced" not in name} == {
        "efficacy": ("efficacy", "Who owns Ostrel Mills?"),
        "paraphrase-rephrase": ("paraphrase", "Ostrel Mills belongs to whom?"),
        "paraphrase-persona-1": ("paraphrase", "Hey, whose mills are the Ostrel Mills?"),
        "portability": ("portability", "Where was the owner of Ostrel Mills born?"),
        "locality": ("locality", "Who owns the Lume?"),
    }
    assert case.edits[0].cloze.subject == "Ostrel Mills"


def test_null_questions_are_absent(stored) -> None:
    nothing = dict.fromkeys(("personas_1", "mhop", "mhop_ans", "loc", "rephrase"))
    [case] = stored([RECORD | nothing]).cases()
    assert [probe.aspect for probe in case.probes] == ["efficacy", "efficacy-teacher-forced"]


def test_nan_in_a_file_is_a_missing_value(stored) -> None:
    [case] = stored([RECORD | {"tag": float("nan")}]).cases()
    assert "change" not in case.probes[0].queries[0].tags


def test_timestep_and_kind_of_wording_are_tags_of_queries(stored) -> None:
    first, second = stored([RECORD], [RECORD]).cases()
    assert (first.id, second.id) == ("20240201-0", "20240220-0")
    assert second.tags == {"timestep": "20240220 to 20240301", "change": "update"}
    wordings = {probe.id: probe.tags.get("wording") for probe in second.probes if probe.aspect == "paraphrase"}
    assert wordings == {"paraphrase-rephrase": "rephrase", "paraphrase-persona-1": "persona"}
    assert all(probe.tags["timestep"] == "20240220 to 20240301" for probe in second.probes)


def test_record_without_subject_is_an_edit_of_a_text(stored) -> None:
    [case] = stored([RECORD | {"subject": None}]).cases()
    assert not case.edits[0].names_subject


def test_records_without_question_or_answer_are_skipped_and_counted(stored) -> None:
    dataset = stored([RECORD | {"ans": None}, RECORD, RECORD | {"update": " "}])
    with pytest.warns(KEWarning, match="skipped records without update or ans: 2"):
        assert [case.id for case in dataset.cases()] == ["20240201-1"]


def test_only_the_files_of_the_chosen_timesteps_are_read(stored) -> None:
    dataset = stored([RECORD], [RECORD | {"ans": "Ann Lisk"}], steps="2")
    assert [case.edits[0].target for case in dataset.cases()] == ["Ann Lisk"]
    assert [file.name for file in dataset.files()] == ["wiki_big_edit_20240220_20240301.json"]


def test_missing_timestep_has_no_checksum_and_is_named(stored) -> None:
    dataset = stored([RECORD], steps="1,3")
    assert dataset.checksum() == ""
    assert "wiki_big_edit_20240301_20240320.json" in read_error(dataset.cases)


def test_steps() -> None:
    assert numbers("3, 1") == (1, 3)
    assert numbers("") == tuple(range(1, 9))
    with pytest.raises(BadConfig, match=r"wikibigedit\.steps cannot be 9"):
        build_dataset("wikibigedit", steps="9")


def test_embedded_dataset_has_three_timesteps() -> None:
    timesteps = {case.tags["timestep"] for case in build_dataset("wikibigedit-atlas").cases()}
    assert timesteps == {step.replace("_", " to ") for step in STEPS[:3]}
    with pytest.raises(BadConfig, match=r"wikibigedit-atlas: steps must be numbers from 1 to 3 with commas, not '2,4'"):
        build_dataset("wikibigedit-atlas", steps="2,4")


@pytest.mark.parametrize("field", ["subject", "update", "rephrase", "ans", "loc", "loc_ans", "mhop", "mhop_ans"])
def test_missing_field_is_named(stored, field) -> None:
    assert f"record 1: {field}: missing" in read_error(stored([with_field(RECORD, field)]).cases)


def test_no_embedded_locality_question_is_edited_by_any_case() -> None:
    cases = list(build_dataset("wikibigedit-atlas").cases())
    edited = {edit.question for case in cases for edit in case.edits}
    queries = [
        query for case in cases for probe in case.probes if probe.aspect == "locality" for query in probe.queries
    ]
    assert not edited & {query.texts[0] for query in queries}


def test_embedded_paraphrases_have_the_article_of_the_country() -> None:
    queries = [probe.queries[0] for case in build_dataset("wikibigedit-atlas").cases() for probe in case.probes]
    assert "Which currency do people use in the United States?" in {query.texts[0] for query in queries}
