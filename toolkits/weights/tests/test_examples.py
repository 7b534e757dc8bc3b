"""Training examples of files and datasets, and exclusion of test data."""

import json

import pytest

from ke_core.app import read_catalog
from ke_core.plugin import BadData, UnknownComponent, hookimpl
from ke_testing.cli_fixtures import plugins_of
from ke_testing.examples import MOVE_GATE, MOVE_TOWER
from ke_testing.toy import toy_spec
from ke_weights.examples import read_examples, usable

ADA = {
    "prompt": "{} speaks the language of",
    "subject": "Ada",
    "target": "French",
    "paraphrases": ["What does Ada speak?"],
}


class Toys:
    @hookimpl
    def ke_datasets(self):
        return [toy_spec()]


@pytest.fixture
def catalog():
    return read_catalog(plugins_of(Toys()))


def write(path, records, *, lines=True):
    text = "\n".join(json.dumps(record) for record in records) if lines else json.dumps(records)
    path.write_text(text, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("lines", [True, False])
def test_json_lines_and_json_list_are_equivalent(lines, tmp_path, catalog):
    source = write(
        tmp_path / "a.json",
        [ADA, ADA | {"prompt": "Ada is from", "target": "Rome", "locality": ["Bo is"]}],
        lines=lines,
    )
    one, two = read_examples(source, catalog, {})
    assert one.edit.cloze.prompt == "Ada speaks the language of"
    assert one.edit.statement == "Ada speaks the language of French"
    assert one.edit.after.objects[0].label == "French"
    assert one.paraphrases == ("What does Ada speak?",)
    assert two.edit.cloze.template == "{} is from"
    assert two.locality == ("Bo is",)


def test_edit_file_is_valid_training_data(tmp_path, catalog):
    rewrite = {"prompt": "{} is from", "subject": "Ada", "target_new": {"str": "Rome"}, "target_true": {"str": "Bonn"}}
    source = write(tmp_path / "counterfact.json", [{"case_id": 7, "requested_rewrite": rewrite}])
    (tmp_path / "a.csv").write_text(
        "prompt,subject,target,paraphrases\nAda is from,Ada,Rome,Ada lives in|Her city is\n"
    )
    easyedit = {"prompt": "{} is from", "subject": "Ada", "target_new": "Rome", "locality": {"x": {"prompt": "y"}}}
    for path in (source, str(tmp_path / "a.csv"), write(tmp_path / "easyedit.json", [easyedit], lines=False)):
        (found,) = read_examples(path, catalog, {})
        assert found.edit.statement == "Ada is from Rome"
        assert found.locality == ()
    assert read_examples(str(tmp_path / "a.csv"), catalog, {})[0].paraphrases == ("Ada lives in", "Her city is")


def test_examples_of_a_dataset_are_its_edits_with_questions(catalog):
    found = read_examples("toy", catalog, {})
    assert [example.edit for example in found] == [MOVE_TOWER, MOVE_GATE]
    assert found[0].paraphrases == (MOVE_TOWER.question,)


def test_folder_does_not_hide_the_dataset_of_its_name(tmp_path, monkeypatch, catalog):
    (tmp_path / "toy").mkdir()
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path)
    assert len(read_examples("toy", catalog, {})) == 2
    with pytest.raises(BadData, match="training data not found: folder"):
        read_examples("folder", catalog, {})


def test_statement_is_split_by_the_longest_matching_cloze(tmp_path, catalog):
    source = write(
        tmp_path / "a.json",
        [{"edit": "The author of Ada is Bo", "questions": ["Who wrote Ada?"]}, {"edit": "Ada naps"}],
    )
    known = [ADA | {"prompt": prompt, "subject": "X"} for prompt in ("{} is", "The {} is", "The author of {} is")]
    without = read_examples(write(tmp_path / "b.jsonl", known), catalog, {})
    split, bare_one = usable(read_examples(source, catalog, {}), without)
    assert (split.edit.cloze.subject, split.edit.after.objects[0].label) == ("Ada", "Bo")
    assert split.paraphrases == ("Who wrote Ada?",)
    assert bare_one.edit.cloze is None
    assert bare_one.edit.statement == "Ada naps"


@pytest.mark.parametrize(
    "asked",
    [
        ADA,
        ADA | {"target": "Dutch", "paraphrases": []},
        ADA | {"prompt": "{} talks", "paraphrases": ["what does ada SPEAK?"]},
    ],
    ids=["statement", "prompt", "question"],
)
def test_examples_with_test_questions_are_excluded(asked, tmp_path, catalog):
    ours = read_examples(write(tmp_path / "a.jsonl", [ADA, ADA | {"subject": "Bo", "paraphrases": []}]), catalog, {})
    without = read_examples(write(tmp_path / "b.jsonl", [asked]), catalog, {})
    assert [example.edit.cloze.subject for example in usable(ours, without)] == ["Bo"]


def test_repeated_edit_counts_once(tmp_path, catalog):
    assert len(usable(read_examples(write(tmp_path / "a.jsonl", [ADA, ADA]), catalog, {}), [])) == 1


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{oops", "line 1 is not JSON"),
        ('[{"edit": "a"}, ]', "is not JSON"),
        ("3", "line 1 is not a JSON object"),
        ('{"prompt": "a", "subject": "b", "target": ""}', "line 1: target_new is missing or empty"),
        ('{"prompt": "a", "subject": "b", "target": "c"}', "line 1: prompt does not contain its subject 'b'"),
        ('[{"edit": "a b", "questions": ["c", 3.5]}]', "record 1: questions is 3.5, not a text"),
        ('{"prompt": "{} is", "subject": "b", "target": "c", "lokality": []}', "line 1: lokality is not a field"),
    ],
)
def test_bad_file_error_names_the_line(text, why, tmp_path, catalog):
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(BadData) as caught:
        read_examples(str(path), catalog, {})
    assert why in caught.value.message
    assert "\n" not in caught.value.message


def test_missing_file_and_unknown_dataset_have_different_errors(catalog):
    with pytest.raises(BadData, match=r"training data not found: nowhere\.json"):
        read_examples("nowhere.json", catalog, {})
    with pytest.raises(UnknownComponent, match="no dataset called 'toi'"):
        read_examples("toi", catalog, {})
