"""The routes in front of a vLLM server: requests are forwarded, and edits become adapters of that server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx2
from attrs import define, field
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ke_core.plugin import KEError
from ke_plugin_serve import wire
from ke_plugin_serve.active_edits import ServedChange
from ke_plugin_serve.adapter_switch import AdapterSwitch, ServedAdapter
from ke_plugin_serve.application import ModelRoutes, build_app
from ke_plugin_serve.batcher import ModelThread
from ke_plugin_serve.edit_routes import EditRoutes
from ke_plugin_serve.forwarding import ForwardedResponse, Upstream, send
from ke_plugin_serve.limits import Intake, Limits, while_there
from ke_plugin_serve.rendering import check_model
from ke_plugin_serve.replies import AGAIN
from ke_plugin_serve.vllm_startup import VllmModel
from ke_plugin_serve.wire import BadRequest

FORWARDED = ("/v1/chat/completions", "/v1/completions")
NOT_FOUND = 404  # vLLM's status for a model that it does not know


@define(eq=False)
class VllmRoutes:
    """A vLLM server behind HTTP. ``name``: of the model for clients. ``report`` gets a line for the user.

    ``forwarded``: the number of forwarded requests. ``thread`` computes edits.
    """

    served: VllmModel
    name: str
    limits: Limits
    upstream: Upstream
    report: Callable[[str], object]
    forwarded: int = field(default=0, init=False)
    thread: ModelThread = field(factory=ModelThread, init=False)
    switch: AdapterSwitch = field(init=False)
    _intake: Intake = field(init=False)
    _edits: EditRoutes = field(init=False)
    _client: httpx2.AsyncClient = field(init=False)
    _tasks: set[asyncio.Task[None]] = field(factory=set, init=False)

    def __attrs_post_init__(self) -> None:
        self.switch = AdapterSwitch(ServedAdapter(self.served.first))
        self._intake = Intake(self.limits.concurrent)
        self._edits = EditRoutes(self.served.bank, self._intake, self.limits.edits, self._apply)

    def app(self, token: str) -> Starlette:
        """Return the application. An empty ``token`` disables authentication."""
        routes = [
            *(Route(path, self.forward, methods=["POST"]) for path in FORWARDED),
            *ModelRoutes(self.name, self._about).routes(),
            *self._edits.routes(),
        ]
        return build_app(routes, token, self._connected)

    @asynccontextmanager
    async def _connected(self, _app: Starlette) -> AsyncIterator[None]:
        async with self.upstream.client(self.limits.concurrent) as self._client:
            yield
        for task in self._tasks:
            task.cancel()

    async def forward(self, request: Request) -> Response:
        """Send a request to the current model of the server, and return its response as it arrives.

        A restarted server does not know the adapter: it is loaded again, and the client is asked to try again.
        """
        async with AsyncExitStack() as stack:
            raw = wire.parsed(await stack.enter_async_context(self._intake.body(request, self.limits.body)))
            check_model(raw.get("model"), self.name)
            body = {**raw, "model": stack.enter_context(self.switch.model())}
            response = await while_there(request, send(self._client, request.url.path, body))
            stack.push_async_callback(response.aclose)
            if response.status_code == NOT_FOUND and body["model"] != self.served.live.base:
                if not self._edits.changing.locked():  # a change of the edits loads an adapter, too
                    self._start(self._load_again(body["model"]))
                raise BadRequest(
                    "the vLLM server does not have the adapter any more; it is being loaded again",
                    503, code="server_busy", kind="server_error", retry_after=AGAIN,
                )  # fmt: skip
            self.forwarded += 1
            return ForwardedResponse(response, stack.pop_all())

    async def _apply(self, change: ServedChange) -> None:
        """Use the adapter of the changed edits for new requests, once the server has it."""
        name, bank = await self.thread.run(lambda: self.served.prepare(change))
        before = self.switch.switch(name)
        self.served.bank.edits = bank.edits
        if before.name != self.served.live.base:
            self._start(self._unload(before))

    async def _load_again(self, lost: str) -> None:
        """Load the active edits, unless another request or a change of the edits has done so."""
        async with self._edits.changing:
            if self.switch.current.name != lost:
                return
            try:
                await self._apply(ServedChange())
            except KEError as error:
                self.report(f"the edits could not be loaded into the restarted server: {error.message}")

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        """Do ``work`` in the background."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _unload(self, before: ServedAdapter) -> None:
        """Unload an adapter after its last answer."""
        await before.idle()
        try:
            await self.thread.run(lambda: self.served.live.unload(before.name))
        except KEError as error:
            self.report(f"the server keeps the adapter {before.name}: {error.message}")

    def _about(self) -> dict[str, Any]:
        adapter = self.switch.current.name
        return {
            "model": self.served.live.settings.model.reference,
            "editor": self.served.spec.name,
            "edits": len(self.served.bank),
            "upstream": self.upstream.url,
            "adapter": "" if adapter == self.served.live.base else adapter,
        }
