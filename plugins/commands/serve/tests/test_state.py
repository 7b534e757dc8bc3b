"""The input of ``ke serve`` is only read; changes go to a state file, which a restart uses."""

from __future__ import annotations

import json
import signal

import pytest

from ke_core.app import read_edits
from ke_core.plugin import BadConfig, BadData, KEError
from ke_plugin_serve import active_edits as banks
from ke_plugin_serve import state as states
from ke_plugin_serve.active_edits import read_bank
from ke_plugin_serve.client import ServeClient
from ke_weights.suites import read_suite

pytestmark = pytest.mark.integration

BOLIVIA = {"prompt": "The capital of {} is", "subject": "Bolivia", "target_new": "Oruro"}
PERU, CHILE = "The capital of Peru is Cusco", "The capital of Chile is Arica"


def statements(site):
    return [one["statement"] for one in site.json("GET", "/edits")[1]["data"]]


def state_of(file):
    return file.with_name(f"{file.name}.state.jsonl")


def nested(depth):
    """A request body with an edit whose foreign field has that many levels; the body adds three."""
    row = json.dumps({"edits": [BOLIVIA | {"relation": "here"}]})
    return row.replace('"here"', "[" * depth + "]" * depth).encode()


def test_changes_go_to_a_file_next_to_the_input_which_is_only_read(facts, start):
    before = facts.read_bytes()
    facts.chmod(0o444)
    with start(edits=facts) as site:
        assert site.served.notice == ""
        assert not state_of(facts).exists()
        site.json("POST", "/edits", {"edits": [BOLIVIA]})
        site.json("POST", "/edits/remove", {"edits": [PERU]})
    assert facts.read_bytes() == before
    assert [one.statement for one in (sourced.edit for sourced in read_edits(state_of(facts)))] == [
        CHILE,
        "The capital of Bolivia is Oruro",
    ]
    with start(edits=facts) as site:
        assert site.served.notice == f"using the state file {state_of(facts)}, not {facts}"
        assert statements(site) == [CHILE, "The capital of Bolivia is Oruro"]


def test_an_input_that_has_changed_is_named_and_no_edit_is_lost(facts, start):
    with start(edits=facts) as site:
        site.json("POST", "/edits", {"edits": [BOLIVIA]})
    saved = state_of(facts).read_bytes()
    with facts.open("a") as file:
        file.write(json.dumps({"statement": "Water is dry"}) + "\n")
    with start(edits=facts) as site:
        notice = site.served.notice
        assert f"{facts} has changed since that was created: 1 of its 3 edits are not active" in notice
        assert f"ke serve edits add --edits {facts}" in notice
        assert "\n" not in notice
        assert state_of(facts).read_bytes() == saved
        assert statements(site) == [PERU, CHILE, "The capital of Bolivia is Oruro"]
        ServeClient(url=site.url).add([one.fields() for one in read_bank(facts).edits.values()])
        assert "Water is dry" in statements(site)
    with start(edits=facts) as site:
        assert "0 of its 3 edits are not active" in site.served.notice


def test_a_missing_or_damaged_input_is_an_error_despite_a_state_file(facts, start):
    with start(edits=facts) as site:
        site.json("POST", "/edits", {"edits": [BOLIVIA]})
    saved = state_of(facts).read_bytes()
    facts.write_text("{")
    with pytest.raises(BadData, match="line 1 is cut off"), start(edits=facts):
        pass
    facts.unlink()
    with pytest.raises(BadData, match="cannot read"), start(edits=facts):
        pass
    assert state_of(facts).read_bytes() == saved


def test_a_state_file_of_another_name_is_used_instead_of_the_input(facts, tmp_path, start):
    state = tmp_path / "state.jsonl"
    with start(edits=facts, state=state) as site:
        site.json("POST", "/edits/remove", {"edits": [PERU]})
    with start(edits=facts, state=state) as site:
        assert statements(site) == [CHILE]
    assert not state_of(facts).exists()
    with start(state=state) as site:
        assert (site.served.notice, statements(site)) == (f"using the state file {state}", [CHILE])
    (tmp_path / "empty.jsonl").touch()
    for fresh in ("fresh.jsonl", "empty.jsonl"):
        with start(state=tmp_path / fresh) as site:
            assert (site.served.notice, statements(site)) == ("", [])


@pytest.mark.parametrize("given", ["state", "both", "csv"])
def test_a_foreign_file_is_refused_as_state_file(facts, tmp_path, start, given):
    before = facts.read_bytes()
    options, says = {
        "state": ({"state": facts}, "is not a state file of ke serve"),
        "both": ({"edits": facts, "state": facts}, "--edits and --state are the same file"),
        "csv": ({"edits": facts, "state": tmp_path / "s.csv"}, "JSON lines, not CSV"),
    }[given]
    with pytest.raises(BadConfig, match=says), start(**options):
        pass
    assert facts.read_bytes() == before


def test_other_commands_read_the_state_file(facts, start):
    rows = [BOLIVIA | {"statement": "as it was sent", "target_old": "Sucre", "paraphrases": ["Bolivia's capital is"]}]
    with start(edits=facts) as site:
        assert site.json("POST", "/edits", {"edits": rows})[0] == 200
        active = statements(site)
    edits = read_edits(state_of(facts))
    assert [one.edit.statement for one in edits] == active
    checks = read_suite(state_of(facts))
    assert [(one.kind, one.prompt, one.expect, one.wrong) for one in checks[-2:]] == [
        ("changed", "The capital of Bolivia is", ("Oruro",), ("Sucre",)),
        ("paraphrase", "Bolivia's capital is", ("Oruro",), ("Sucre",)),
    ]
    with start(edits=state_of(facts)) as site:
        assert statements(site) == active


def test_a_bare_statement_in_a_state_file_is_an_edit_for_ke_edit_and_a_named_error_for_ke_verify(tmp_path, start):
    state = tmp_path / "state.jsonl"
    with start(state=state) as site:
        site.json("POST", "/edits", {"edits": [{"statement": "Water is dry."}]})
    (one,) = read_edits(state)
    assert (one.edit.statement, one.edit.cloze, one.target) == ("Water is dry", None, "")
    with pytest.raises(BadData, match="line 2: statement is not enough for a check"):
        read_suite(state)


@pytest.mark.parametrize("depth", [62, 100, 500, 900, 950, 980, 2000])
def test_an_edit_nested_too_deeply_is_refused_before_it_is_saved(site, facts, depth):
    status, body = site.json("POST", "/edits", nested(depth))
    assert (status, body["error"]["message"]) == (400, "the request body is nested more than 64 levels deep")
    assert len(statements(site)) == 2
    assert not state_of(facts).exists()


def test_an_edit_nested_as_deeply_as_allowed_is_read_after_a_restart(facts, start):
    with start(edits=facts) as site:
        assert site.json("POST", "/edits", nested(61))[0] == 200
    with start(edits=facts) as site:
        assert len(statements(site)) == 3


def test_an_input_nested_too_deeply_is_refused_at_the_start(facts, start):
    row = json.dumps(BOLIVIA | {"relation": "here"}).replace('"here"', "[" * 70 + "]" * 70)
    facts.write_text(row)
    with pytest.raises(BadData, match="line 1: relation is nested more than 64 levels deep"), start(edits=facts):
        pass


def test_an_edit_that_would_be_read_as_another_one_is_refused(site, facts, monkeypatch):
    monkeypatch.setattr(banks.ServedEdit, "fields", lambda _kept: {"statement": "something else"})
    status, body = site.json("POST", "/edits", {"edits": [BOLIVIA]})
    assert status == 400
    assert "edits[0] would be read as another edit after a restart: 'something else'" in body["error"]["message"]
    assert not state_of(facts).exists()


def test_a_source_inside_requested_rewrite_is_kept(facts, start):
    row = {"requested_rewrite": BOLIVIA | {"url": "https://example.org"}}
    with start(edits=facts) as site:
        assert site.json("POST", "/edits", {"edits": [row]})[0] == 200
    with start(edits=facts) as site:
        assert site.json("GET", "/edits")[1]["data"][-1]["source"] == "https://example.org"


def test_a_restart_keeps_dates_and_foreign_fields(tmp_path, start):
    file = tmp_path / "facts.jsonl"
    row = {"prompt": "The capital of Peru is", "subject": "Peru", "target_new": "Cusco", "neighborhood_prompts": ["x"]}
    file.write_text(json.dumps(row | {"date": "2026-01-02"}) + "\n")
    with start(edits=file) as site:
        site.json("POST", "/edits", {"edits": [BOLIVIA]})
        before = site.json("GET", "/edits")[1]["data"]
    assert json.loads(state_of(file).read_text().splitlines()[1])["neighborhood_prompts"] == ["x"]
    with start(edits=file) as site:
        assert site.json("GET", "/edits")[1]["data"] == before
        assert "Oruro" in site.said("The capital of Bolivia")


def test_a_restart_after_removing_all_edits_is_empty(facts, start):
    with start(edits=facts) as site:
        site.json("POST", "/edits/remove", {"edits": statements(site)})
        assert site.said("Peru?") == "<<User: Peru? / Assistant:>>"
    with start(edits=facts) as site:
        assert statements(site) == []


def test_a_full_disk_leaves_model_and_state_file_unchanged(site, facts, monkeypatch):
    site.json("POST", "/edits", {"edits": [BOLIVIA]})
    before = state_of(facts).read_bytes()

    def full(_path, _content):
        raise KEError("cannot write it: no space left on device")

    monkeypatch.setattr(states, "write_atomic", full)
    status, body = site.json("POST", "/edits", {"edits": [BOLIVIA | {"subject": "Peru"}], "replace": True})
    assert (status, body["error"]["type"]) == (500, "server_error")
    assert "no space left" in body["error"]["message"]
    assert state_of(facts).read_bytes() == before
    assert PERU in statements(site)
    assert "Cusco" in site.said("The capital of Peru?")


def test_a_state_file_that_another_program_changed_is_not_overwritten(site, facts):
    site.json("POST", "/edits", {"edits": [BOLIVIA]})
    with state_of(facts).open("a") as file:
        file.write(json.dumps({"statement": "Water is dry"}) + "\n")
    before = state_of(facts).read_bytes()
    status, body = site.json("POST", "/edits", {"edits": [BOLIVIA | {"subject": "Brazil"}]})
    assert (status, body["error"]["code"]) == (409, "ChangedMeanwhile")
    assert "start ke serve again" in body["error"]["message"]
    assert state_of(facts).read_bytes() == before
    assert len(statements(site)) == 3


def test_two_servers_cannot_share_a_state_file_through_a_link(facts, tmp_path, start):
    (tmp_path / "links").mkdir()
    link = tmp_path / "links" / "facts.jsonl"
    link.symlink_to(facts)
    with start(edits=link) as site:
        with pytest.raises(KEError, match="another ke serve uses the state file"), start(edits=facts):
            pass
        site.json("POST", "/edits", {"edits": [BOLIVIA]})
    assert len(read_bank(state_of(facts))) == 3
    other = tmp_path / "links" / "state.jsonl"
    other.symlink_to(state_of(facts))
    with start(state=other) as site:
        site.json("POST", "/edits", {"edits": [{"statement": "Water is dry"}]})
    assert other.is_symlink()
    assert len(read_bank(state_of(facts))) == 4


def test_a_csv_input_has_a_state_file_of_its_own(tmp_path, start):
    table = tmp_path / "facts.csv"
    table.write_text("prompt,subject,target_new\nThe capital of Peru is,Peru,Cusco\n")
    with start(edits=table) as site:
        site.json("POST", "/edits", {"edits": [BOLIVIA]})
        assert len(statements(site)) == 2
    assert len(read_bank(tmp_path / "facts.csv.state.jsonl")) == 2


def test_a_killed_server_keeps_confirmed_changes(process, facts):
    child, site = process("--edits", facts)
    for n in range(20):
        assert site.json("POST", "/edits", {"edits": [{"statement": f"Thing {n} is a thing"}]})[0] == 200
    child.send_signal(signal.SIGKILL)
    child.wait()
    _child, again = process("--edits", facts)
    assert again.json("GET", "/edits")[1]["count"] == 22
