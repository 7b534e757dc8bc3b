"""Targets of a model with a chat format are the tokens that scoring reads after the format."""

from __future__ import annotations

from pathlib import Path

import pytest

from ke_plugin_hf.model import HFModel
from ke_plugin_hf.testing import tiny_model
from ke_testing.examples import MOVE_TOWER
from ke_testing.fakes import make_session
from ke_weights.answer_states import answer_states
from ke_weights.modules import module_map
from ke_weights.optimize import TargetSettings
from ke_weights.rewrites import rewrite
from ke_weights.subject import answer_ids, target_ids
from ke_weights.testing.stateful import chat_model


def alone(model: HFModel, text: str) -> tuple[int, ...]:
    return tuple(model.tokenizer(text, add_special_tokens=False)["input_ids"])


@pytest.mark.parametrize("target", ["Rome", " the United States of America"])
def test_answer_after_a_line_break_of_the_chat_format_begins_without_a_space(target: str) -> None:
    chat, plain = chat_model(), tiny_model("llama")
    prompt = "The tower is in"
    assert answer_ids(chat, prompt, target) == alone(chat, target.strip())
    assert answer_ids(plain, prompt, target) == target_ids(plain.tokenizer, prompt, target)
    assert answer_ids(plain, prompt, target) == alone(plain, f" {target.strip()}")


def test_long_answers_of_a_chat_model_begin_without_a_space(tmp_path: Path) -> None:
    chat, made = chat_model(), rewrite(MOVE_TOWER)
    settings = TargetSettings(layer=1, steps=1, lr=0.1, kl=0.0, weight_decay=0.0, clamp=1.0)
    session = make_session(chat, root=tmp_path)
    (states,) = answer_states(session, module_map(chat.module), [made], settings, window=1)
    assert states.ids == (*chat.encode(made.prompt), *alone(chat, made.target)[:-1])
