"""The edited model of weight editors and of ``none``: it passes each prompt to the model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ke_core.spec.errors import UnsupportedChange
from ke_core.spec.facts import Edit
from ke_core.spec.prompts import Parse
from ke_core.spec.protocols import Edited, Session
from ke_core.spec.requests import EditorRequest, Generate, Generated, Likelihood, Procedure, Score
from ke_core.spec.results import Answer, Details, Reply, Scored


class PassthroughModel:
    """Sends the prompt of each request to the session's model."""

    def __init__(self, session: Session[Any], details: Details | None = None) -> None:
        self.engine = session.engine
        self._details: Details = details or {}

    @property
    def details(self) -> Details:
        """Details of the edit that the editor records."""
        return self._details

    def answer(self, requests: Sequence[EditorRequest]) -> list[Reply]:
        """Return one reply per request, in order."""
        return self.engine.answer(self.solve, requests)

    def solve(self, request: EditorRequest) -> Procedure[Reply]:
        """Send the prompt of ``request`` unchanged."""
        return put(request)

    def change(self, *, add: Sequence[Edit] = (), remove: Sequence[str] = ()) -> None:
        """Raise UnsupportedChange: the weights contain all edits together."""
        raise UnsupportedChange(
            f"these edits are in the model's weights: {len(add)} cannot be added, {len(remove)} cannot be removed",
            hint="apply the whole list of edits again",
        )


def asks_only_the_model(edited: Edited, session: Session[Any]) -> bool:
    """Return whether ``edited`` only passes prompts to the model of ``session``."""
    if not isinstance(edited, PassthroughModel) or edited.engine is not session.engine:
        return False
    kind = type(edited)
    return kind.answer is PassthroughModel.answer and kind.solve is PassthroughModel.solve


def put(request: EditorRequest) -> Procedure[Reply]:
    """Send the prompt of ``request`` to the model: score its continuations, or generate and extract the answer."""
    if isinstance(request, Likelihood):
        scored: Scored = yield Score(
            prompt=request.prompt, prompts=request.prompts, continuations=request.continuations
        )
        return scored
    decoding = request.prompt.decoding
    written: Generated = yield Generate(
        prompt=request.prompt.text,
        max_tokens=decoding.max_tokens,
        stop=decoding.stop,
        temperature=decoding.temperature,
        top_k=decoding.top_k,
    )
    return read(request.prompt.parse, written)


def read(parse: Parse, written: Generated) -> Answer:
    """Extract the answer from a generated text.

    The outcome is ``answered`` if the text has the expected form, ``unparsed`` if it ended (stop string, end of text)
    without it, and ``length`` if the token limit came first. If the limit truncates a text with an answer, the form
    decides. Without a marker (``parse.after`` is empty: a cloze, a direct question), the truncated text is the answer,
    because such prompts allow few tokens. After a marker ("... the answer is:"), the answer counts only if its end
    ``parse.until`` was generated, because a part of a name is not the name.
    """
    text, found = parse(written.text)
    if written.finish != "length":
        return Answer(text=text, raw=written.text, outcome="answered" if found else "unparsed")
    after = written.text.rpartition(parse.after)[2] if parse.after else written.text
    ended = parse.until != "" and parse.until in after.lstrip()
    if not found or (parse.after and not ended):
        return Answer(text=text, raw=written.text, outcome="length")
    return Answer(text=text, raw=written.text, cut=not ended)
