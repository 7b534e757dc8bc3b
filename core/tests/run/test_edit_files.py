"""Edit files: accepted field names and errors."""

import json
from datetime import date, datetime, timedelta

import numpy as np
import pytest

from ke_core.runner.edit_files import edits_of, read_edits
from ke_core.spec.errors import BadData
from ke_core.spec.facts import FreeForm

GOOD = {"prompt": "The mother tongue of Danielle Darrieux is", "subject": "Danielle Darrieux", "target_new": "English"}


def lines(tmp_path, *records, name="edits.jsonl"):
    path = tmp_path / name
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def test_different_edits_with_one_id_are_refused_in_lists_too(tmp_path):
    rows = [{**GOOD, "id": "1"}, {**GOOD, "id": "1", "target_new": "Greek"}]
    with pytest.raises(BadData, match="two edits in edits have the id '1'"):
        edits_of(edits=rows)
    assert len(edits_of(edits=[GOOD, GOOD])) == 1


def test_a_statement_without_spaces_between_words(tmp_path):
    (found,) = edits_of("法国的首都是", target="巴黎")
    assert found.edit.statement == "法国的首都是巴黎"


def one(tmp_path, **fields):
    (found,) = read_edits(lines(tmp_path, {**GOOD, **fields}))
    return found


def test_prompt_subject_and_target_are_enough(tmp_path):
    found = one(tmp_path)
    assert found.edit.cloze.template == "The mother tongue of {} is"
    assert found.edit.statement == "The mother tongue of Danielle Darrieux is English"
    assert (found.prompt, found.target, found.old) == (GOOD["prompt"], "English", "")
    assert found.source.endswith("edits.jsonl, line 1")
    assert date.fromisoformat(found.date) - datetime.now().astimezone().date() <= timedelta(days=1)
    assert found.edit.before is None


def test_all_fields_are_read(tmp_path):
    found = one(tmp_path, prompt="The mother tongue of {} is", target_old="French",
                source="https://example.org/1", date="2026-01-31T10:00:00",
                paraphrases=["Danielle Darrieux speaks"], question="Which?", id=7)  # fmt: skip
    assert (found.old, found.source, found.date) == ("French", "https://example.org/1", "2026-01-31")
    assert (found.edit.id, found.edit.question, found.paraphrases) == ("7", "Which?", ("Danielle Darrieux speaks",))


def test_counterfact_and_easyedit_are_read_as_published(tmp_path):
    counterfact = {
        "case_id": 0, "pararel_idx": 2796,
        "requested_rewrite": {"prompt": "The mother tongue of {} is", "relation_id": "P103", "subject": "D. Darrieux",
                              "target_new": {"str": "English", "id": "Q1860"},
                              "target_true": {"str": "French", "id": "Q150"}},
        "paraphrase_prompts": ["D. Darrieux, a native"], "neighborhood_prompts": ["x"],
    }  # fmt: skip
    easyedit = {**GOOD, "ground_truth": "French", "rephrase_prompt": "D speaks", "locality_prompt": "y"}
    path = tmp_path / "facts.json"
    path.write_text(json.dumps([counterfact, easyedit], indent=1))
    first, second = read_edits(path)
    assert (first.edit.id, first.target, first.old, first.paraphrases) == (
        "0", "English", "French", ("D. Darrieux, a native",))  # fmt: skip
    assert (second.old, second.paraphrases) == ("French", ("D speaks",))
    assert first.source.endswith("facts.json, record 1")


ZSRE = {
    "subject": "Watts Humphrey", "src": "What university did Watts Humphrey attend?", "pred": "Trinity College",
    "rephrase": "What university did Watts Humphrey take part in?", "alt": "University of Michigan",
    "answers": ["Illinois Institute of Technology", "IIT"], "loc": "nq question: who played desmond doss father",
    "loc_ans": "Hugo Weaving", "cond": "Trinity College >> University of Michigan || What university did ...?",
}  # fmt: skip


def test_zsre_is_read_as_easyedit_publishes_it(tmp_path):
    ported = {**ZSRE, "portability": {"New Question": "Where is it?", "New Answer": "Ann Arbor"}}
    for record in (ZSRE, ported):
        (found,) = read_edits(lines(tmp_path, record))
        assert found.edit.cloze.template == "What university did {} attend?"
        assert (found.prompt, found.edit.question) == (ZSRE["src"], ZSRE["src"])
        assert (found.target, found.old) == ("University of Michigan", "Illinois Institute of Technology")
        assert found.paraphrases == (ZSRE["rephrase"],)
        assert found.source.endswith("edits.jsonl, line 1")


def test_an_explicit_question_overrides_the_zsre_prompt(tmp_path):
    (found,) = read_edits(lines(tmp_path, {**ZSRE, "question": "Where did he study?"}))
    assert found.edit.question == "Where did he study?"


@pytest.mark.parametrize(("given", "old"), [(["French", "fran\u00e7ais"], "French"), ([], ""), ("French", "French")])
def test_the_first_of_several_old_objects_is_used(tmp_path, given, old):
    assert one(tmp_path, ground_truth=given).old == old


def test_csv_is_read_by_its_headings(tmp_path):
    path = tmp_path / "edits.csv"
    path.write_text('\ufeffsubject,prompt,object,date,paraphrases\nPeru,"The capital of Peru, of course, is",La Paz,'
                    "2026-02-01,Peru is ruled from|Its capital is\n", encoding="utf-8")  # fmt: skip
    (found,) = read_edits(path)
    assert (found.prompt, found.target) == ("The capital of Peru, of course, is", "La Paz")
    assert found.paraphrases == ("Peru is ruled from", "Its capital is")
    assert found.source.endswith("edits.csv, line 2")


@pytest.mark.parametrize("separator", [";", "\t"])
def test_csv_may_have_other_separators(tmp_path, separator):
    path = tmp_path / "edits.csv"
    path.write_text(
        "subject,prompt,object\nPeru,The capital of Peru is,La Paz\n".replace(",", separator), encoding="utf-8"
    )
    assert read_edits(path)[0].target == "La Paz"


@pytest.mark.parametrize(
    ("fields", "words"),
    [({"prompt": ""}, "line 2: prompt is missing or empty"),
     ({"subject": None, "prompt": "{} speaks"}, "line 2: subject is missing, and the prompt has {}"),
     ({"target_new": "  "}, "line 2: target_new is missing or empty"),
     ({"target_new": 1.5}, "line 2: target_new is 1.5, not a text"),
     ({"target_old": "English"}, "line 2: target_new is 'English', which is also the old object"),
     ({"subject": "Somebody"}, "line 2: prompt does not contain its subject 'Somebody'"),
     ({"subject": "e"}, "line 2: prompt contains its subject 'e' 6 times"),
     ({"prompt": "{} and {}"}, "line 2: prompt contains {} 2 times"),
     ({"target_old": ["English"]}, "line 2: target_new is 'English', which is also the old object"),
     ({"target_old": [1.5]}, "line 2: target_old is 1.5, not a text"),
     ({"src": "x"}, "line 2: src is a second prompt"),
     ({"sorce": "x"}, "line 2: sorce is not a field"),
     ({"date": "31.1.2026"}, "line 2: date is '31.1.2026'"),
     ({"object": "x"}, "line 2: object is a second target_new"),
     ({"requested_rewrite": [1]}, "line 2: requested_rewrite is not one edit"),
     ({"paraphrases": [""]}, "line 2: paraphrases is missing or empty")],
)  # fmt: skip
def test_errors_name_file_line_and_field(tmp_path, fields, words):
    path = lines(tmp_path, {**GOOD, "subject": "mother", "id": "a"}, {**GOOD, **fields})
    with pytest.raises(BadData) as caught:
        read_edits(path)
    assert caught.value.message.startswith(f"{path}, {words}")
    assert "\n" not in caught.value.message


@pytest.mark.parametrize("content", ["", "\n\n", "[]"])
def test_a_file_without_edits_is_refused(tmp_path, content):
    (tmp_path / "e.jsonl").write_text(content)
    with pytest.raises(BadData, match="contains no edit"):
        read_edits(tmp_path / "e.jsonl")


def test_a_toml_file_is_refused_with_the_command_that_reads_it(tmp_path):
    with pytest.raises(BadData, match="is no edit file") as caught:
        read_edits(tmp_path / "facts.TOML")
    assert "ke apply" in caught.value.hint


@pytest.mark.parametrize(("content", "words"), [("{", "is cut off"), ("3\n", "not a JSON object"), ("[1]", "record 1")])
def test_errors_name_lines_that_are_not_json(tmp_path, content, words):
    (tmp_path / "e.jsonl").write_text(content)
    with pytest.raises(BadData, match=words):
        read_edits(tmp_path / "e.jsonl")


def test_missing_and_binary_files_give_one_line_errors(tmp_path):
    (tmp_path / "e.jsonl").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "e.csv").write_bytes(b"\xff\xfe\x00")
    for name in ("e.jsonl", "e.csv", "none.jsonl", "none.csv"):
        with pytest.raises(BadData, match="cannot read"):
            read_edits(tmp_path / name)


def test_errors_name_rows_with_too_many_cells(tmp_path):
    (tmp_path / "e.csv").write_text("subject,prompt,object\nPeru,The capital of Peru, of course, is,La Paz\n")
    with pytest.raises(BadData, match="line 2 has 5 cells"):
        read_edits(tmp_path / "e.csv")


def test_equal_edits_are_merged_and_equal_ids_are_refused(tmp_path):
    assert len(read_edits(lines(tmp_path, GOOD, GOOD))) == 1
    with pytest.raises(BadData, match="the id 'a'"):
        read_edits(lines(tmp_path, {**GOOD, "id": "a"}, {**GOOD, "id": "a", "target_new": "Dutch"}))


def test_edit_ids_depend_on_content_and_not_on_position(tmp_path):
    other = {**GOOD, "target_new": "Dutch"}
    both, alone = read_edits(lines(tmp_path, GOOD, other)), read_edits(lines(tmp_path, other, name="second.jsonl"))
    assert both[1].edit.id == alone[0].edit.id != both[0].edit.id


def test_a_bare_statement_is_an_edit_without_a_subject(tmp_path):
    (found,) = read_edits(lines(tmp_path, {"statement": " Water  is dry. ", "url": "a page", "date": "2026-01-31"}))
    assert (found.edit.statement, found.edit.cloze, found.edit.after) == ("Water is dry", None, None)
    assert (found.source, found.date, found.target, found.prompt) == ("a page", "2026-01-31", "", "Water is dry")


def test_a_statement_next_to_a_prompt_is_ignored(tmp_path):
    assert one(tmp_path, statement="whatever").edit == one(tmp_path).edit


@pytest.mark.parametrize(
    ("record", "words"),
    [({"statement": "x", "subject": "y"}, "line 1: subject does not fit a bare statement"),
     ({"statement": " . "}, "line 1: statement is missing or empty"),
     ({"statement": ["x"]}, "not a text")],
)  # fmt: skip
def test_errors_name_invalid_bare_statements(tmp_path, record, words):
    with pytest.raises(BadData, match=words):
        read_edits(lines(tmp_path, record))


def test_the_header_of_a_state_file_is_skipped(tmp_path):
    (found,) = read_edits(lines(tmp_path, {"ke_serve_state": 1, "input_sha256": ""}, GOOD))
    assert found.source.endswith("line 2")


def test_an_edit_without_a_subject_has_a_free_form(tmp_path):
    prompt, target = "How do bees find flowers?", "By color.\nBy scent."
    (found,) = read_edits(lines(tmp_path, {"prompt": prompt, "target_new": target, "ground_truth": "They do not."}))
    assert found.edit.free_form == FreeForm(prompt=prompt, target=target, old="They do not.")
    assert (found.edit.cloze, found.edit.before, found.edit.after) == (None, None, None)
    assert found.edit.statement == f"{prompt} {target}"
    assert (found.prompt, found.target, found.old) == (prompt, target, "They do not.")
    (again,) = read_edits(lines(tmp_path, {"prompt": prompt, "target_new": target, "id": "mine", "subject": ""}))
    assert (again.edit.id, again.edit.free_form) == ("mine", FreeForm(prompt=prompt, target=target))


def test_values_of_numpy_and_dates_are_read():
    extra = {"paraphrases": np.array(["Danielle Darrieux speaks", "She speaks"]), "date": date(2026, 1, 31)}
    (found,) = edits_of(edits=[{**GOOD, **extra, "source": float("nan")}])
    assert found.date == "2026-01-31"
    assert found.source == "edits, line 1"


def test_multi_line_targets_are_kept(tmp_path):
    found = one(tmp_path, target_new="English\nand French")
    assert (found.target, found.edit.cloze is not None) == ("English\nand French", True)
