"""Toy editors and a toy model that repeats its prompt; as a script, ``ke`` with these plugins.

``python toys.py serve ...`` is the command line with these plugins, for tests that need a process.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from contextlib import contextmanager

from attrs import evolve, field, frozen

import ke_plugin_openai
from ke_core.app import main
from ke_core.engine.passthrough import put
from ke_core.plugin import (
    ContextOverflow,
    EditorSpec,
    Failure,
    KnownModel,
    ModelSpec,
    Nearest,
    PassthroughModel,
    hookimpl,
)
from ke_memory.plugin import MemoryEditedModel, MemoryEditor
from ke_plugin_serve import hookimpls
from ke_testing.cli_fixtures import plugins_of
from ke_testing.fakes import ScriptedModel, WordEncoder

WORDS = WordEncoder()


@frozen(kw_only=True)
class Config:
    k: int = field(default=1, metadata={"help": "facts shown"})


class NoConfig(Config):
    pass


class Recalling(MemoryEditedModel):
    """Puts the nearest fact before the prompt."""

    def __init__(self, session, edits, k):
        self.k = k
        super().__init__(evolve(session, encoder=lambda _name: WORDS), edits, encoder="words")

    def solve(self, ask):
        if "server down" in ask.texts[0]:
            return Failure(error="ServerFailed", message="upstream is down")
        hits = yield Nearest(memory=self.memory, text=ask.texts[0], k=self.k, hidden=ask.hidden)
        shown = "".join(f"FACT {hit.text}.\n" for hit in hits)
        return (yield from put(evolve(ask, prompt=evolve(ask.prompt, text=f"{shown}{ask.prompt.text}"))))


class Recall(MemoryEditor):
    def __init__(self, config):
        self.config = config

    def check(self, session, edits):
        return {edit.id: "the moon is out of reach" for edit in edits if "moon" in edit.statement}

    def edited_model(self, session, edits):
        return Recalling(session, edits, self.config.k)


class Together:
    """Answers lists of questions only. ``calls``: their lengths."""

    details = {}  # noqa: RUF012

    def __init__(self, session):
        self.within, self.calls = PassthroughModel(session), []
        self.change = self.within.change

    def answer(self, asks):
        self.calls.append(len(asks))
        if any("bug" in ask.texts[0] for ask in asks):
            raise ZeroDivisionError("a secret")
        replies = self.within.answer(asks)
        return replies[:-1] if any("one too few" in ask.texts[0] for ask in asks) else replies


class Engraver:
    """Cannot change its edits, like a weight editor."""

    def check(self, session, edits):
        return {}

    @contextmanager
    def edit(self, session, edits):
        yield PassthroughModel(session)


class Clerk(Engraver):
    """Has no ``solve``."""

    @contextmanager
    def edit(self, session, edits):
        yield Together(session)


class Carver(Engraver):
    """Reads the weights to check edits, as weight editors do."""

    def check(self, session, edits):
        assert session.model.patch
        return super().check(session, edits)


class Scribe(Engraver):
    """Adds a low-rank update with one rank per edit."""

    def check(self, session, edits):
        return {edit.id: "the moon is out of reach" for edit in edits if "moon" in edit.statement}

    @contextmanager
    def edit(self, session, edits):
        import torch

        from ke_weights.plugin import LowRank

        update = LowRank(left=torch.ones(64, len(edits)), right=torch.ones(len(edits), 176))
        with session.model.patch() as weights:
            weights.add("model.layers.1.mlp.down_proj.weight", update)
            yield PassthroughModel(session)


class Mason(Engraver):
    """Makes updates of full rank."""

    low_rank = False


def say(prompt):
    """Returns the prompt on one line; some words in it trigger other behavior."""
    if "too long" in prompt:
        return ContextOverflow("the prompt has 9,999 tokens, and the model reads 100")
    if "slowly" in prompt:
        time.sleep(0.3)
    if "forever" in prompt:
        print("thinking", file=sys.stderr, flush=True)  # noqa: T201  a test waits for it
        threading.Event().wait()
    space = "" if "plainly" in prompt else " "  # the fake counts words where a model counts tokens
    return f"{space}<<{prompt.replace(chr(10), ' / ')}>>"


class Saying(ScriptedModel):
    """Answers with ``say``, in any order: long texts end after shorter ones that arrived in the meantime.

    A prompt with "until canceled" has no other end. ``sizes``: the number of requests that were under way together.
    """

    def __init__(self):
        super().__init__(say)
        self.sizes = []
        self.unneeded = None

    def complete(self, requests, following):
        under_way = dict(enumerate(requests))
        number = len(under_way)
        while under_way:
            time.sleep(0.01)
            self.sizes.append(len(under_way))
            gone = self.unneeded() if self.unneeded else ()
            brief = {
                place: one for place, one in under_way.items()
                if place in gone or not any(words in one.prompt for words in ("until others", "until canceled"))
            }  # fmt: skip
            results = self.generate(list(brief.values()))
            for place in brief:
                del under_way[place]
            new = following(dict(zip(brief, results, strict=True)), False)  # noqa: FBT003
            under_way |= dict(enumerate(new, number))
            number += len(new)
            if brief and not new and under_way and not any("canceled" in one.prompt for one in under_way.values()):
                results = dict(zip(under_way, self.generate(list(under_way.values())), strict=True))
                under_way = dict(enumerate(following(results, False), number))  # noqa: FBT003
                number += len(under_way)


def build_tiny(_request):
    from ke_plugin_hf.testing import tiny_model

    return tiny_model("llama")


class Toys:
    @hookimpl
    def ke_editors(self):
        return [
            EditorSpec(
                name="recall", summary="a memory", config=Config, build=Recall, served={"k": "2"}, uses_own_edits=True
            ),
            EditorSpec(name="clerk", summary="lists", config=NoConfig, build=lambda config: Clerk()),
            EditorSpec(name="engraver", summary="weights", config=NoConfig, build=lambda config: Engraver()),
            EditorSpec(
                name="carver", summary="weights", config=NoConfig, build=lambda config: Carver(), needs_weights=True
            ),
            EditorSpec(
                name="scribe", summary="low rank", config=NoConfig, build=lambda config: Scribe(), needs_weights=True
            ),
            EditorSpec(
                name="mason", summary="full rank", config=NoConfig, build=lambda config: Mason(), needs_weights=True
            ),
            EditorSpec(
                name="grafter", summary="an adaptor", config=NoConfig, build=lambda config: Engraver(),
                needs_weights=True, adaptor=True,
            ),
            EditorSpec(
                name="solo", summary="weights", config=NoConfig, build=lambda config: Engraver(), one_at_a_time=True
            ),
            EditorSpec(name="stubborn", summary="own prompts", config=Config, build=Recall, own_prompt=True),
            EditorSpec(
                name="patient", summary="own prompts", config=Config, build=Recall, own_prompt=True, asked_length=True
            ),
            EditorSpec(name="cheat", summary="gold", config=Config, build=Recall, oracle=lambda config: ("answers",)),
            EditorSpec(
                name="mute", summary="no model", config=NoConfig, build=lambda config: Engraver(), needs_model=False
            ),
        ]  # fmt: skip

    @hookimpl
    def ke_models(self):
        known = (KnownModel(name="one", summary="says what it is shown", license="none", size_mb=0),)
        return [
            ModelSpec(
                name="saying", summary="repeats", config=NoConfig, build=lambda request: Saying(),
                known=lambda: known,
            ),
            ModelSpec(name="tiny", summary="random weights", config=NoConfig, build=build_tiny),
        ]  # fmt: skip


def plugins():
    """The core and the toys."""
    return plugins_of(hookimpls, ke_plugin_openai, Toys())


if __name__ == "__main__":
    if "TOYS_GRACE" in os.environ:
        from ke_plugin_serve import server

        server.GRACE = float(os.environ["TOYS_GRACE"])
    sys.exit(main(sys.argv[1:], plugins=plugins()))
