"""Judges by name: chosen, built, and given the model they ask, if they ask one."""

from __future__ import annotations

from typing import Any

from attrs import evolve, field, frozen

from ke_core.data.records import Usage
from ke_core.data.runspec import Component
from ke_core.errors import BadConfig
from ke_core.plugins.catalog import Catalog
from ke_core.protocols import Judge, Progress, Session
from ke_core.run.components import Options, ResolvedComponent, resolve_component
from ke_core.run.session import ModelChoice, open_session
from ke_core.run.spending import FREE, Prices, since_last
from ke_core.specs import JudgeSpec


@frozen(kw_only=True)
class JudgeModel:
    """The model that a judge asks, where loading it says how far it is, and what a server takes for its tokens.

    ``spent`` grows by what the server is asked, as it goes on record.
    """

    model: ModelChoice
    progress: Progress
    prices: Prices = FREE
    spent: list[Usage] = field(factory=list)

    def since_last(self, model: object) -> tuple[Usage, ...]:
        """What ``model``'s server was asked since the last time."""
        new = since_last(model, self.prices)
        self.spent.extend(new)
        return new


@frozen(kw_only=True)
class ChosenJudge(ResolvedComponent):
    """A judge with its options."""

    spec: JudgeSpec


@frozen(kw_only=True)
class OpenJudge:
    """A judge that is ready: what stands for it, its model included, and the session it asks in."""

    judge: Judge
    component: Component
    session: Session[Any] | None = None


def resolve_judge(catalog: Catalog, name: str, options: Options) -> ChosenJudge:
    """The judge of that name. Raises UnknownComponent, BadConfig."""
    chosen = resolve_component(catalog, "judge", name, options)
    assert isinstance(chosen.spec, JudgeSpec)
    return ChosenJudge(spec=chosen.spec, config=chosen.config, component=chosen.component)


def metrics_of(catalog: Catalog, name: str) -> tuple[str, ...]:
    """The metrics that read what that judge finds beside verdicts; none of a judge that is not installed."""
    offer: Any = catalog.offers["judge"].get(name)
    return () if offer is None else offer.spec.metrics


def open_judge(chosen: ChosenJudge, catalog: Catalog, asking: JudgeModel | None) -> OpenJudge:
    """Build it, and load its model.

    Never without the model it needs, and never by another rule in its stead (V15): raises BadConfig where a model is
    missing, or given to a judge that asks none.
    """
    name = chosen.spec.name
    if not chosen.spec.needs_model:
        if asking is not None:
            raise BadConfig(f"judge {name} asks no model", hint="leave --judge-model out")
        return OpenJudge(judge=chosen.build(), component=chosen.component)
    if asking is None:
        raise BadConfig(f"judge {name} needs a model to ask", hint="say which with --judge-model [SOURCE:]ID")
    judge = chosen.build()
    model = asking.model.load(catalog, asking.progress)
    return OpenJudge(
        judge=judge,
        component=evolve(chosen.component, model=asking.model.describe(catalog, model)),
        session=open_session(model, catalog=catalog, seed=0, progress=asking.progress, material={}),
    )
