"""Serve the requests of procedures: look-ups at once, and those to the model in batches that further ones join."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from itertools import accumulate
from itertools import count as counter
from typing import Any

from attrs import Factory, define, field

from ke_core.engine.cache import CompletionCache, key_of
from ke_core.engine.running import NOT_AN_ANSWER, Running, call_cost, joined
from ke_core.spec.errors import ContentRefused, PluginBroken
from ke_core.spec.protocols import (
    Completed,
    ContinuousModel,
    LanguageModel,
    NextRequests,
    Progress,
    RemoteModel,
    ReportsProgress,
    SupportsCancel,
)
from ke_core.spec.requests import Embed, Generate, Nearest, Score
from ke_core.spec.results import Cost

SLICE = 512
"""Requests that the model gets at once, besides those that follow from their results."""
REQUESTS = "model requests"
"""Label of the progress: the requests to the model that answers need."""


@define(eq=False)
class _Pending:
    """A procedure, the parts of its request, and the result of each part: None until it arrives."""

    running: Running[Any]
    parts: Sequence[Generate | Score]
    results: list[Any] = field(init=False, default=Factory(lambda self: [None] * len(self.parts), takes_self=True))

    def take(self, place: int, result: object) -> bool:
        """Set the result of a part, and return whether the procedure went on, because it was the last one."""
        self.results[place] = result
        if self.running.done or None in self.results:
            return False
        self.running.resume(result if len(self.parts) == 1 else joined(self.results))
        return True


@define(eq=False, kw_only=True)
class ModelRequests:
    """The requests of procedures to ``model``. Equal requests are sent once, and never if ``cache`` has the result.

    ``joined`` returns procedures that were started since its last call. It is called after procedures went on, and
    while the model works. ``count`` and ``hits`` count the requests, and those answered by the cache. ``sent`` is the
    cost of the requests that were sent.
    """

    model: LanguageModel
    cache: CompletionCache | None
    progress: Progress | None
    joined: Callable[[], Sequence[Running[Any]]]
    count: int = field(default=0, init=False)
    hits: int = field(default=0, init=False)
    sent: Cost = field(factory=Cost, init=False)
    _waiting: dict[str, list[tuple[_Pending, int]]] = field(factory=dict, init=False)
    _sent: dict[int, str] = field(factory=dict, init=False)  # the keys of the requests under way, by position
    _places: Iterator[int] = field(factory=counter, init=False)
    _total: int = field(default=0, init=False)
    _shown: int = field(default=0, init=False)
    _failed: bool = field(default=False, init=False)  # an error ended ``_following``
    _remote: bool = field(init=False)  # isinstance reads the properties of a protocol, and a digest takes a while

    def serve(self) -> None:
        """Serve procedures until all ended. Raises interrupts, and errors that belong to no single request."""
        self._remote = isinstance(self.model, RemoteModel)
        while running := self.joined():
            ready = list(self._admit(retrieve(running)).items())
            while ready:
                some, ready = dict(ready[:SLICE]), ready[SLICE:]
                self._sent = dict(enumerate(some))
                self._places = counter(len(some))
                self._show()
                ready += self._follow(self._unanswered(list(some.values()))).items()

    def _unanswered(self, requests: Sequence[Generate | Score]) -> dict[str, Completed]:
        """Let the model complete ``requests`` and what follows. Return an error for each that it did not answer."""
        error: Exception = PluginBroken(f"{self.model.id} has not answered every request")
        complete = self.model.complete if isinstance(self.model, ContinuousModel) else self._in_turns
        if isinstance(self.model, ReportsProgress):
            before = self._total - len(self._waiting)
            self.model.on_progress = lambda finished: self._show(before + finished)
        if isinstance(self.model, SupportsCancel):
            self.model.unneeded = self._unneeded
        try:
            complete(requests, self._following)
        except Exception as raised:
            if self._failed or self._remote or isinstance(raised, NOT_AN_ANSWER):
                raise
            error = raised
        finally:
            if isinstance(self.model, SupportsCancel):
                self.model.unneeded = None
        return dict.fromkeys(self._sent.values(), error)

    def _unneeded(self) -> list[int]:
        """Return the positions of requests whose procedures were all canceled."""
        return [place for place, key in self._sent.items() if all(one.running.done for one, _ in self._waiting[key])]

    def _following(self, results: Mapping[int, Completed], ended: bool) -> list[Generate | Score]:  # noqa: FBT001
        """Resume the procedures that wait for these results. Return the requests that follow (``NextRequests``)."""
        found = {self._sent[place]: result for place, result in results.items()}
        if ended:
            self._save(found)
            return []
        self._failed = True
        new = self._follow(found)
        self._failed = False
        for place in results:
            del self._sent[place]
        self._sent |= {next(self._places): key for key in new}
        return list(new.values())

    def _follow(self, found: Mapping[str, Completed]) -> dict[str, Generate | Score]:
        self._save(found)
        resumed = []
        for key, result in found.items():
            self.sent += call_cost(result)
            waiting = self._waiting.pop(key)
            resumed += [pending.running for pending, place in waiting if pending.take(place, result)]
        new = self._admit(retrieve([*resumed, *self.joined()]))
        self._show()
        return new

    def _save(self, found: Mapping[str, Completed]) -> None:
        """Cache results. A refusal that was charged is cached too, because another request would be charged again."""
        if self.cache is not None and found:
            self.cache.put({
                key: result for key, result in found.items()
                if not isinstance(result, Exception) or (isinstance(result, ContentRefused) and result.charged)
            })  # fmt: skip

    def _admit(self, running: Sequence[Running[Any]]) -> dict[str, Generate | Score]:
        """Return the requests that must be sent, by their keys. Procedures go on with results of the cache."""
        new: dict[str, Generate | Score] = {}
        while running:
            model = self.model.digest  # read each time: an edit may have changed it
            asked = [
                (key_of(model, part), part, pending, place)
                for pending in (_Pending(each, self._parts(each.request)) for each in running)
                for place, part in enumerate(pending.parts)
            ]
            known = {} if self.cache is None else self.cache.get({key for key, *_rest in asked})
            self.count, self.hits = self.count + len(asked), self.hits + sum(key in known for key, *_rest in asked)
            resumed = []
            for key, part, pending, place in asked:
                if key in known:
                    if pending.take(place, known[key]):
                        resumed.append(pending.running)
                elif key in self._waiting:
                    self._waiting[key].append((pending, place))
                else:
                    self._waiting[key], new[key] = [(pending, place)], part
            running = retrieve(resumed)
        self._total += len(new)
        return new

    def _parts(self, request: Any) -> tuple[Generate | Score, ...]:
        """Split scores for a server: one request per continuation, because each is charged and cached separately."""
        if isinstance(request, Score) and self._remote:
            return tuple(Score(prompt=prompt, continuations=(text,)) for prompt, text in request.pairs)
        return (request,)

    def _in_turns(self, requests: Sequence[Generate | Score], following: NextRequests) -> None:
        """Complete all requests before those that follow, with a model that cannot do better."""
        first = 0
        while requests:
            found: dict[int, Completed] = {}
            for kind, method in ((Generate, "generate"), (Score, "score")):
                some = {place: one for place, one in enumerate(requests[:SLICE], first) if isinstance(one, kind)}
                if some:
                    found |= zip(some, guarded(getattr(self.model, method), list(some.values())), strict=True)
            first += len(found)
            requests = [*requests[SLICE:], *following(found, False)]  # noqa: FBT003  as above

    def _show(self, finished: int = 0) -> None:
        """Show how many of the requests so far are finished, at least those that were answered."""
        self._shown = max(self._shown, finished, self._total - len(self._waiting))
        if self.progress is not None:
            self.progress.advance(REQUESTS, self._shown, self._total)


def retrieve(some: Sequence[Running[Any]]) -> list[Running[Any]]:
    """Serve look-ups until no procedure waits for one. Return those that wait for the model.

    Look-ups come first: the procedures that they unblock need the model next, so its batches are as large as possible.
    """
    while asking := [each for each in some if isinstance(each.request, Embed | Nearest)]:
        groups: dict[Hashable, list[Running[Any]]] = {}
        for each in asking:
            groups.setdefault(_source(each.request), []).append(each)
        for group in groups.values():
            for each, found in zip(group, guarded(_look_up, [each.request for each in group]), strict=True):
                each.resume(found)
    return [each for each in some if not each.done]


def _source(request: Any) -> Hashable:
    return id(request.encoder) if isinstance(request, Embed) else (id(request.memory), request.k)


def _look_up(requests: Sequence[Any]) -> Sequence[Any]:
    """Return the result of each request: the rows of its texts, or the hits of its search."""
    first = requests[0]
    if isinstance(first, Nearest):
        return first.memory.search([one.text for one in requests], k=first.k, hidden=[one.hidden for one in requests])
    vectors = first.encoder.embed([text for one in requests for text in one.texts])
    ends = accumulate(len(one.texts) for one in requests)
    return [vectors[end - len(one.texts) : end] for one, end in zip(requests, ends, strict=True)]


def guarded(call: Callable[[Any], Sequence[Any]], requests: Sequence[Any]) -> Sequence[Any]:
    """Return what ``call`` returns. If it raises, each of its requests fails."""
    try:
        return call(requests)
    except NOT_AN_ANSWER:
        raise
    except Exception as error:  # noqa: BLE001  raised inside each procedure: a dead server, an error of a method's memory
        return [error] * len(requests)
