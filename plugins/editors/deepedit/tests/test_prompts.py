"""The eight prompts: their slots, a folder of prompts, and cached completions."""

from __future__ import annotations

import pytest

from ke_core.app import BatchingEngine
from ke_core.engine.cache import CompletionCache
from ke_core.plugin import BadConfig
from ke_plugin_deepedit import DeepEditConfig
from ke_plugin_deepedit.conversation import yes_or_no
from ke_plugin_deepedit.editor import DeepEdit
from ke_plugin_deepedit.prompts import SLOTS, SlotTemplate, read_prompts
from ke_testing.examples import MOVE_TOWER, question
from ke_testing.fakes import ScriptedModel, WordEncoder, make_session

CLOSING = " So the answer is somebody.\n"


def folder(path, **changed: str | None):
    for name, slots in SLOTS.items():
        text = changed.get(name, f"{name}: " + " ".join(f"{{{slot}}}" for slot in slots))
        if text is not None:
            (path / f"{name}.txt").write_text(text, encoding="utf-8")
    return str(path)


def test_own_prompts_have_their_slots_and_no_trailing_space() -> None:
    assert set(read_prompts("own")) == set(SLOTS)
    assert not any(template.text.endswith(" ") for template in read_prompts("own").values())


@pytest.mark.parametrize("name", ["exists", "same", "shared", "different"])
def test_worked_judgments_can_be_parsed_and_include_both_answers(name) -> None:
    examples = read_prompts("own")[name].text.split("\n\n")[:-1]
    assert {yes_or_no(example.rpartition("?")[2]) for example in examples} == {True, False}


def test_inserted_text_is_not_searched_for_slots() -> None:
    assert SlotTemplate("{first} and {second} {third}")(first="{second}", second="b") == "{second} and b {third}"


def test_prompts_are_read_from_a_folder(tmp_path) -> None:
    model = ScriptedModel(["Tower", CLOSING])
    config = DeepEditConfig(prompts=folder(tmp_path))
    with DeepEdit(config=config).edit(make_session(model), [MOVE_TOWER]) as edited:
        edited.answer([question("Where?")])
        ours = edited.details
    assert model.prompts == ["entity: Where?", "think: Where?"]
    with DeepEdit(config=DeepEditConfig()).edit(make_session(model), []) as edited:
        assert edited.details["prompts_sha256"] != ours["prompts_sha256"]


@pytest.mark.parametrize("text", [None, "", "no slot", "{first} {first} {second}"])
def test_unsuitable_prompt_file_is_refused(tmp_path, text) -> None:
    config = DeepEditConfig(prompts=folder(tmp_path, new=text))
    with pytest.raises(BadConfig, match=r"new\.txt"), DeepEdit(config=config).edit(make_session(ScriptedModel([])), []):
        pass


def test_equal_greedy_prompts_are_sent_once() -> None:
    """The engine caches completions within a question, between questions, and for concurrent questions."""

    def generate(prompt: str) -> str:
        return " no" if prompt.endswith("?") else " It is round.#"

    model = ScriptedModel(generate)
    session = make_session(model, encoder=WordEncoder())
    object.__setattr__(session, "engine", BatchingEngine(model, cache=CompletionCache()))
    asks = [question("Where is it?", name="one"), question("Where is it?", name="two")]
    with DeepEdit(config=DeepEditConfig()).edit(session, [MOVE_TOWER]) as edited:
        one, two = edited.answer(asks)
        sent = len(model.prompts)
        assert len(set(model.prompts)) == sent < one.cost.calls  # its thoughts repeat themselves
        edited.answer([question("Where is it?", name="three")])
    assert len(model.prompts) == sent
    assert one.cost == two.cost
