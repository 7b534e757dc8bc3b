"""The routes of ``/edits``: list, add and remove the active edits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from attrs import define, field
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ke_core.app import SourceLine
from ke_core.plugin import BadData, UnsupportedChange
from ke_plugin_serve import wire
from ke_plugin_serve.active_edits import ActiveEdits, ServedChange, ServedEdit, given_fields, kept_from
from ke_plugin_serve.limits import Intake

PAGE, EDITS_AT_ONCE = 1000, 100_000


@define
class EditRoutes:
    """``bank``: the active edits. ``apply`` makes a change active and saves it, or raises an error and changes nothing.

    ``most``: bytes of a list of edits. ``frozen_editor``: the name of an editor whose edits cannot change; else empty.
    ``changing`` is held during a change.
    """

    bank: ActiveEdits
    intake: Intake
    most: int
    apply: Callable[[ServedChange], Awaitable[None]]
    frozen_editor: str = ""
    changing: asyncio.Lock = field(factory=asyncio.Lock, init=False)

    def routes(self) -> list[Route]:
        """Return the routes."""
        return [
            Route("/edits", self.listed),
            Route("/edits", self.add, methods=["POST"]),
            Route("/edits/remove", self.remove, methods=["POST"]),
        ]

    async def listed(self, request: Request) -> Response:
        """``GET /edits?offset=0&limit=1000``: in the order of arrival."""
        given = {name: wire.numeral(value) for name, value in request.query_params.items()}
        offset = wire.whole(given, "offset", 0, 10**9) or 0
        limit = wire.whole(given, "limit", 1, PAGE) or PAGE
        kept = list(self.bank.edits.values())
        shown = [one.shown() for one in kept[offset : offset + limit]]
        return JSONResponse({"object": "list", "data": shown, "count": len(kept), "offset": offset})

    async def add(self, request: Request) -> Response:
        """``POST /edits``: ``{"edits": [...], "replace": false}``. Atomic."""
        return await self._change(request, self._addition, self._added)

    async def remove(self, request: Request) -> Response:
        """``POST /edits/remove``: ``{"edits": [ID or STATEMENT, ...]}``. Atomic."""
        return await self._change(request, self._removal, self._removed)

    async def _change(
        self, request: Request, read: Callable[[bytes], ServedChange], respond: Callable[[ServedChange], Response]
    ) -> Response:
        """Change the edits, one request after another.

        Bodies are read concurrently; lists are parsed and applied one at a time. ``read`` and ``respond`` run in a
        thread, because they need seconds for a long list.
        """
        async with self.intake.body(request, self.most) as body:
            if self.frozen_editor:  # before the list is parsed: no correction of the list would help
                raise UnsupportedChange(
                    f"{self.frozen_editor} cannot change its edits while they are active",
                    hint="end ke serve, and start it again with the whole list in --edits",
                )
            async with self.changing:
                change = await asyncio.to_thread(read, body)
                if change:
                    await self.apply(change)
            return await asyncio.to_thread(respond, change)

    def _addition(self, body: bytes) -> ServedChange:
        raw = wire.parsed(body)
        fresh = [_kept(one, n) for n, one in enumerate(wire.listed(raw.get("edits"), "edits", EDITS_AT_ONCE))]
        return self.bank.addition(fresh, replace=wire.flag(raw, "replace"))

    def _added(self, change: ServedChange) -> Response:
        added, replaced = ([one.shown() for one in some] for some in (change.add, change.remove))
        known, count = list(change.known), len(self.bank)
        return JSONResponse({"added": added, "replaced": replaced, "known": known, "count": count})

    def _removal(self, body: bytes) -> ServedChange:
        names = wire.listed(wire.parsed(body).get("edits"), "edits", EDITS_AT_ONCE)
        return self.bank.removal([wire.text(one, "edits") for one in names])

    def _removed(self, change: ServedChange) -> Response:
        return JSONResponse({"removed": [one.shown() for one in change.remove], "count": len(self.bank)})


def _kept(raw: object, number: int) -> ServedEdit:
    place = SourceLine(file=f"edits[{number}]")
    if not isinstance(raw, dict):
        raise BadData(f"{place} is not an object", hint="an edit is an object: prompt, subject, target_new")
    return kept_from(raw if "source" in given_fields(raw) else {**raw, "source": "ke serve"}, place)
