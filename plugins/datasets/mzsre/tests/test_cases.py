"""Cases of made-up records in the published formats, and of the embedded ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest

from ke_benchmarks.graph import load_atlas
from ke_core.plugin import BadConfig, Dataset, KEWarning
from ke_plugin_mzsre.atlas import COUNTRIES, atlas_records
from ke_testing.dataset import DatasetContract, build_dataset, read_error, with_field, write_json

ENGLISH = {
    "subject": "Ostrel Mills",
    "src": "Who set up Ostrel Mills?",
    "rephrase": "By whom was Ostrel Mills set up?",
    "alt": "Tobin Crane",
    "loc": "nq question: queen of spain",
    "loc_ans": "Letizia",
    "portability": {"New Question": "Where was the founder of Ostrel Mills born?", "New Answer": "Orm"},
}
GERMAN = {
    "subject": "die Mühlen von Ostrel",
    "src": "Wer gründete die Mühlen von Ostrel?",
    "rephrase": "Von wem wurden sie gegründet?",
    "alt": "Tobin Kran",
    "loc": "Königin von Spanien",
    "loc_ans": "Letizia",
    "portability": {"New Question": " ", "New Answer": "Orm"},
}
CHINESE = GERMAN | {
    "subject": "奥斯特雷尔",
    "src": "谁建立了奥斯特雷尔?",
    "rephrase": "奥斯特雷尔由谁建立?",
    "alt": "克兰",
}


@pytest.fixture
def stored(tmp_path: Path) -> Callable[..., Dataset]:
    """Write a data file and build the dataset that reads it."""

    def store(file: str, *content: Any, name: str = "mzsre", **options: str) -> Dataset:
        write_json(tmp_path / file, list(content))
        return build_dataset(name, data_dir=str(tmp_path), **options)

    return store


class TestFile(DatasetContract):
    name = "mzsre"
    whole = False

    @pytest.fixture
    def dataset(self, stored) -> Dataset:
        second = {"en": ENGLISH | {"alt": "Ann Lisk"}, "de": GERMAN}
        return stored("mzsre_test_duplicate_ende.json", {"en": ENGLISH, "de": GERMAN}, second, other="de")


class TestAtlas(DatasetContract):
    name = "mzsre-atlas"


class TestGermanAtlas(DatasetContract):
    name = "mzsre-atlas"
    options: ClassVar = {"edit": "de"}


def asked(case: Any) -> dict[tuple[str, str], str]:
    return {(probe.aspect, probe.tags["language"]): probe.queries[0].texts[0] for probe in case.probes}


def test_the_edit_has_one_language_and_the_questions_two(stored) -> None:
    [case] = stored("mzsre_test_duplicate_ende.json", {"en": ENGLISH, "de": GERMAN}, other="de").cases()
    assert case.edits[0].statement == "Who set up Ostrel Mills? Tobin Crane"
    found = asked(case)
    assert found["efficacy", "en"] == "Who set up Ostrel Mills?"
    assert found["efficacy", "de"] == "Wer gründete die Mühlen von Ostrel?"
    assert found["portability", "en"] == "Where was the founder of Ostrel Mills born?"
    assert ("portability", "de") not in found  # its question is blank
    assert [query.edit for probe in case.probes if probe.aspect == "efficacy" for query in probe.queries] == [
        case.edits[0].id, None,
    ]  # fmt: skip


def test_only_the_exact_prefix_is_removed(stored) -> None:
    [case] = stored("mzsre_test_duplicate_ende.json", {"en": ENGLISH, "de": GERMAN}, other="de").cases()
    assert asked(case)["locality", "en"] == "queen of spain?"


def test_targets_are_scored_without_a_space_in_a_language_without_spaces(stored) -> None:
    record = {"en": ENGLISH, "zh": CHINESE}
    [case] = stored("bizsre_test.json", record, name="bizsre", edit="zh").cases()
    assert case.edits[0].target == "克兰"
    assert case.edits[0].statement == case.edits[0].after.text == "谁建立了奥斯特雷尔?克兰"
    scored = {
        (probe.aspect, query.tags["language"]): query.continuations[0]
        for probe in case.probes
        for query in probe.queries
        if query.continuations
    }
    assert scored["efficacy-teacher-forced", "zh"] == scored["paraphrase-teacher-forced", "zh"] == "克兰"
    assert scored["efficacy-teacher-forced", "en"].startswith(" ")


@pytest.mark.parametrize("target", ["《红楼梦》", "《X档案》", "1912年"])
def test_chinese_targets_may_begin_with_a_mark_or_a_digit(stored, target) -> None:
    record = {"en": ENGLISH, "zh": CHINESE | {"src": "谁建立了奥斯特雷尔\uff1f", "alt": target}}
    [case] = stored("bizsre_test.json", record, name="bizsre", edit="zh").cases()
    queries = [query for probe in case.probes for query in probe.queries if query.tags["language"] == "zh"]
    assert target in {text for query in queries for text in query.continuations}


def test_codes_of_files_become_iso_codes_of_tags(stored) -> None:
    record = {"cz": GERMAN, "du": ENGLISH}
    [case] = stored("mzsre_test_duplicate_czdu.json", record, edit="cz", other="du").cases()
    assert {language for _aspect, language in asked(case)} == {"cs", "nl"}
    assert case.tags == {"edit language": "cs"}


def test_records_that_cannot_be_edited_are_skipped_and_counted(stored) -> None:
    blank = {"en": ENGLISH | {"alt": " "}, "zh": CHINESE}
    dataset = stored("mzsre_test_duplicate_enzh.json", blank, {"en": ENGLISH, "zh": CHINESE})
    with pytest.warns(KEWarning, match="blank: 1"):
        assert [case.id for case in dataset.cases()] == ["1"]


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("bizsre", {"other": "de"}, "bizsre has no language 'de'"),
        ("mzsre", {"edit": "de", "other": "de"}, "both de"),
        ("mzsre", {"edit": "xx"}, "mzsre.edit cannot be 'xx'"),
    ],
)
def test_unknown_languages_are_refused(name, options, message) -> None:
    with pytest.raises(BadConfig, match=message):
        build_dataset(name, **options)


@pytest.mark.parametrize("field", ["subject", "src", "rephrase", "alt", "loc", "loc_ans"])
def test_missing_field_is_named(stored, field) -> None:
    record = {"en": with_field(ENGLISH, field), "zh": CHINESE}
    message = read_error(stored("mzsre_test_duplicate_enzh.json", record).cases)
    assert f"record 1: edit.{field}: missing" in message


def test_missing_language_is_named(stored) -> None:
    assert "record 1: zh: missing" in read_error(stored("mzsre_test_duplicate_enzh.json", {"en": ENGLISH}).cases)


def test_embedded_edits_change_the_answer_to_the_portability_question() -> None:
    graph = load_atlas()
    continents = {
        graph.entity(f"country:{code}").label: graph.objects(f"country:{code}", "continent")[0].label
        for code in COUNTRIES
    }
    records = [record["en"] for record in atlas_records()]
    assert len(records) == 24
    assert all(continents[record["subject"]] != record["portability"]["New Answer"] for record in records)
