"""Secrets of the environment are removed from what is written, and nothing else is changed."""

import json

import pytest

from ke_core.results.lines import from_line, to_bytes, to_line
from ke_core.results.redaction import redacted, refuse_secrets
from ke_core.spec.errors import BadConfig
from ke_core.spec.records import Replied
from ke_core.spec.results import Answer, Failure


@pytest.fixture
def secret(monkeypatch):
    def put(value, name="DB_PASSWORD"):
        monkeypatch.setenv(name, value)

    return put


def replied(text):
    replies = {"q": Answer(text=text), "r": Failure(error="HTTPError", message=f"401: Bearer {text}")}
    return Replied(batch="b", case="1", phase="after", style="direct", replies=replies)


@pytest.mark.parametrize("value", ["33333333", "0.33333333", "-1234567.5", "1e10000000"])
def test_numbers_are_not_secrets(secret, value):
    secret(value)
    raw = {"value": 0.3333333333333333, "n": 33333333, "text": f"about {value}"}
    assert json.loads(to_bytes(raw)) == raw


def test_short_values_and_blanks_are_not_secrets(secret):
    for value in ("hunter2", "        ", "   a    "):
        secret(value)
        assert from_line(to_line(replied(value)), of="the line") == replied(value)


def test_keys_are_never_changed(secret):
    secret("a-query-id")
    raw = {"replies": {"a-query-id": {"text": "it is a-query-id."}}}
    assert json.loads(to_bytes(raw)) == {"replies": {"a-query-id": {"text": "it is [DB_PASSWORD]."}}}


@pytest.mark.parametrize("value", ["hunter2-hunter2", 'with "quotes" and \\', "tab\tand Zürich", "line\nbreak it"])
def test_a_secret_is_replaced_in_every_string_value(secret, value):
    secret(value)
    found = from_line(to_line(replied(f"x{value}y")), of="the line")
    assert found.replies["q"].text == "x[DB_PASSWORD]y"
    assert found.replies["r"].message == "401: Bearer x[DB_PASSWORD]y"


def test_secret_that_contains_another_is_replaced_whole(secret):
    secret("abcdefgh", "A_TOKEN")
    secret("abcdefgh-ijkl", "B_TOKEN")
    assert json.loads(to_bytes(["abcdefgh-ijkl", {"x": ("abcdefgh",)}])) == ["[B_TOKEN]", {"x": ["[A_TOKEN]"]}]


def test_only_string_values_of_options_are_refused(secret):
    secret("hunter2-hunter2")
    refuse_secrets({"hunter2-hunter2": [1, None, "hunter2"]}, of="run.json")
    with pytest.raises(BadConfig, match=r"run.json would hold the value of the environment variable DB_PASSWORD"):
        refuse_secrets({"options": [{"token": "x hunter2-hunter2"}]}, of="run.json")


@pytest.mark.parametrize("name", ["OPENAI_API_KEY_2", "TOKEN1", "DB_PASSWORD"])
def test_names_may_end_in_a_number_and_values_in_a_newline(secret, name):
    secret("abcdefgh-secret\n", name)
    assert redacted(["Bearer abcdefgh-secret"]) == [f"Bearer [{name}]"]
