"""The length of an answer whose client sets no ``max_tokens``: the default, or fewer tokens if only those fit."""

from __future__ import annotations

from typing import Any

from attrs import evolve, frozen

from ke_core.plugin import EditorRequest, Generate, Procedure, Question, Reply, Request


@frozen(kw_only=True)
class DefaultLength(Question):
    """A question whose client did not set ``max_tokens``."""


def fitted(request: EditorRequest, procedure: Procedure[Reply], model: Any) -> Procedure[Reply]:
    """Return ``procedure``. If it answers a ``DefaultLength``, its answer fits into the context of a local model.

    Lengths that the editor chose are not changed.
    """
    if not isinstance(request, DefaultLength) or not hasattr(model, "encode"):
        return procedure
    return _fitted(procedure, request.prompt.decoding.max_tokens, model)


def _fitted(procedure: Procedure[Reply], default: int, model: Any) -> Procedure[Reply]:
    outcome: Any = None
    while True:
        try:
            asked = procedure.throw(outcome) if isinstance(outcome, Exception) else procedure.send(outcome)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        try:
            outcome = yield _shortened(asked, default, model)
        except Exception as error:  # noqa: BLE001  the procedure handles errors of its requests
            outcome = error


def _shortened(asked: Request, default: int, model: Any) -> Request:
    if not isinstance(asked, Generate) or asked.max_tokens != default:
        return asked
    rest = model.context - len(model.encode(asked.prompt))
    return evolve(asked, max_tokens=rest) if 0 < rest < default else asked
