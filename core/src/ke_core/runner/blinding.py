"""Give requests to an editor's code without revealing their answers, and return its replies in order.

A method could score with information in a request instead of knowledge. This module removes it:

- Ids become hashes. Their key is the content of the case with its gold answers, so an editor that does not have the
  dataset cannot compute them. Each request has its own ids, so they do not link the questions of one case. Otherwise
  they depend only on the run's seed. The seeds of sampled requests are derived from the ids, so they are the same in a
  resumed run, in another process and with another ``--limit``.
- Continuations are shuffled with the same key.
- A request names its case's own edits only if the editor's specification declares ``uses_own_edits``.

Two questions of a case are never in the same call of ``answer`` if one names the answer to the other (``_turns``).
Within a call, questions are in the order of their hashed ids. Replies return in the order of the real requests.
``session.upcoming`` gives the next edits of a run, but none of its questions.

An edited model that only asks the session's model (``PassthroughModel``) runs no code of an editor. It gets all
requests at once and unchanged.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, TypeVar

from attrs import define, evolve, field, frozen

from ke_core.engine.passthrough import PassthroughModel, asks_only_the_model
from ke_core.engine.running import joined
from ke_core.runner.run import ResolvedRun
from ke_core.spec.codec import canonical, to_json
from ke_core.spec.errors import PluginBroken
from ke_core.spec.protocols import Edited, Material, Session
from ke_core.spec.queries import Case, Query
from ke_core.spec.requests import EditorRequest, Likelihood
from ke_core.spec.results import Failure, Reply, Scored

T = TypeVar("T")
ID_LENGTH = 32
"""Hexadecimal digits of an opaque id: 128 bits."""


@frozen(kw_only=True)
class Blinded:
    """A request as an editor sees it. ``order``: for each of its continuations, the place of the real one."""

    real: EditorRequest
    seen: EditorRequest
    order: tuple[int, ...] = ()

    def restore(self, reply: Reply) -> Reply:
        """Return ``reply`` with log-probabilities in the order of the real continuations."""
        if not (isinstance(reply, Scored) and self.order):
            return reply
        if not len(reply.logprobs) == len(reply.tokens) == len(reply.matches) == len(self.order):
            return Failure(
                error=PluginBroken.__name__,
                message=f"{len(reply.logprobs)} log-probabilities for {len(self.order)} continuations",
            )
        places = sorted(range(len(self.order)), key=self.order.__getitem__)
        return Scored.of(reply.parts[place] for place in places)


class ByOpaqueId(Mapping[str, T]):
    """Gold material whose keys consist of ids (``case``, ``case/query``). It is looked up by the ids of a request."""

    def __init__(self, value: Mapping[str, T], names: Mapping[str, str]) -> None:
        self._value = value
        self._names = names

    def __getitem__(self, key: str) -> T:
        return self._value["/".join(map(self.name, key.split("/")))]

    def __iter__(self) -> Iterator[str]:
        return iter(self._value)

    def __len__(self) -> int:
        return len(self._value)

    def name(self, key: str) -> str:
        """Return the real id of an opaque id of a case or query, and any other text unchanged."""
        return self._names.get(key, key)


@frozen(kw_only=True)
class _Secret:
    """The key of the opaque ids of one case, and the turn in which each of its queries is asked."""

    key: bytes
    turns: Mapping[str, int]


@define
class Blinder:
    """The boundary between a run and the code of its editor.

    ``session``: the run's session as the editor gets it, with gold material that is looked up by opaque ids.
    """

    run: ResolvedRun
    session: Session[Any] = field(init=False)
    _cases: Mapping[str, Case] = field(init=False)
    _secrets: dict[str, _Secret] = field(factory=dict, init=False)
    _names: dict[str, str] = field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        session = self.run.session
        self.session = evolve(session, material=self._by_opaque_id(session.material))
        self._cases = {case.id: case for case in self.run.cases}

    def answer(self, edited: Edited, requests: Sequence[EditorRequest]) -> list[Reply]:
        """Return one reply for each request, in order. Raises PluginBroken if there are more or fewer."""
        if asks_only_the_model(edited, self.session):
            return PassthroughModel(self.session).answer(requests)
        return self.put(requests, lambda some: edited.answer([blinded.seen for blinded in some]))

    def put(
        self, requests: Sequence[EditorRequest], answer: Callable[[Sequence[Blinded]], Sequence[Reply]]
    ) -> list[Reply]:
        """Return the replies of ``answer``, a function that gets blinded requests and is called once for each turn.

        A likelihood request with a prompt for each continuation reaches the editor as one request for each of them.
        """
        parts = [request.parts() if isinstance(request, Likelihood) else (request,) for request in requests]
        replies = iter(self._put([part for some in parts for part in some], answer))
        return [joined(list(islice(replies, len(some)))) for some in parts]

    def _put(
        self, requests: Sequence[EditorRequest], answer: Callable[[Sequence[Blinded]], Sequence[Reply]]
    ) -> list[Reply]:
        replies: dict[int, Reply] = {}
        turns: dict[int, list[tuple[int, Blinded]]] = {}
        for place, request in enumerate(requests):
            turn = self._secret(request.case).turns.get(request.query, 0)
            turns.setdefault(turn, []).append((place, self.blind(request)))
        for _turn, members in sorted(turns.items()):
            members.sort(key=lambda member: member[1].seen.id)
            said = answer([blinded for _place, blinded in members])
            if len(said) != len(members):
                name = self.run.spec.editor.name
                raise PluginBroken(
                    f"{name} returned {len(said)} replies to {len(members)} questions",
                    hint=f"tell the author of {name}",
                )
            for (place, blinded), reply in zip(members, said, strict=True):
                replies[place] = blinded.restore(reply)
        return [replies[place] for place in range(len(requests))]

    def blind(self, request: EditorRequest) -> Blinded:
        """Return the request as the editor sees it."""
        key, spec = self._secret(request.case).key, self.run.spec

        def opaque(label: str) -> str:
            content = f"{spec.seed}/{label}/{request.id}".encode("utf-8", "surrogatepass")
            return hmac.digest(key, content, "sha256").hex()[:ID_LENGTH]

        case, query = opaque("case"), opaque("query")
        if any(isinstance(piece.value, ByOpaqueId) for piece in self.session.material.values()):
            self._names |= {case: request.case, query: request.query}
        seen = evolve(request, id=opaque("id"), case=case, query=query, own=request.own if spec.own_edits else ())
        if not isinstance(seen, Likelihood):
            return Blinded(real=request, seen=seen)
        order = tuple(sorted(range(len(seen.continuations)), key=lambda place: opaque(f"continuation {place}")))
        shuffled = evolve(seen, continuations=tuple(seen.continuations[place] for place in order))
        return Blinded(real=request, seen=shuffled, order=order)

    def _by_opaque_id(self, material: Mapping[str, Material]) -> dict[str, Material]:
        return {
            name: evolve(piece, value=ByOpaqueId(piece.value, self._names))
            if piece.oracle and isinstance(piece.value, Mapping)
            else piece
            for name, piece in material.items()
        }

    def _secret(self, name: str) -> _Secret:
        """Return the secret of the case of that name.

        A metric's own requests have no case and no gold answer; their key is the dataset's checksum.
        """
        if name not in self._secrets:
            case = self._cases.get(name)
            content = canonical([self.run.spec.dataset.sha256, name if case is None else to_json(case)])
            key = hmac.digest(b"ke requests", content.encode("utf-8", "surrogatepass"), "sha256")
            self._secrets[name] = _Secret(key=key, turns={} if case is None else _turns(case))
        return self._secrets[name]


def _turns(case: Case) -> dict[str, int]:
    """Return the turn of each query of ``case`` that is not asked in the first turn.

    Multi-hop questions come first. A single hop names the answer to the hop before it, so hops follow one by one, in
    the order of the path. Queries that are no hop of another question are asked together with the first hop. Queries
    that a metric derived come last, because they may state an answer of the case (a passage, an option).
    """
    asked = {query.id: query for probe in case.probes if not probe.metric for query in probe.queries}.values()
    composed = [query for query in asked if query.hops]
    turns = {query.id: 1 for query in asked if composed and not query.hops}
    for whole in composed:
        for place, hop in enumerate(whole.hops, start=1):
            for query in _same(hop, asked):
                turns[query.id] = max(turns.get(query.id, 1), place)
    last = 1 + max(turns.values(), default=0)
    return turns | {query.id: last for probe in case.probes if probe.metric for query in probe.queries}


def _same(hop: Query, asked: Iterable[Query]) -> Iterator[Query]:
    """Return the single-hop queries that are the same question as ``hop``."""
    return (query for query in asked if not query.hops and (query.id == hop.id or query.texts[0] == hop.texts[0]))
