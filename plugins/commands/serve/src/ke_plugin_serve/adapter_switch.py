"""Which model of a vLLM server answers: the base model, or the adapter with the active edits."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from attrs import define, field


@define(eq=False)
class ServedAdapter:
    """A model of the server by name, and the number of requests that it is answering."""

    name: str
    _requests: int = field(default=0, init=False)
    _idle: asyncio.Event = field(factory=asyncio.Event, init=False)

    def __attrs_post_init__(self) -> None:
        self._idle.set()

    @contextmanager
    def answering(self) -> Iterator[None]:
        """Count a request while the context is open."""
        self._requests += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._requests -= 1
            if not self._requests:
                self._idle.set()

    async def idle(self) -> None:
        """Wait until no request is left."""
        await self._idle.wait()


@define(eq=False)
class AdapterSwitch:
    """The model that answers new requests. It is used by the event loop only, so a switch is atomic.

    A request keeps its model until its answer is complete: each answer is that of one complete state of the edits.
    """

    current: ServedAdapter

    @contextmanager
    def model(self) -> Iterator[str]:
        """Yield the name of the current model, which is kept while the context is open."""
        adapter = self.current
        with adapter.answering():
            yield adapter.name

    def switch(self, name: str) -> ServedAdapter:
        """Use the model ``name`` for new requests. Return the one before, which may still be answering."""
        before, self.current = self.current, ServedAdapter(name)
        return before
