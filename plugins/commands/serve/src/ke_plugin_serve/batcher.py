"""Batch questions that arrive together. One thread uses the model, and the engine batches its calls."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from attrs import define, evolve, field

from ke_core.plugin import Edited, PluginBroken, Question, Reply

T = TypeVar("T")
Waiting = tuple[Question, "asyncio.Future[Reply]"]


@define
class ModelThread:
    """The one thread that uses a model. ``busy``: it is working."""

    busy: bool = False
    _thread: ThreadPoolExecutor = field(factory=lambda: ThreadPoolExecutor(1, "ke-model"), init=False)

    async def run(self, work: Callable[[], T]) -> T:
        """Run ``work`` after earlier work, and return its result."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._busy_with, work)

    def _busy_with(self, work: Callable[[], T]) -> T:
        self.busy = True
        try:
            return work()
        finally:
            self.busy = False

    def close(self) -> None:
        """Stop the thread after its current work."""
        self._thread.shutdown(wait=False, cancel_futures=True)


@define
class Batcher:
    """Runs everything that uses the edited model in one thread, in order.

    A batch waits ``window`` seconds for further questions. Questions that arrive while the model is busy form the next
    batch. ``most``: the size of a batch. ``own_edits`` returns the ids that each question gets as its own edits.
    ``batches`` and ``questions`` count the answered ones.
    """

    edited: Edited
    own_edits: Callable[[], Iterable[str]]
    window: float
    most: int
    batches: int = 0
    questions: int = 0
    thread: ModelThread = field(factory=ModelThread, init=False)
    _waiting: list[Waiting] = field(factory=list, init=False)
    _running: asyncio.Task[None] | None = field(default=None, init=False)

    async def answer(self, questions: Sequence[Question]) -> list[Reply]:
        """Return one reply per question, in order. Raises the errors of ``Edited.answer``.

        Questions that are canceled before their batch starts are dropped.
        """
        loop = asyncio.get_running_loop()
        replies = [loop.create_future() for _question in questions]
        self._waiting += zip(questions, replies, strict=True)
        if self._running is None or self._running.done():
            self._running = loop.create_task(self._run_batches())
        return list(await asyncio.gather(*replies))

    async def alone(self, work: Callable[[], T]) -> T:
        """Run ``work`` between two batches."""
        return await self.thread.run(work)

    async def _run_batches(self) -> None:
        while self._waiting:
            # Wait between batches too: otherwise clients that were just answered form a second group that alternates
            # with the first, each with half the size.
            await asyncio.sleep(self.window)
            batch = self._next()
            if batch:
                await self._together(batch)

    def _next(self) -> list[Waiting]:
        """Return the next batch. A second question with the same id, and therefore seed, waits for the next one."""
        batch: dict[str, Waiting] = {}
        left: list[Waiting] = []
        for one in self._waiting:
            if one[1].cancelled():
                continue
            if len(batch) < self.most and one[0].id not in batch:
                batch[one[0].id] = one
            else:
                left.append(one)
        self._waiting = left
        return list(batch.values())

    async def _together(self, batch: Sequence[Waiting]) -> None:
        try:
            answered = await self.alone(lambda: self._answered(batch))
        except Exception as error:  # noqa: BLE001  a bug in an editor is reported to every waiting client
            for _question, reply in batch:
                if not reply.done():
                    reply.set_exception(error)
            return
        self.batches += bool(answered)
        self.questions += len(answered)
        for reply, answer in answered:
            if not reply.done():
                reply.set_result(answer)

    def _answered(self, batch: Sequence[Waiting]) -> list[tuple[asyncio.Future[Reply], Reply]]:
        """Return one reply per question whose client still waits. Raises PluginBroken if their number differs.

        It runs in the model's thread. Since the batch was formed, edits may have changed and clients disconnected.
        """
        waiting = [one for one in batch if not one[1].cancelled()]
        if not waiting:
            return []
        own = tuple(self.own_edits())
        replies = self.edited.answer([evolve(question, own=own) for question, _reply in waiting])
        if len(replies) != len(waiting):
            raise PluginBroken(f"the editor returned {len(replies)} replies to {len(waiting)} questions")
        return [(reply, answer) for (_question, reply), answer in zip(waiting, replies, strict=True)]
