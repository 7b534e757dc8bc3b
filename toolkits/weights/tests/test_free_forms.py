"""Free-form edits in ``ke verify``, and answers of several lines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ke_core.plugin import BadData, Generate
from ke_testing.fakes import ScriptedModel, make_session
from ke_weights.completions import PromptWithObjects, complete_prompts
from ke_weights.suites import read_suite

PROMPT, TARGET = "How do bees find flowers?", "By color.\nBy scent."


def suite(path: Path, **fields: str) -> Path:
    path.write_text(json.dumps(fields))
    return path


def test_edit_without_subject_is_a_check_of_its_prompt(tmp_path: Path) -> None:
    fields = {"prompt": PROMPT, "target_new": TARGET, "target_old": "They do not."}
    (found,) = read_suite(suite(tmp_path / "e.jsonl", **fields))
    assert (found.kind, found.prompt, found.expect, found.wrong) == ("changed", PROMPT, (TARGET,), ("They do not.",))


def test_statement_without_prompt_cannot_be_checked(tmp_path: Path) -> None:
    with pytest.raises(BadData, match="statement is not enough for a check"):
        read_suite(suite(tmp_path / "e.jsonl", statement="Water is dry"))


def asked(*expect: str) -> tuple[Generate, str]:
    model = ScriptedModel([" By color.\nBy scent."])
    said = complete_prompts(make_session(model), [PromptWithObjects(id="1", prompt=PROMPT, expect=expect)])["1"]
    (request,) = model.requests
    return request, said.text


def test_expected_answer_may_have_several_lines() -> None:
    request, text = asked(TARGET)
    assert (request.max_tokens, request.stop, text) == (512, (), TARGET)


def test_completion_has_few_tokens_and_one_line() -> None:
    request, _text = asked("By color.")
    assert (request.max_tokens, request.stop) == (12, ("\n",))
