"""The HTTP application of both backends: the list of models, ``/health``, and errors in OpenAI's form."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from attrs import define, field
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ke_core.plugin import (
    BadConfig,
    BadData,
    EditFailed,
    KEError,
    ModelUnavailable,
    ServerFailed,
    UnsupportedChange,
    UnsupportedEdit,
)
from ke_plugin_serve.active_edits import Contradiction, UnknownEdit
from ke_plugin_serve.limits import HEALTH, Gate, answer
from ke_plugin_serve.rendering import check_model
from ke_plugin_serve.state import ChangedMeanwhile
from ke_plugin_serve.wire import BadRequest

STATUS: Mapping[type[KEError], int] = {
    BadData: 400, UnknownEdit: 404, Contradiction: 409, ChangedMeanwhile: 409, UnsupportedChange: 409,
    UnsupportedEdit: 422, EditFailed: 422, BadConfig: 422, ServerFailed: 502, ModelUnavailable: 503,
}  # fmt: skip
Lifespan = Callable[[Starlette], AbstractAsyncContextManager[None]]


@define
class ModelRoutes:
    """The list with the one model that is served. ``about`` returns the field ``ke`` of its entry.

    ``fault`` returns why the model cannot answer; empty if it can.
    """

    name: str
    about: Callable[[], dict[str, Any]]
    fault: Callable[[], str] = str
    _began: int = field(factory=lambda: int(time.time()), init=False)

    def routes(self) -> list[Route]:
        """Return the routes."""
        return [
            Route("/v1/models", self.models),
            Route("/v1/models/{name:path}", self.model),
            Route(HEALTH, self.health),
        ]

    async def models(self, _request: Request) -> Response:
        """``GET /v1/models``."""
        return JSONResponse({"object": "list", "data": [self._model()]})

    async def model(self, request: Request) -> Response:
        """``GET /v1/models/NAME``."""
        check_model(request.path_params["name"], self.name)
        return JSONResponse(self._model())

    async def health(self, _request: Request) -> Response:
        """``GET /health``: report whether the model can answer."""
        if fault := self.fault():
            return JSONResponse({"status": "failed", "reason": fault}, 503)
        return JSONResponse({"status": "ok"})

    def _model(self) -> dict[str, Any]:
        about = self.about()
        length = {"max_model_len": about.pop("context")} if about.get("context") else {}  # vLLM's name for it
        return {"id": self.name, "object": "model", "created": self._began, "owned_by": "ke", **length, "ke": about}


def build_app(routes: Sequence[Route], token: str, lifespan: Lifespan | None = None) -> Starlette:
    """Return the application. An empty ``token`` disables authentication."""
    return Starlette(
        routes=routes,
        middleware=[Middleware(Gate, token=token)],
        exception_handlers={
            BadRequest: _bad_request,
            KEError: _user_error,
            HTTPException: _no_route,
            Exception: _crash,
        },
        lifespan=lifespan,
    )


def _bad_request(_request: Request, error: Exception) -> Response:
    assert isinstance(error, BadRequest)
    return answer(error)


def _user_error(_request: Request, error: Exception) -> Response:
    """Report an error that the user can fix, with its hint."""
    assert isinstance(error, KEError)
    status = next((status for kind, status in STATUS.items() if isinstance(error, kind)), 500)
    message = str(error) + (f" ({error.hint})" if error.hint else "")
    kind = "server_error" if status >= 500 else "invalid_request_error"
    return answer(BadRequest(message, status, code=type(error).__name__, kind=kind))


def _no_route(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    status, unknown = error.status_code, error.status_code == 404
    what = "no such address" if unknown else error.detail.lower()
    hint = " (chat is at /v1/chat/completions)" if unknown and request.url.path.startswith("/v1/") else ""
    found = answer(
        BadRequest(
            f"{what}: {request.method} {request.url.path:.200}{hint}",
            status,
            code="not_found" if unknown else "method_not_allowed",
        )
    )
    found.headers.update(error.headers or {})
    return found


def _crash(_request: Request, _error: Exception) -> Response:
    """Log the traceback without sending it to the client."""
    return answer(
        BadRequest("internal error: see the log of the server", 500, kind="server_error", code="internal_error")
    )
