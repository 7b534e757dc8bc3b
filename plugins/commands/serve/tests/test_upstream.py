"""A model behind another server: unsupported editors, and retries."""

from __future__ import annotations

import json
import time

import pytest

from ke_core.plugin import NeedsWeights

BUSY = {"error": {"message": "too many requests"}}
ASKED = {"messages": [{"role": "user", "content": "Peru?"}]}


@pytest.fixture(autouse=True)
def _has_client():
    pytest.importorskip("httpx2", reason="httpx2 is not installed: pip install ke-plugin-openai")


def test_a_weight_editor_needs_a_local_model(start, behind):
    with (
        behind(BUSY) as (server, how),
        pytest.raises(NeedsWeights, match="carver changes weights, and openai:m has none here"),
        start(editor="carver", model="openai:m", how=how),
    ):
        pass
    assert not server.asked


def test_a_weight_editor_is_served_with_a_local_model(start):
    with start(editor="carver", model="tiny:one") as site:
        assert site.json("GET", "/v1/models")[0] == 200


@pytest.mark.parametrize(
    ("reply", "tries"), [((429, BUSY, {"Retry-After": "60"}), 1), ((429, BUSY, {}), 2), ((500, BUSY, {}), 2)]
)
def test_a_rate_limiting_upstream_does_not_block_others_for_long(start, behind, facts, reply, tries):
    with behind(reply) as (server, how), start(edits=facts, model="openai:m", how=how) as site:
        begun = time.monotonic()
        status, headers, answer = site.send("POST", "/v1/chat/completions", ASKED)
        error = json.loads(answer)["error"]
        assert time.monotonic() - begun < 10
        assert (status, headers["Retry-After"]) == (503, "20")
        assert (error["type"], error["code"]) == ("server_error", "server_busy")
        assert f"the server returned status {reply[0]}: too many requests (last of {tries} tries)" in error["message"]
        assert len(server.asked) == tries


def test_a_short_retry_after_is_waited_for(start, behind, facts, monkeypatch):
    with behind((429, BUSY, {"Retry-After": "0.2"})) as (server, how):
        done = {"choices": [{"index": 0, "text": " Cusco", "finish_reason": "stop"}], "usage": {}}
        busy = server.answer
        server.answer = lambda number, body: done if number > 3 else busy(number, body)
        with start(edits=facts, model="openai:m", how=how) as site:
            assert site.said("Peru?") == "Cusco"
    assert len(server.asked) == 5
