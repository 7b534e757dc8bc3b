"""The edited model that simply asks the model: what weight editors and the control ``none`` yield."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ke_core.spec.errors import UnsupportedChange
from ke_core.spec.facts import Edit
from ke_core.spec.prompts import Parse
from ke_core.spec.protocols import Edited, Session
from ke_core.spec.requests import Ask, Generate, Generated, Likelihood, Procedure, Question, Score
from ke_core.spec.results import Answer, Details, Reply, Scored


class PassthroughModel:
    """Puts each ask's own prompt to the session's model."""

    def __init__(self, session: Session[Any], details: Details | None = None) -> None:
        self.engine = session.engine
        self._details: Details = details or {}

    @property
    def details(self) -> Details:
        """What the editor wants on record about this edit."""
        return self._details

    def answer(self, asks: Sequence[Ask]) -> list[Reply]:
        """One reply an ask, in order."""
        return self.engine.answer(self.solve, asks)

    def solve(self, ask: Ask) -> Procedure[Reply]:
        """The prompt of ``ask``, as it stands."""
        return put(ask)

    def change(self, *, add: Sequence[Edit] = (), remove: Sequence[str] = ()) -> None:
        """Not possible: the weights hold the edits together."""
        raise UnsupportedChange(
            f"these edits are in the model's weights: {len(add)} cannot be added, {len(remove)} cannot be taken off",
            hint="make the edit again with the whole list",
        )


def asks_only_the_model(edited: Edited, session: Session[Any]) -> bool:
    """Whether ``edited`` does nothing but put each prompt to the model of ``session``, so that ``Direct`` can."""
    if not isinstance(edited, PassthroughModel) or edited.engine is not session.engine:
        return False
    kind = type(edited)
    return kind.answer is PassthroughModel.answer and kind.solve is PassthroughModel.solve


def put(ask: Ask) -> Procedure[Reply]:
    """Ask the model with the prompt of ``ask``, as it stands."""
    if isinstance(ask, Likelihood):
        scored: Scored = yield Score(prompt=ask.prompt, prompts=ask.prompts, continuations=ask.continuations)
        return scored
    return (yield from question(ask))


def question(ask: Question) -> Procedure[Answer]:
    """Generate with the prompt's own decoding, and cut the answer out with its own parse."""
    decoding = ask.prompt.decoding
    written: Generated = yield Generate(
        prompt=ask.prompt.text,
        max_tokens=decoding.max_tokens,
        stop=decoding.stop,
        temperature=decoding.temperature,
        top_k=decoding.top_k,
    )
    return read(ask.prompt.parse, written)


def read(parse: Parse, written: Generated) -> Answer:
    """The answer in what was written, and how it ended.

    ``answered``: the text has the expected form. ``unparsed``: it ended by itself (stop string, end of text)
    without it. ``length``: the token limit came first. When the limit cuts a text that does hold an answer,
    it depends on the form. Without a marker (``parse.after`` is empty: a cloze, a direct question) the text
    is the answer as far as it goes, since such a prompt gives a few tokens and asks for no more. After a
    marker ("... the answer is:") the answer counts only if its end was seen, that is ``parse.until``, because
    half a name is not the name.
    """
    text, found = parse(written.text)
    if written.finish != "length":
        return Answer(text=text, raw=written.text, outcome="answered" if found else "unparsed")
    ended = parse.until != "" and parse.until in _tail(parse, written.text)
    if not found or (parse.after and not ended):
        return Answer(text=text, raw=written.text, outcome="length")
    return Answer(text=text, raw=written.text, cut=not ended)


def _tail(parse: Parse, text: str) -> str:
    """What follows the marker, if there is one, without the space before the answer."""
    return (text.rpartition(parse.after)[2] if parse.after else text).lstrip()
