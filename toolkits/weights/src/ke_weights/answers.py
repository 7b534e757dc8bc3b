"""What a model says where a fact is asked: its own words, and how probable given ones are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import frozen

from ke_core.plugin import (
    Decoding,
    EditFailed,
    Failure,
    Generate,
    Generated,
    Procedure,
    Prompt,
    Score,
    Scored,
    Session,
    continued,
    with_room,
)

DECODING = Decoding(max_tokens=12, stop=("\n",))
"""An answer is a name, unless the objects are longer."""


@frozen(kw_only=True)
class Prompted:
    """A prompt, the objects to score after it, and the answers that are expected, so that there is room for them."""

    id: str
    prompt: str
    objects: tuple[str, ...] = ()
    expect: tuple[str, ...] = ()


@frozen(kw_only=True)
class Said:
    """``text``: the greedy continuation, one line unless an expected answer has several. ``logprobs``: natural, summed
    over tokens, one for each object.
    """

    text: str
    logprobs: tuple[float, ...] = ()
    tokens: tuple[int, ...] = ()

    def begins_with(self, names: Sequence[str]) -> bool:
        """Whether the text begins with one of ``names``: case and spaces aside, and up to the end of a word."""
        text = _plain(self.text)
        return any(text.startswith(name) and not text[len(name) :][:1].isalnum() for name in map(_plain, names) if name)


def ask(session: Session[Any], prompts: Sequence[Prompted]) -> Mapping[str, Said]:
    """What the session's model says now, by id. Raises EditFailed where it cannot be asked."""
    found: dict[str, Said] = {}
    for name, result in session.engine.run({one.id: _asked(one) for one in prompts}).items():
        if isinstance(result, Failure):
            raise EditFailed(f"the model cannot be asked {name!r}: {result.message}")
        found[name] = result
    return found


def _asked(one: Prompted) -> Procedure[Said]:
    room = with_room(Prompt(text=one.prompt, decoding=DECODING), (*one.objects, *one.expect)).decoding
    written: Generated = yield Generate(prompt=one.prompt, max_tokens=room.max_tokens, stop=room.stop)
    if not one.objects:
        return Said(text=written.text.strip())
    continuations = tuple(continued(one.prompt, name) for name in one.objects)
    scored: Scored = yield Score(prompt=one.prompt, continuations=continuations)
    return Said(text=written.text.strip(), logprobs=scored.logprobs, tokens=scored.tokens)


def _plain(text: str) -> str:
    return " ".join(text.casefold().split()).lstrip("\"' ")
