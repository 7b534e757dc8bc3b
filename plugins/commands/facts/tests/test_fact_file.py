"""Reading, checking, writing and comparing files of facts. No model is loaded."""

from __future__ import annotations

import subprocess
import sys
from datetime import date
from pathlib import Path

import pytest

from ke_core.plugin import BadData
from ke_plugin_facts.comparing import fact_changes
from ke_plugin_facts.fact_file import FactFile, facts_of, file_digest, read_facts, suite_of
from ke_plugin_facts.hookimpls import ke_read_suite
from ke_plugin_facts.writing import add_fact

PERU = {"prompt": "The capital of {} is", "subject": "Peru", "target": "Cusco"}


def made(*facts: dict[str, object], **more: object) -> FactFile:
    return facts_of({"facts": list(facts), **more}, Path("facts.toml"))


def test_every_field_is_read(facts: Path) -> None:
    found = read_facts(facts)
    peru, chile = found.facts
    assert (peru.id, peru.given.target, peru.given.source, peru.given.date, peru.owner) == (
        "peru", "Cusco", "ministry", "2026-11-01", "anna",
    )  # fmt: skip
    assert chile.given.edit.statement == "The capital of Chile is Arica"
    assert found.options == {"ft": {"constrained": "false", "layers": "1"}}
    assert found.bounds("min") == ("efficacy=0.0",)


def test_dates_are_texts_and_fields_have_the_other_names_of_an_edit_file() -> None:
    day = date(1821, 7, 28)
    tests = [{"kind": "consequence", "prompt": "Peru is independent since", "expect": day}]
    url = {"url": "https://example.org", "case_id": "peru", "tests": tests, "owner": day}
    (found,) = made({**PERU, **url}).facts
    assert (found.given.source, found.id, found.owner) == ("https://example.org", "peru", "1821-07-28")
    assert found.tests[0].expect == ("1821-07-28",)


def test_order_and_corrected_sources_are_not_changes_of_a_fact() -> None:
    chile = {**PERU, "subject": "Chile"}
    keep = [{"prompt": "x", "expect": "y"}, {"prompt": "z", "expect": "y"}]
    old, new = made(PERU, chile, keep=keep), made(chile, {**PERU, "source": "ticket"}, keep=keep[::-1])
    assert file_digest(old, ("a", "b")) == file_digest(new, ("b", "a"))
    (row,) = fact_changes(old, new)
    assert (row["change"], row["before"], row["after"]) == ("source", "", "ticket")


def test_json_lines_and_csv_are_files_of_facts(tmp_path: Path) -> None:
    lines, table = tmp_path / "facts.jsonl", tmp_path / "facts.csv"
    lines.write_text('{"prompt": "The capital of {} is", "subject": "Peru", "target": "Cusco", "owner": "anna"}\n')
    table.write_text("prompt,subject,target,owner\nThe capital of {} is,Peru,Cusco,anna\n")
    (one,), (other,) = read_facts(lines).facts, read_facts(table).facts
    assert (one.id, one.digest, one.owner) == (other.id, other.digest, other.owner)


def test_a_new_target_is_a_change_of_the_same_fact() -> None:
    old, new = made(PERU), made({**PERU, "target": "Lima"})
    assert old.facts[0].id == new.facts[0].id
    (change,) = fact_changes(old, new)
    assert (change["change"], change["before"]) == ("changed", "The capital of Peru is Cusco")
    assert [row["change"] for row in fact_changes(old, made())] == ["removed"]


def test_weaker_tests_facts_to_keep_and_settings_are_changes() -> None:
    keep = [{"prompt": "The capital of France is", "expect": "Paris"}]
    old = made({**PERU, "paraphrases": ["Peru is governed from"]}, keep=keep, bounds={"min": {"kept": 1}})
    new = made(PERU, bounds={"min": {"kept": 0.5}})
    changes = {row["change"]: (row["before"], row["after"]) for row in fact_changes(old, new)}
    assert changes["test"] == ("paraphrase: Peru is governed from Cusco", "")
    assert changes["keep"] == ("kept: The capital of France is Paris", "")
    assert changes["setting"] == ('{"min":{"kept":1}}', '{"min":{"kept":0.5}}')


def test_fields_of_published_files_are_ignored() -> None:
    assert made({**PERU, "relation_id": "P36", "locality": "x"}).facts == made(PERU).facts


@pytest.mark.parametrize(
    ("facts", "more", "wrong"),
    [
        ([PERU, {**PERU, "target": "Lima"}], {}, "'The capital of Peru is Lima' contradicts"),
        ([PERU, PERU], {}, "duplicate id"),
        ([{**PERU, "id": "a"}, {**PERU, "subject": "Chile", "id": "a"}], {}, "duplicate id"),
        ([PERU], {"keep": [{"prompt": "The capital of Peru is", "expect": "Lima"}]}, "Peru is' => 'Lima'"),
        (
            [{**PERU, "id": "a"}, {**PERU, "id": "a", "question": "What is the capital of Peru?"}],
            {},
            "duplicate id",
        ),
        ([PERU, {"prompt": "The capital of Peru is", "target": "Lima"}], {}, "contradicts"),
        ([PERU], {"keep": [{"id": "k", "prompt": "x", "expect": "y"}, {"id": "k", "prompt": "z"}]}, "have the id 'k'"),
        ([{**PERU, "id": "a", "paraphrases": ["x"]}, {**PERU, "subject": "Chile", "id": "a/1"}], {}, "the id 'a/1'"),
        ([{**PERU, "id": "keep-1"}], {"keep": [{"prompt": "x", "expect": "y"}]}, "have the id 'keep-1'"),
        ([{**PERU, "paraphrases": ["X is"]}], {"keep": [{"prompt": "X is", "expect": "Lima"}]}, "contradicts a test"),
        ([], {"keep": [{"prompt": "x is", "expect": "a"}, {"prompt": "X is", "expect": "b"}]}, "contradicts another"),
        (
            [PERU, {**PERU, "subject": "Chile",
                    "tests": [{"kind": "kept", "prompt": "the capital of Peru is", "not": "Cusco"}]}],
            {},
            "contradicts a test",
        ),
    ],
)  # fmt: skip
def test_contradictions_are_errors(facts: list[dict[str, object]], more: dict[str, object], wrong: str) -> None:
    with pytest.raises(BadData) as error:
        made(*facts, **more)
    assert wrong in " ".join(error.value.details)


@pytest.mark.parametrize(
    ("raw", "wrong"),
    [
        ({"fact": []}, "did you mean 'facts'"),
        ({"facts": {"prompt": "x"}}, "begin each with"),
        ({"facts": [{"prompt": "The capital of {} is", "subject": "Peru"}]}, "target_new"),
        ({"facts": [{**PERU, "tests": [{"kind": "chang", "prompt": "x"}]}]}, "kind is 'chang'"),
        ({"facts": [{**PERU, "tests": 3}]}, "is not a list of tests"),
        ({"facts": [{**PERU, "ownr": "x"}]}, "did you mean 'owner'"),
        ({"facts": 3}, "begin each with"),
        ({"seed": "x"}, "seed cannot be 'x'"),
        ({"max-rise": -1.0}, "max-rise cannot be -1.0"),
        ({"options": {"memit": 3}}, "options.memit is not a table"),
        ({"max-rise": float("inf")}, "max-rise cannot be inf"),
        ({"bounds": {"mim": {"efficacy": 1}}}, "bounds.mim is not known"),
        ({"bounds": {"min": {"eficacy": 1}}}, "bounds.min.eficacy is not known"),
        ({"bounds": {"min": {"efficacy": 90}}}, "use a number from 0 to 1"),
        ({"format": "gguf"}, "use merged or peft"),
    ],
)
def test_an_invalid_file_is_rejected(raw: dict[str, object], wrong: str) -> None:
    with pytest.raises(BadData) as error:
        facts_of(raw, Path("facts.toml"))
    assert wrong in f"{error.value} {error.value.hint}"


def test_the_suite_has_facts_tests_and_kept_facts() -> None:
    tests = [{"kind": "paraphrase", "prompt": "Peru's capital is", "expect": "Cusco"}]
    found = made(
        {**PERU, "paraphrases": ["Peru is governed from"], "tests": tests},
        {**PERU, "subject": "Chile", "target": "Arica"},
        keep=[{"prompt": "The capital of France is"}],
    )
    kinds = [(one.kind, one.prompt) for one in suite_of(found.facts, found.keep)]
    assert kinds == [
        ("changed", "The capital of Peru is"), ("paraphrase", "Peru is governed from"),
        ("paraphrase", "Peru's capital is"), ("changed", "The capital of Chile is"),
        ("kept", "The capital of France is"),
    ]  # fmt: skip


def test_a_file_is_a_suite(facts: Path, tmp_path: Path) -> None:
    found = read_facts(facts)
    assert ke_read_suite(facts) == suite_of(found.facts, found.keep)
    assert ke_read_suite(tmp_path / "suite.jsonl") is None
    empty = tmp_path / "empty.toml"
    empty.write_text("")
    with pytest.raises(BadData, match="has no facts to check"):
        ke_read_suite(empty)


def test_adding_a_fact_keeps_comments_and_refuses_contradictions(facts: Path) -> None:
    before = facts.read_text()
    add_fact(
        facts,
        "The currency of Peru is the => dollar",
        {"subject": "Peru", "source": "t", "date": "2026-01-02", "owner": ""},
    )
    text = facts.read_text()
    assert text.startswith(before.rstrip())
    assert read_facts(facts).facts[-1].given.date == "2026-01-02"
    with pytest.raises(BadData):
        add_fact(facts, "The capital of Peru is => Lima", {"subject": "Peru", "source": "", "date": "", "owner": ""})
    with pytest.raises(BadData, match="is not a date"):
        add_fact(facts, "The sea of Peru is => X", {"subject": "Peru", "source": "", "date": "2026-13-01", "owner": ""})
    assert facts.read_text() == text


def test_adding_a_fact_keeps_line_ends_and_headings(tmp_path: Path) -> None:
    path = tmp_path / "facts.toml"
    fact = '[[facts]]\nprompt = "The capital of {} is"\nsubject = "Peru"\ntarget = "Cusco"\n'
    text = fact + '\n# ---- facts to keep ----\n\n[[keep]]\nprompt = "x"\n'
    path.write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    add_fact(path, "The capital of Chile is => Arica", {"subject": "Chile", "source": "", "date": "", "owner": ""})
    found = path.read_bytes()
    assert found.count(b"\n") == found.count(b"\r\n")
    assert found.index(b"Arica") < found.index(b"# ----")
    assert len(read_facts(path).facts) == 2


def test_a_new_file_is_created(tmp_path: Path) -> None:
    path = tmp_path / "new.toml"
    add_fact(path, "The capital of Peru is Cusco", {"subject": "Peru", "source": "", "date": "", "owner": ""})
    (one,) = read_facts(path).facts
    assert one.given.edit.statement == "The capital of Peru is Cusco"


def test_a_fact_is_added_to_a_list_in_brackets(tmp_path: Path) -> None:
    path = tmp_path / "facts.toml"
    path.write_text(
        'facts = [\n  # the first\n  { prompt = "The capital of {} is", subject = "Peru", target = "Cusco" },\n]\n'
    )
    add_fact(path, "The capital of Chile is => Arica", {"subject": "Chile", "source": "", "date": "", "owner": ""})
    assert [one.given.target for one in read_facts(path).facts] == ["Cusco", "Arica"]
    assert "# the first" in path.read_text()


def test_commands_about_the_file_alone_load_no_torch(facts: Path) -> None:
    commands = (
        ["facts", "lint", str(facts)],
        ["facts", "diff", str(facts), str(facts)],
        ["facts", "add", "The capital of Kenya is => Mombasa", "--subject", "Kenya", "--file", str(facts)],
    )
    code = "import sys; from ke_core.app import main"
    code += f"; print([main(words) for words in {commands!r}], 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[0, 0, 0] False"
