"""Serve the look-ups of procedures: the texts of one encoder, or the searches of one memory, in one call."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from itertools import accumulate
from typing import Any

from ke_core.engine.running import NOT_AN_ANSWER, Running
from ke_core.spec.requests import Embed, Nearest


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
