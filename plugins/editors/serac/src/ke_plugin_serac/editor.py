"""SERAC as an editor: edits as text, and two models that answer (Mitchell et al. 2022, section 3).

::

    z*, s    = arg max and max of s(z, x) over the edits z          the scope classifier
    generate : s > 1/2: counterfactual model on [z*, x], else the base model on x
    score    : p(y) = (1 - s) p_base(y | x) + s p_small(y | z*, x)      if the small model fails and s <= 1/2: p_base

x is the benchmark's own prompt; the counterfactual model gets it without worked examples (``with_edit``). Without an
edit, every answer is exactly that of the base model.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from attrs import evolve, frozen

from ke_core.plugin import (
    Details,
    Edit,
    Edited,
    EditorRequest,
    Engine,
    Failure,
    Hit,
    KEWarning,
    Likelihood,
    Question,
    Reply,
    Scored,
    Session,
    put,
)
from ke_memory.plugin import MemoryEditor, QuestionContext, lookup_step, sentence, wording
from ke_plugin_serac import SeracConfig
from ke_plugin_serac.scope import WeightedScopeMemory, scope_key
from ke_plugin_serac.trained import TrainedSerac, load_trained

HALF = 0.5


def with_edit(request: EditorRequest, statement: str) -> EditorRequest:
    """Return ``request`` for the counterfactual model: the edit, then the prompt from the line of the question on.

    Worked examples before that line are only kept, before the edit, if they show a marker that the parser needs.
    """
    prompt = request.prompt if isinstance(request, Likelihood) else request.prompt.text
    question = max(prompt.rfind(wording(request)), 0)
    start = prompt.rfind("\n", 0, question) + 1
    examples = prompt[:start] if isinstance(request, Question) and request.prompt.parse.after else ""
    text = f"{examples}{sentence(statement)}\n{prompt[start:]}"
    if isinstance(request, Likelihood):
        return evolve(request, prompt=text)
    return evolve(request, prompt=evolve(request.prompt, text=text))


def mixed(s: float, base: Scored, small: Scored) -> Scored:
    """Return the scores of continuations y under (1 - s) p_base(y) + s p_small(y).

    Tokens, and those that greedy decoding would write, are counted by the model that would generate.
    """
    with np.errstate(divide="ignore"):
        low, high = np.log1p(-s), np.log(s)
    logprobs = np.logaddexp(low + np.array(base.logprobs), high + np.array(small.logprobs))
    chosen = small if s > HALF else base
    return Scored(logprobs=tuple(logprobs.tolist()), tokens=chosen.tokens, matches=chosen.matches)


@frozen(kw_only=True)
class Route:
    """A request with its nearest edit, if there is one, and the weight of the counterfactual model in its reply.

    The weight is s for scores. A generated text comes from one model, so its weight is 0 or 1.
    """

    request: EditorRequest
    hits: tuple[Hit, ...]
    weight: float

    @classmethod
    def of(cls, request: EditorRequest, hits: tuple[Hit, ...]) -> Route:
        """Create it for a request and the edit with the highest s."""
        s = hits[0].score if hits else 0.0
        return cls(request=request, hits=hits, weight=s if isinstance(request, Likelihood) else float(s > HALF))

    def base_only(self, base: Reply | None, small: Reply | None) -> bool:
        """Return whether the base model's scores count without the failed counterfactual model: out of scope.

        False for a failure that another attempt may fix.
        """
        failed = isinstance(small, Failure) and not small.passing
        return failed and isinstance(base, Scored) and self.weight <= HALF

    def reply(self, base: Reply | None, small: Reply | None) -> Reply:
        """Join the replies of both models, of which one may be missing, and record an edit in scope."""
        if isinstance(base, Scored) and isinstance(small, Scored):
            return mixed(self.weight, base, small)
        if base is not None and self.base_only(base, small):
            return base
        both = [reply for reply in (base, small) if reply is not None]
        chosen = next((reply for reply in both if isinstance(reply, Failure)), both[0])
        step = lookup_step(wording(self.request), self.hits if self.weight > HALF else (), kind="retrieved")
        return QuestionContext(facts=(), steps=(step,)).with_steps(chosen)


class SeracModel:
    """The session's model and the counterfactual model, with the active edits."""

    def __init__(self, session: Session[Any], edits: Sequence[Edit], trained: TrainedSerac) -> None:
        self.session, self.trained = session, trained
        self.memory = WeightedScopeMemory(trained.encoder, trained.weights)
        self.statements: dict[str, str] = {}
        self.change(add=edits)

    @property
    def details(self) -> Details:
        """The number of edits, and the origin of both networks."""
        return {"facts": len(self.memory), "encoder": self.memory.encoder.id, "trained": dict(self.trained.record)}

    def change(self, *, add: Sequence[Edit] = (), remove: Sequence[str] = ()) -> None:
        """Remove edits and append others."""
        self.memory.change(add=((edit.id, scope_key(edit)) for edit in add), remove=remove)
        for name in remove:
            self.statements.pop(name, None)
        for edit in add:
            self.statements.setdefault(edit.id, edit.statement)

    def answer(self, requests: Sequence[EditorRequest]) -> list[Reply]:
        """Return one reply per request, in order. Each model gets all of its requests together."""
        found = self.memory.search(
            [wording(request) for request in requests], k=1, hidden=[request.hidden for request in requests]
        )
        routes = [Route.of(request, hits) for request, hits in zip(requests, found, strict=True)]
        base = _replies(self.session.engine, [route.request for route in routes if route.weight < 1])
        small = _replies(
            self.trained.small.engine,
            [with_edit(route.request, self.statements[route.hits[0].id]) for route in routes if route.weight > 0],
        )
        both = [(route, base.get(route.request.id), small.get(route.request.id)) for route in routes]
        _warn(other for route, own, other in both if route.base_only(own, other))
        return [route.reply(own, other) for route, own, other in both]


class Serac(MemoryEditor):
    """Editor whose edited model answers questions in scope of an edit with a counterfactual model."""

    def __init__(self, config: SeracConfig) -> None:
        self.config = config
        self._trained: TrainedSerac | None = None

    def edited_model(self, session: Session[Any], edits: Sequence[Edit]) -> Edited:
        """Return the edited model. Raises BadConfig without trained networks."""
        return SeracModel(session, edits, self._networks(session))

    def dependencies(self, session: Session[Any]) -> Mapping[str, str]:
        """Return the digests of the encoder and of the trained networks."""
        return {**super().dependencies(session), "networks": self._networks(session).digest}

    def _networks(self, session: Session[Any]) -> TrainedSerac:
        """Return the trained networks, loaded once for all groups of edits."""
        if self._trained is None:
            self._trained = load_trained(session, self.config)
        return self._trained


def _replies(engine: Engine, requests: Sequence[EditorRequest]) -> dict[str, Reply]:
    """Return the reply of the engine's model to each prompt, by the id of the request."""
    return dict(zip([request.id for request in requests], engine.answer(put, requests), strict=True))


def _warn(failed: Iterable[Reply | None]) -> None:
    """Warn of scores that lack the part of the counterfactual model, once for each error."""
    for error, count in Counter(reply.error for reply in failed if isinstance(reply, Failure)).items():
        warnings.warn(
            f"serac: {count} {'score is' if count == 1 else 'scores are'} of the base model only (s <= {HALF}): the "
            f"counterfactual model failed with {error}",
            KEWarning,
            stacklevel=3,
        )
