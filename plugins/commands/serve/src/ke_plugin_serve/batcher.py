"""Answer questions together. One thread uses the model, and a question that arrives joins those under way."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from attrs import define, evolve, field

from ke_core.plugin import (
    Edited,
    EditorRequest,
    Engine,
    Failure,
    LanguageModel,
    ModelUnavailable,
    PluginBroken,
    Question,
    Reply,
    SupportsConcurrentSolve,
)
from ke_plugin_serve.lengths import fitted

T = TypeVar("T")
FATAL = ("WeightsNotRestored", "ProcessLost", "AcceleratorError")
"""Errors after which the model gives wrong answers or none. ``AcceleratorError``: of torch, for a failed kernel."""
Waiting = tuple[Question, "asyncio.Future[Reply]"]


@define
class ModelThread:
    """The one thread that uses a model. ``busy``: it is working. ``fault``: why the model is not used any more."""

    busy: bool = False
    fault: str = ""
    _thread: ThreadPoolExecutor = field(factory=lambda: ThreadPoolExecutor(1, "ke-model"), init=False)
    _submitted: Sequence[Future[Any]] = field(default=(), init=False)

    @property
    def awaited(self) -> bool:
        """Whether work waits for the thread."""
        return any(not (one.running() or one.done()) for one in self._submitted)

    async def run(self, work: Callable[[], T]) -> T:
        """Run ``work`` after earlier work, and return its result. Raises ModelUnavailable after a fatal error."""
        if self.fault:
            raise ModelUnavailable(self.fault, hint="start ke serve again")
        future = self._thread.submit(self._busy_with, work)
        self._submitted = [*(one for one in self._submitted if not one.done()), future]
        return await asyncio.wrap_future(future)

    def _busy_with(self, work: Callable[[], T]) -> T:
        self.busy = True
        try:
            return work()
        except BaseException as error:
            self.check(type(error).__name__)
            if isinstance(error, Exception) and not isinstance(error, StopIteration):
                raise
            raise RuntimeError(type(error).__name__) from error  # asyncio would let the clients wait forever
        finally:
            self.busy = False

    def check(self, error: str) -> None:
        """Record an error, given by its class, if it is fatal."""
        if error in FATAL:
            self.fault = f"the model is not used any more after {error}"

    def close(self) -> None:
        """Stop the thread after its current work."""
        self._thread.shutdown(wait=False, cancel_futures=True)


@define
class Batcher:
    """Runs everything that uses the edited model in one thread.

    The first questions wait ``window`` seconds for others. Questions that arrive later join those under way, at most
    ``most`` at a time. Other work, such as a change of the edits, waits until all questions under way are answered, and
    no others join them. An edited model without ``solve`` answers the questions that wait together, one batch after
    another.

    ``own_edits`` returns the ids that each question gets as its own edits. ``batches`` counts how often questions were
    passed to the model, and ``questions`` the answered ones.
    """

    engine: Engine
    model: LanguageModel
    edited: Edited
    own_edits: Callable[[], Iterable[str]]
    window: float
    most: int
    batches: int = 0
    questions: int = 0
    thread: ModelThread = field(factory=ModelThread, init=False)
    _waiting: deque[Waiting] = field(factory=deque, init=False)
    _running: asyncio.Task[None] | None = field(default=None, init=False)

    async def answer(self, questions: Sequence[Question]) -> list[Reply]:
        """Return one reply per question, in order. Raises the errors of ``Edited.answer``.

        Questions that are canceled before the model gets them are dropped.
        """
        loop = asyncio.get_running_loop()
        replies = [loop.create_future() for _question in questions]
        self._waiting.extend(zip(questions, replies, strict=True))
        if self._running is None or self._running.done():
            self._running = loop.create_task(self._run_rounds())
        return list(await asyncio.gather(*replies))

    async def alone(self, work: Callable[[], T]) -> T:
        """Run ``work`` while no question is under way."""
        return await self.thread.run(work)

    async def _run_rounds(self) -> None:
        while self._waiting:
            # Wait between rounds too: otherwise clients that were just answered form a second group that alternates
            # with the first, each with half the size.
            await asyncio.sleep(self.window)
            answering = Round(batcher=self, loop=asyncio.get_running_loop())
            try:
                await self.thread.run(answering.run)
            except Exception as error:  # noqa: BLE001  a bug in an editor is reported to every waiting client
                answering.fail(error)

    def next(self, count: int, active: Mapping[str, object]) -> dict[str, Waiting]:
        """Remove and return at most ``count`` waiting questions, by their ids, in the model's thread.

        A second question with the same id, and therefore seed, waits until the first one is answered.
        """
        found: dict[str, Waiting] = {}
        for _ in range(len(self._waiting)):
            if len(found) >= count:
                break
            one = self._waiting.popleft()
            name = one[0].id
            if name in found or name in active:
                self._waiting.append(one)
            elif not one[1].cancelled():
                found[name] = one
        return found


@define
class Round:
    """Questions that are answered together, with those that join them. It runs in the model's thread."""

    batcher: Batcher
    loop: asyncio.AbstractEventLoop
    _active: dict[str, Waiting] = field(factory=dict, init=False)

    def run(self) -> None:
        """Answer questions until none is left. Raises PluginBroken if the number of replies differs."""
        edited = self.batcher.edited
        if isinstance(edited, SupportsConcurrentSolve):
            solve, model = edited.solve, self.batcher.model
            self.batcher.engine.keep_answering(
                lambda one: fitted(one, solve(one), model), self._exchange, self._canceled
            )
            return
        questions = self._exchange({})
        replies = edited.answer(questions) if questions else ()
        if len(replies) != len(questions):
            raise PluginBroken(f"the editor returned {len(replies)} replies to {len(questions)} questions")
        self._reply({question.id: reply for question, reply in zip(questions, replies, strict=True)})

    def fail(self, error: Exception) -> None:
        """Report an error to every client whose question is under way. If there is none, to those that wait."""
        for _question, waiting in (self._active or self.batcher.next(self.batcher.most, {})).values():
            _set(waiting, error)

    def _canceled(self) -> list[str]:
        """Return the questions under way whose clients have disconnected."""
        return [name for name, (_question, waiting) in self._active.items() if waiting.cancelled()]

    def _exchange(self, replies: Mapping[str, Reply]) -> Sequence[EditorRequest]:
        """Send replies to their clients, and return the questions that join."""
        self._reply(replies)
        batcher = self.batcher
        if batcher.thread.awaited:
            return ()
        new = batcher.next(batcher.most - len(self._active), self._active)
        self._active |= new
        batcher.batches += bool(new)
        if not new:
            return ()
        own = tuple(batcher.own_edits())
        return [evolve(question, own=own) for question, _waiting in new.values()]

    def _reply(self, replies: Mapping[str, Reply]) -> None:
        self.batcher.questions += len(replies)
        for name, reply in replies.items():
            _question, waiting = self._active.pop(name)
            if isinstance(reply, Failure):
                self.batcher.thread.check(reply.error)
            self.loop.call_soon_threadsafe(_set, waiting, reply)


def _set(waiting: asyncio.Future[Reply], result: Reply | Exception) -> None:
    if waiting.done():  # its client has disconnected
        return
    if isinstance(result, Exception):
        waiting.set_exception(result)
    else:
        waiting.set_result(result)
