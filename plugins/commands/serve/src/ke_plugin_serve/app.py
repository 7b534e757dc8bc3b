"""The routes of OpenAI's API and ``/edits``."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import define, field
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from ke_core.app import SourceLine, refuse_edits
from ke_core.plugin import BadData, Edited, KEError, UnsupportedChange, UnsupportedEdit
from ke_plugin_serve import rendering, replies, wire
from ke_plugin_serve.active_edits import Contradiction, EditChange, ServedEdit, UnknownEdit, given_fields, kept_from
from ke_plugin_serve.batcher import Batcher
from ke_plugin_serve.limits import HEALTH, Gate, Intake, Limits, answer, while_there
from ke_plugin_serve.rendering import ChatFormat, CompletionRequest
from ke_plugin_serve.startup import ServedModel
from ke_plugin_serve.state import ChangedMeanwhile
from ke_plugin_serve.wire import BadRequest

PAGE, EDITS_AT_ONCE = 1000, 100_000
STATUS: Mapping[type[KEError], int] = {
    BadData: 400, UnknownEdit: 404, Contradiction: 409, ChangedMeanwhile: 409, UnsupportedChange: 409,
    UnsupportedEdit: 422,
}  # fmt: skip


def changeable(edited: Edited) -> bool:
    """Return whether edits can change while the model is served.

    Editors do not declare it, so an empty change is tried.
    """
    try:
        edited.change()
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
    _began: int = field(factory=lambda: int(time.time()), init=False)
    _changing: asyncio.Lock = field(factory=asyncio.Lock, init=False)
    _changeable: bool = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._intake = Intake(self.limits.concurrent)
        self._changeable = changeable(self.served.edited)  # before questions arrive: the model has one thread

    # --- OpenAI's ---

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

    async def models(self, _request: Request) -> Response:
        """``GET /v1/models``."""
        return JSONResponse({"object": "list", "data": [self._model()]})

    async def model(self, request: Request) -> Response:
        """``GET /v1/models/NAME``."""
        name = request.path_params["name"]
        if name != self.settings.model:
            raise BadRequest(
                f"no model {name:.80} here: {self.settings.model} is served", 404, param="model", code="model_not_found"
            )
        return JSONResponse(self._model())

    def _model(self) -> dict[str, Any]:
        return {
            "id": self.settings.model,
            "object": "model",
            "created": self._began,
            "owned_by": "ke",
            "ke": {
                "model": self.served.session.model.id,
                "editor": self.served.spec.name,
                "edits": len(self.served.bank),
                "max_tokens": self.settings.max_tokens,
            },
        }

    async def health(self, _request: Request) -> Response:
        """``GET /health``: report that the server is running."""
        return JSONResponse({"status": "ok"})

    # --- active edits ---

    async def listed(self, request: Request) -> Response:
        """``GET /edits?offset=0&limit=1000``: in the order of arrival."""
        given = {name: wire.numeral(value) for name, value in request.query_params.items()}
        offset = wire.whole(given, "offset", 0, 10**9) or 0
        limit = wire.whole(given, "limit", 1, PAGE) or PAGE
        kept = list(self.served.bank.edits.values())
        shown = [one.shown() for one in kept[offset : offset + limit]]
        return JSONResponse({"object": "list", "data": shown, "count": len(kept), "offset": offset})

    async def add(self, request: Request) -> Response:
        """``POST /edits``: ``{"edits": [...], "replace": false}``. Atomic."""
        return await self._change(request, self._addition, self._added)

    async def remove(self, request: Request) -> Response:
        """``POST /edits/remove``: ``{"edits": [ID or STATEMENT, ...]}``. Atomic."""
        return await self._change(request, self._removal, self._removed)

    async def _change(
        self, request: Request, read: Callable[[bytes], EditChange], respond: Callable[[EditChange], Response]
    ) -> Response:
        """Change the model between two batches, then the state file.

        Bodies are read concurrently; lists are parsed and applied one at a time. ``read`` and ``respond`` run in a
        thread, because they need seconds for a long list.
        """
        async with self._intake.body(request, self.limits.edits) as body:
            if not self._changeable:  # before the list is parsed: no correction of the list would help
                raise UnsupportedChange(
                    f"{self.served.spec.name} cannot change its edits while they are active",
                    hint="end ke serve, and start it again with the whole list in --edits",
                )
            async with self._changing:
                change = await asyncio.to_thread(read, body)
                if change:
                    await self.batcher.alone(lambda: self._changed(change))
            return await asyncio.to_thread(respond, change)

    def _addition(self, body: bytes) -> EditChange:
        raw = wire.parsed(body)
        fresh = [_kept(one, n) for n, one in enumerate(wire.listed(raw.get("edits"), "edits", EDITS_AT_ONCE))]
        return self.served.bank.addition(fresh, replace=wire.flag(raw, "replace"))

    def _added(self, change: EditChange) -> Response:
        added, replaced = ([one.shown() for one in some] for some in (change.add, change.remove))
        known, count = list(change.known), len(self.served.bank)
        return JSONResponse({"added": added, "replaced": replaced, "known": known, "count": count})

    def _removal(self, body: bytes) -> EditChange:
        names = wire.listed(wire.parsed(body).get("edits"), "edits", EDITS_AT_ONCE)
        return self.served.bank.removal([wire.text(one, "edits") for one in names])

    def _removed(self, change: EditChange) -> Response:
        return JSONResponse({"removed": [one.shown() for one in change.remove], "count": len(self.served.bank)})

    def _changed(self, change: EditChange) -> None:
        """Apply the change in the model's thread, and undo it if it cannot be saved."""
        served = self.served
        refuse_edits(served.spec, served.editor, served.session, [one.edit for one in change.add], {})
        served.edited.change(add=_edits(change.add), remove=[one.edit.id for one in change.remove])
        before = dict(served.bank.edits)
        served.bank.make(change)
        try:
            served.keep()
        except BaseException:
            served.bank.edits = before
            back = change.undone()
            served.edited.change(add=_edits(back.add), remove=[one.edit.id for one in back.remove])
            raise


def build_app(routes: Routes, token: str) -> Starlette:
    """Return the application. An empty ``token`` disables authentication."""
    return Starlette(
        routes=[
            Route("/v1/chat/completions", routes.chat, methods=["POST"]),
            Route("/v1/completions", routes.completions, methods=["POST"]),
            Route("/v1/models", routes.models),
            Route("/v1/models/{name:path}", routes.model),
            Route(HEALTH, routes.health),
            Route("/edits", routes.listed),
            Route("/edits", routes.add, methods=["POST"]),
            Route("/edits/remove", routes.remove, methods=["POST"]),
        ],
        middleware=[Middleware(Gate, token=token)],
        exception_handlers={
            BadRequest: _bad_request,
            KEError: _user_error,
            HTTPException: _no_route,
            Exception: _crash,
        },
    )


def _kept(raw: object, number: int) -> ServedEdit:
    place = SourceLine(file=f"edits[{number}]")
    if not isinstance(raw, dict):
        raise BadData(f"{place} is not an object", hint="an edit is an object: prompt, subject, target_new")
    return kept_from(raw if "source" in given_fields(raw) else {**raw, "source": "ke serve"}, place)


def _edits(kept: Sequence[ServedEdit]) -> list[Any]:
    return [one.edit for one in kept]


def _bad_request(_request: Request, error: Exception) -> Response:
    assert isinstance(error, BadRequest)
    return answer(error)


def _user_error(_request: Request, error: Exception) -> Response:
    """Report an error that the user can fix, with its hint."""
    assert isinstance(error, KEError)
    status = next((status for kind, status in STATUS.items() if isinstance(error, kind)), 500)
    message = str(error) + (f" ({error.hint})" if error.hint else "")
    kind = "server_error" if status == 500 else "invalid_request_error"
    return answer(BadRequest(message, status, code=type(error).__name__, kind=kind))


def _no_route(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    what = "no such address" if error.status_code == 404 else error.detail.lower()
    return answer(BadRequest(f"{what}: {request.method} {request.url.path:.200}", error.status_code, code="not_found"))


def _crash(_request: Request, _error: Exception) -> Response:
    """Log the traceback without sending it to the client."""
    return answer(
        BadRequest("internal error: see the log of the server", 500, kind="server_error", code="internal_error")
    )
