"""Send the metrics' own requests to every model: to the unedited model, and once to each edited model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter

from attrs import evolve

from ke_core.runner.resolve import ResolvedComponent
from ke_core.runner.run import Measure
from ke_core.spec.codec import digest, to_json
from ke_core.spec.errors import PluginBroken
from ke_core.spec.queries import Phase
from ke_core.spec.records import Probed
from ke_core.spec.requests import Ask, Likelihood
from ke_core.spec.results import Failure, Reply
from ke_core.spec.runspec import DataRef
from ke_core.spec.specs import MetricSpec

Answering = Callable[[Sequence[Ask]], Sequence[Reply]]
"""How a model is asked: it returns one reply for each request, in order."""


def asks_of(chosen: ResolvedComponent[MetricSpec]) -> tuple[Ask, ...]:
    """Return the metric's requests to every model. Raises PluginBroken if two of them have the same query."""
    asks = chosen.spec.asks(chosen.config)
    names = [ask.query for ask in asks]
    if len(set(names)) < len(names) or "" in names:
        raise PluginBroken(
            f"metric {chosen.spec.name} has asks without a query of their own",
            hint=f"tell the author of {chosen.spec.name}",
        )
    return asks


def asked_by(chosen: ResolvedComponent[MetricSpec]) -> DataRef | None:
    """Return the specification of these requests: the metric, and the SHA-256 of the requests.

    The metric's code is not part of it: it also computes scores, and a run may be scored with newer code.
    """
    asks = asks_of(chosen)
    component = evolve(chosen.component, code="")
    return DataRef(component=component, sha256=digest([_content(ask) for ask in asks])) if asks else None


def probe(measure: Measure, answer: Answering, *, batch: str, phase: Phase) -> Probed:
    """Send the metric's requests to one model."""
    name = measure.component.name
    asks = [_named(ask, f"{batch}/{phase}/{name}", name) for ask in measure.asks]
    started = perf_counter()
    replies = answer(asks)
    return Probed(
        batch=batch,
        metric=name,
        phase=phase,
        replies={ask.query: reply for ask, reply in zip(asks, replies, strict=True)},
        seconds=round(perf_counter() - started, 4),
    )


def failed(measures: Sequence[Measure], batch: str, failure: Failure) -> list[Probed]:
    """Return the records for a model that could not be edited."""
    return [
        Probed(
            batch=batch,
            metric=measure.component.name,
            phase="after",
            replies={ask.query: failure for ask in measure.asks},
        )
        for measure in measures
    ]


def _named(ask: Ask, prefix: str, metric: str) -> Ask:
    return evolve(ask, id=f"{prefix}/{ask.query}", case=metric)


def _content(ask: Ask) -> object:
    kind = "likelihood" if isinstance(ask, Likelihood) else "question"
    return {"kind": kind, **to_json(ask), "hidden": sorted(ask.hidden)}
