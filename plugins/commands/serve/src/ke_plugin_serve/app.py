"""The routes of an edited model in this process: OpenAI's API and ``/edits``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attrs import define, field
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from ke_core.app import refuse_edits
from ke_core.plugin import UnsupportedChange
from ke_plugin_serve import rendering, replies, wire
from ke_plugin_serve.active_edits import ServedChange
from ke_plugin_serve.application import ModelRoutes
from ke_plugin_serve.batcher import Batcher
from ke_plugin_serve.edit_routes import EditRoutes
from ke_plugin_serve.limits import Intake, Limits, while_there
from ke_plugin_serve.rendering import ChatFormat, CompletionRequest
from ke_plugin_serve.startup import ServedModel


def changeable(served: ServedModel) -> bool:
    """Return whether edits can change while the model is served.

    Those of a weight editor cannot be undone if a change fails. Others do not declare it, so an empty change is tried.
    """
    if served.spec.editor_kind == "weight editor":
        return False
    try:
        served.edited.change()
    except UnsupportedChange:
        return False
    return True


@define
class Routes:
    """One edited model behind HTTP."""

    served: ServedModel
    settings: ChatFormat
    limits: Limits
    batcher: Batcher
    _intake: Intake = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._intake = Intake(self.limits.concurrent)

    def routes(self) -> list[Route]:
        """Return all routes. Call it before questions arrive, because it tries an empty change of the edits."""
        frozen_editor = "" if changeable(self.served) else self.served.spec.name
        edits = EditRoutes(self.served.bank, self._intake, self.limits.edits, self._apply, frozen_editor)
        return [
            Route("/v1/chat/completions", self.chat, methods=["POST"]),
            Route("/v1/completions", self.completions, methods=["POST"]),
            *ModelRoutes(self.settings.model, self._about, lambda: self.batcher.thread.fault).routes(),
            *edits.routes(),
        ]

    async def chat(self, request: Request) -> Response:
        """``POST /v1/chat/completions``."""
        return await self._complete(request, rendering.chat, "chat.completion")

    async def completions(self, request: Request) -> Response:
        """``POST /v1/completions``."""
        return await self._complete(request, rendering.plain, "text_completion")

    async def _complete(
        self, request: Request, read: Callable[[Mapping[str, Any], ChatFormat], CompletionRequest], kind: replies.Kind
    ) -> Response:
        async with self._intake.body(request, self.limits.body) as body:
            wanted = read(wire.parsed(body), self.settings)
            answers = await while_there(request, self.batcher.answer(wanted.questions))
        found = replies.response(kind, wanted, answers, self.settings.model)
        if wanted.stream:
            return StreamingResponse(
                replies.events(found, usage=wanted.usage),
                media_type="text/event-stream",
                headers={"Cache-Control": "no-cache"},
            )
        return JSONResponse(found)

    def _about(self) -> dict[str, Any]:
        return {
            "model": self.served.session.model.id,
            "editor": self.served.spec.name,
            "edits": len(self.served.bank),
            "max_tokens": self.settings.max_tokens,
            "context": self.served.session.model.context,
        }

    async def _apply(self, change: ServedChange) -> None:
        """Change the state file and the model between two batches."""
        await self.batcher.alone(lambda: self._changed(change))

    def _changed(self, change: ServedChange) -> None:
        """Save the change and apply it, in the model's thread. If the model refuses it, the file is written again.

        A change of the model could not be undone: edits that are added again get another place in the memory.
        """
        served = self.served
        new = [one.edit for one in change.add]
        refuse_edits(served.spec, served.editor, served.session, new, {})
        before = dict(served.bank.edits)
        served.bank.make(change)
        saved = False
        try:
            served.keep()
            saved = True
            served.edited.change(add=new, remove=[one.edit.id for one in change.remove])
        except BaseException:
            served.bank.edits = before
            if saved:
                served.keep()
            raise
