"""Serve the look-ups of procedures: the texts of one encoder, or the searches of one memory, in one call."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar

from ke_core.engine.running import NOT_AN_ANSWER, Running
from ke_core.spec.requests import Embed, Nearest

T = TypeVar("T")


def retrieve(some: Sequence[Running[Any]]) -> list[Running[Any]]:
    """Serve look-ups until no procedure waits for one. Return those that wait for the model.

    Look-ups come first: the procedures that they unblock need the model next, so its batches are as large as possible.
    """
    while any(isinstance(each.request, Embed | Nearest) for each in some):
        for kind, serve in ((Embed, _embed), (Nearest, _nearest)):
            asking = [each for each in some if isinstance(each.request, kind)]
            found = serve([each.request for each in asking])
            for each, result in zip(asking, found, strict=True):
                each.resume(result)
    return [each for each in some if not each.done]


def _embed(requests: Sequence[Embed]) -> list[Any]:
    """Embed all texts of one encoder in one call. Each request gets its rows."""

    def together(group: Sequence[Embed]) -> list[Any]:
        vectors = group[0].encoder.embed([text for request in group for text in request.texts])
        ends, end = [], 0
        for request in group:
            end += len(request.texts)
            ends.append(end)
        return [vectors[end - len(request.texts) : end] for request, end in zip(group, ends, strict=True)]

    return _grouped(requests, lambda request: id(request.encoder), together)


def _nearest(requests: Sequence[Nearest]) -> list[Any]:
    """Search one memory for all requests in one call."""

    def together(group: Sequence[Nearest]) -> list[Any]:
        first = group[0]
        return first.memory.search([r.text for r in group], k=first.k, hidden=[r.hidden for r in group])

    return _grouped(requests, lambda request: (id(request.memory), request.k), together)


def _grouped(
    requests: Sequence[T], key: Callable[[T], Hashable], together: Callable[[Sequence[T]], list[Any]]
) -> list[Any]:
    groups: dict[Hashable, list[int]] = {}
    for place, request in enumerate(requests):
        groups.setdefault(key(request), []).append(place)
    results: list[Any] = [None] * len(requests)
    for places in groups.values():
        _put(results, places, guarded(together, [requests[place] for place in places]))
    return results


def _put(results: list[Any], places: Sequence[int], found: Sequence[Any]) -> None:
    for place, result in zip(places, found, strict=True):
        results[place] = result


def guarded(call: Callable[[Any], Sequence[Any]], requests: Sequence[Any]) -> Sequence[Any]:
    """Return what ``call`` returns. If it raises, each of its requests fails."""
    try:
        return call(requests)
    except NOT_AN_ANSWER:
        raise
    except Exception as error:  # noqa: BLE001  raised inside each procedure: a dead server, an error of a method's memory
        return [error] * len(requests)
