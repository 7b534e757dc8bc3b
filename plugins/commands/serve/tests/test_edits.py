"""Edits change while the server runs, and are saved."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from attrs import frozen

from ke_core.app import refuse_edits
from ke_core.plugin import BadConfig, BadData, EditorSpec, KEError, UnsupportedEdit
from ke_plugin_serve import client, edit_routes
from ke_plugin_serve.active_edits import kept_from
from ke_plugin_serve.client import ServeClient
from ke_testing.examples import MOVE_TOWER

BOLIVIA = {"prompt": "The capital of {} is", "subject": "Bolivia", "target_new": "Oruro"}


def statements(site):
    return [one["statement"] for one in site.json("GET", "/edits")[1]["data"]]


def test_an_edit_is_active_after_the_response_until_removed(site):
    question = "What is the capital of Bolivia ?"
    assert "Oruro" not in site.said(question)
    status, body = site.json("POST", "/edits", {"edits": [BOLIVIA]})
    (added,) = body["added"]
    assert (status, added["statement"], body["count"]) == (200, "The capital of Bolivia is Oruro", 3)
    assert "FACT The capital of Bolivia is Oruro." in site.said(question)
    status, body = site.json("POST", "/edits/remove", {"edits": [added["id"]]})
    assert (status, body["removed"], body["count"]) == (200, [added], 2)
    assert "Oruro" not in site.said(question)


def test_a_statement_is_an_edit_and_can_be_removed_by_its_text(site):
    assert site.json("POST", "/edits", {"edits": [{"statement": "Water is dry."}]})[0] == 200
    assert "FACT Water is dry." in site.said("Is water dry or is water wet")
    assert site.json("POST", "/edits/remove", {"edits": ["Water is dry."]})[0] == 200
    assert len(statements(site)) == 2


def test_an_edit_can_have_a_source(site):
    status, _body = site.json("POST", "/edits", {"edits": [BOLIVIA | {"url": "https://example.org/bolivia"}]})
    assert status == 200
    assert "https://example.org/bolivia" in json.dumps(site.json("GET", "/edits")[1])


def test_the_same_edit_twice_is_known(site):
    site.json("POST", "/edits", {"edits": [BOLIVIA]})
    _status, body = site.json("POST", "/edits", {"edits": [BOLIVIA, {"statement": "Water is dry"}]})
    assert (len(body["known"]), len(body["added"]), body["count"]) == (1, 1, 4)


def test_a_contradicting_edit_needs_replace(site):
    other = BOLIVIA | {"subject": "Peru", "target_new": "Puno"}
    status, body = site.json("POST", "/edits", {"edits": [other]})
    assert (status, body["error"]["code"]) == (409, "Contradiction")
    assert "The capital of Peru is Cusco" in body["error"]["message"]
    status, body = site.json("POST", "/edits", {"edits": [other], "replace": True})
    assert [one["statement"] for one in body["replaced"]] == ["The capital of Peru is Cusco"]
    assert statements(site) == ["The capital of Chile is Arica", "The capital of Peru is Puno"]
    assert "Puno" in site.said("The capital of Peru?")


@pytest.mark.parametrize(
    ("edits", "status", "says"),
    [
        ([BOLIVIA, {"statement": "The moon is made of cheese"}], 422, "out of reach"),
        ([BOLIVIA, {"prompt": "x", "subject": "y", "target_new": "z"}], 400, "edits[1]: prompt does not contain"),
        ([BOLIVIA, {"prompt": "The capital of Peru is", "subject": "Peru"}], 400, "target_new is missing"),
        ([BOLIVIA, {"statement": 5.5}], 400, "not a text"),
        ([BOLIVIA, {"statement": " . "}], 400, "statement is missing or empty"),
        ([BOLIVIA, {"statement": "x" * 3000}], 400, "longer than 2000"),
        ([BOLIVIA, {"statement": "x", "objekt": "y"}], 400, "objekt"),
        ([BOLIVIA, {"statement": "x", "date": "soon"}], 400, "date is 'soon'"),
        ([BOLIVIA, "Water is dry"], 400, "is not an object"),
        ([BOLIVIA, BOLIVIA | {"target_new": "Sucre"}], 409, "contradicts"),
        ([], 400, "is empty"),
        ("Water is dry", 400, "must be a list"),
    ],
)
def test_one_invalid_edit_rejects_the_whole_request(site, facts, edits, status, says):
    before = facts.read_bytes()
    found, body = site.json("POST", "/edits", {"edits": edits, "replace": True})
    assert (found, body["error"]["type"]) == (status, "invalid_request_error")
    assert says in body["error"]["message"]
    assert len(statements(site)) == 2
    assert facts.read_bytes() == before
    assert "Oruro" not in site.said("The capital of Bolivia")


def test_non_finite_numbers_are_refused(site, facts):
    before = facts.read_bytes()
    row = json.dumps({"edits": [BOLIVIA, BOLIVIA | {"subject": "Chad", "relation": [0.5]}]}).replace("0.5", "1e999")
    status, body = site.json("POST", "/edits", row.encode())
    error = body["error"]
    assert (status, "\n" in error["message"]) == (400, False)
    assert "the request body is not JSON: " in error["message"]
    assert "1e999" in error["message"]
    assert facts.read_bytes() == before


def test_queued_questions_use_the_edits_active_at_their_turn(facts, start, hold):
    with start(edits=facts, window=0) as site, ThreadPoolExecutor(3) as clients:
        with hold(site) as held:
            first = clients.submit(site.said, "first")
            assert held.busy.wait(20)
            change = clients.submit(
                site.json, "POST", "/edits", {"edits": [BOLIVIA | {"subject": "Peru"}], "replace": True}
            )
            second = clients.submit(site.said, "second")
            threading.Event().wait(0.3)
        assert (change.result()[0], bool(first.result()), bool(second.result())) == (200, True, True)
    assert [ask.own for ask, _in_force in held.requests] == [in_force for _ask, in_force in held.requests]
    assert len({in_force for _ask, in_force in held.requests}) == 2


def test_others_are_answered_while_a_long_list_is_checked(site, monkeypatch):
    answered, waited = threading.Event(), []

    def slowly(*given):
        waited.append(answered.wait(5))
        return kept_from(*given)

    monkeypatch.setattr(edit_routes, "kept_from", slowly)
    with ThreadPoolExecutor(1) as clients:
        change = clients.submit(site.json, "POST", "/edits", {"edits": [BOLIVIA]})
        threading.Event().wait(0.1)
        assert site.json("GET", "/health")[0] == 200
        answered.set()
        assert change.result()[0] == 200
    assert waited == [True]


def test_one_unknown_name_removes_nothing(site):
    status, body = site.json("POST", "/edits/remove", {"edits": ["The capital of Peru is Cusco", "nobody"]})
    assert (status, body["error"]["code"]) == (404, "UnknownEdit")
    assert len(statements(site)) == 2


def test_the_list_is_paginated(site):
    _status, body = site.json("GET", "/edits?offset=1&limit=1")
    assert ([one["statement"] for one in body["data"]], body["count"]) == (["The capital of Chile is Arica"], 2)
    assert site.json("GET", "/edits?limit=0")[0] == 400
    assert site.json("GET", "/edits?offset=minus")[0] == 400
    for length in (20, 5000):
        status, body = site.json("GET", f"/edits?offset={'9' * length}")
        assert (status, body["error"]["param"]) == (400, "offset")
    many = [{"statement": f"Thing {n} is thing"} for n in range(1500)]
    assert len(ServeClient(url=f"{site.url}/v1").add(many)["added"]) == 1500
    assert [one["statement"] for one in ServeClient(url=site.url).edits()][-1] == "Thing 1499 is thing"
    assert len(list(ServeClient(url=site.url).edits())) == 1502


def test_an_endless_response_is_not_read(site, monkeypatch):
    monkeypatch.setattr(client, "LARGEST", 50)
    with pytest.raises(KEError, match="is not a ke serve server"):
        list(ServeClient(url=site.url).edits())


def test_other_json_servers_are_recognized(site):
    with pytest.raises(KEError, match="is not a ke serve server"):
        list(ServeClient(url=f"{site.url}/health?").edits())  # {"status": "ok"}, whatever is asked


def test_a_failing_encoder_leaves_model_and_list_unchanged(site, facts, toys, monkeypatch):
    before, listed = facts.read_bytes(), statements(site)

    def full(_texts):
        raise MemoryError("out of memory")

    with monkeypatch.context() as failing:
        failing.setattr(toys.WORDS, "embed", full)
        status, _body = site.json("POST", "/edits", {"edits": [BOLIVIA | {"subject": "Peru"}], "replace": True})
    assert (status, statements(site), facts.read_bytes()) == (500, listed, before)
    assert "FACT The capital of Peru is Cusco." in site.said("The capital of Peru?")
    assert site.json("POST", "/edits", {"edits": [BOLIVIA | {"subject": "Peru"}], "replace": True})[0] == 200


def test_edits_can_change_during_questions(site):
    wrong = []

    def ask():
        for _turn in range(15):
            text = site.said("The capital of Bolivia")
            if "Chile" not in text and "Peru" not in text:
                wrong.append(text)

    threads = [threading.Thread(target=ask) for _client in range(2)]
    for thread in threads:
        thread.start()
    for turn in range(15):
        site.json("POST", "/edits", {"edits": [BOLIVIA]})
        assert site.json("POST", "/edits/remove", {"edits": ["The capital of Bolivia is Oruro"]})[0] == 200, turn
    for thread in threads:
        thread.join()
    assert not wrong
    assert len(statements(site)) == 2


@pytest.mark.parametrize(
    ("lines", "error", "says"),
    [
        ('{"statement": "The moon is made of cheese"}', UnsupportedEdit, "1 of 1 edits"),
        ('{"statement": "x"', BadData, "line 1 is cut off"),
        ('{"prompt": "{} is", "subject": "x", "object": "y", "relation": NaN}', BadData, "line 1 is not JSON: NaN"),
        (
            '{"prompt": "{} is", "subject": "x", "object": "y", "relation": "\\ud800"}',
            BadData,
            "line 1 is not JSON: it holds half",
        ),
        ('{"prompt": "The capital of Peru is", "subject": "Peru"}', BadData, "line 1: target_new"),
        ('{"statement": "x", "id": "1"}\n{"statement": "y", "id": "1"}', BadData, "contradicts the edit 1"),
    ],
)
def test_a_bad_file_is_refused_before_anything_is_served(tmp_path, start, lines, error, says):
    file = tmp_path / "facts.jsonl"
    file.write_text(lines + "\n")
    with pytest.raises(error, match=says), start(edits=file):
        pass


def test_removals_do_not_check_edits():
    """A removal succeeds even if a file of an option is missing by then."""

    @frozen
    class BareConfig:
        pass

    class Broken:
        def check(self, _session, _edits):
            raise BadConfig("prompts are gone")

    spec = EditorSpec(name="broken", summary="s", config=BareConfig, build=lambda _config: Broken())
    refuse_edits(spec, Broken(), None, [], {})
    with pytest.raises(BadConfig, match="gone"):
        refuse_edits(spec, Broken(), None, [MOVE_TOWER], {})
