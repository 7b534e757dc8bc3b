"""The same method with a local model and with a server: equal answers, and the differences of a chat endpoint.

The server is that of transformers, with the real model. The tests of the model source start it.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

pytest.importorskip("httpx2", reason="httpx2 is not installed: pip install ke-plugin-openai")

from ke_core.runner.requests import RequestBuilder
from ke_core.spec.requests import EditorRequest, Generate, Generated
from ke_core.spec.results import Answer
from ke_plugin_atlas import AtlasConfig
from ke_plugin_atlas.dataset import Atlas
from ke_plugin_hf.sources import folder_of, is_cached
from ke_plugin_ice import IceConfig
from ke_plugin_ice.editor import Ice
from ke_plugin_mello import MelloConfig
from ke_plugin_mello.editor import Mello
from ke_plugin_openai import endpoints
from ke_testing.fakes import make_session

MODEL, BESIDE = "smollm2-135m", Path(__file__).parents[1] / "plugins/models/openai/tests/test_real_server.py"


def _beside() -> Any:
    spec = importlib.util.spec_from_file_location("ke_core_real_server", BESIDE)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


server = _beside()
pytestmark = [*server.pytestmark, pytest.mark.model]
DATASET = Atlas(config=AtlasConfig())
CASES = list(islice(DATASET.cases(), 2))
EDITORS = {
    "mello": Mello(config=MelloConfig(max_calls=2, max_tokens=40)),  # enough for a retrieval and the turn after it
    "ice": Ice(config=IceConfig()),
}
CALLS = {"mello": 2, "ice": 1}
Way = tuple[str, str, str, list[tuple[str, str, tuple[str, ...], str]], int, int]


@pytest.fixture(scope="module")
def where(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    if not is_cached(MODEL):
        pytest.skip(f"{MODEL} is not here: ke models pull {MODEL}")
    with server.served(folder_of(MODEL), tmp_path_factory.mktemp("home")) as url:
        yield folder_of(MODEL), url


class ToldAsTheServerIs:
    """A local model with a chat template that gets the same turn as a chat endpoint.

    The code for servers turns its texts into continuations.
    """

    def __init__(self, model: Any) -> None:
        self.model, self.id, self.digest, self.context = model, model.id, model.digest, model.context

    def generate(self, requests: Sequence[Generate]) -> list[Generated]:
        turns = [evolve(request, prompt=endpoints.instruction() + request.prompt) for request in requests]
        return [_read(*pair) for pair in zip(self.model.generate(turns), requests, strict=True)]


def _read(written: Generated, request: Generate) -> Generated:
    finish = "length" if written.finish == "length" else "stop"
    usage = {"prompt_tokens": written.prompt_tokens, "completion_tokens": written.tokens}
    choice = {"message": {"content": written.text}, "finish_reason": finish}
    return endpoints.read({"choices": [choice], "usage": usage}, request, chat=True)


def asks(*, own_prompt: bool) -> list[EditorRequest]:
    """Return the first multi-hop question of each case."""
    asker = RequestBuilder(dataset=DATASET, styles=("direct",), edited_form="question", own_prompt=own_prompt)
    bank, found = {edit.id: edit for case in CASES for edit in case.edits}, []
    for case in CASES:
        query = next(probe.queries[0].id for probe in case.probes if probe.aspect == "multi-hop")
        found += [ask for unit in asker.after(case, bank, edited=True) for ask in unit.questions if ask.query == query]
    return found


def ways(editor: str, model: Any) -> list[Way]:
    """Return texts, retrievals, calls and prompt tokens of each question.

    Generated tokens are omitted: this server may decode one more after a stop string.
    """
    session = make_session(model)
    edits = [edit for case in CASES for edit in case.edits]
    with EDITORS[editor].edit(session, edits) as edited:
        replies = edited.answer(asks(own_prompt=editor == "mello"))
    assert all(isinstance(reply, Answer) for reply in replies), replies
    return [
        (reply.text, reply.raw, reply.outcome, [(s.kind, s.text, s.retrieved, s.answer) for s in reply.steps],
         reply.cost.calls, reply.cost.prompt_tokens)
        for reply in replies
    ]  # fmt: skip


@pytest.mark.parametrize("editor", EDITORS)
def test_completions_endpoint_gives_exactly_the_local_answers(editor: str, where: tuple[Path, str]) -> None:
    here, there = server.both(where)
    local = ways(editor, here)
    assert ways(editor, there) == local
    assert [calls for *_rest, calls, _tokens in local] == [CALLS[editor]] * len(CASES)


@pytest.mark.parametrize("editor", EDITORS)
def test_chat_endpoint_differs_only_by_template_instruction_and_joint(editor: str, where: tuple[Path, str]) -> None:
    here, there = server.both(where, chat=True)
    assert ways(editor, there) == ways(editor, ToldAsTheServerIs(here))


def test_each_difference_of_the_chat_endpoint_matters(where: tuple[Path, str]) -> None:
    plain, chat = (server.both(where, chat=chat)[0] for chat in (False, True))
    found = [ways("ice", model) for model in (plain, chat, ToldAsTheServerIs(chat))]
    bare, template, instructed = ([prompt_tokens for *_rest, prompt_tokens in one] for one in found)
    around = {more - less for less, more in zip(bare, template, strict=True)}
    instruction = {more - less for less, more in zip(template, instructed, strict=True)}
    assert len(around) == len(instruction) == 1  # the same number of additional tokens for every question
    assert min(*around, *instruction) > 0
    texts = [[raw for _text, raw, *_rest in one] for one in found]
    assert texts[0] != texts[1] != texts[2] != texts[0]
