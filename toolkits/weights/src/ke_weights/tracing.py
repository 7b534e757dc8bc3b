"""Trace the facts of a file one by one, save each when it is done, then average them and suggest layers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from attrs import frozen

from ke_core.app import CHOOSE_OTHER_FOLDER, ModelRef
from ke_core.plugin import Artifacts, BadData, BadRun, NeedsWeights, Progress, to_json
from ke_weights.facts import shape_of
from ke_weights.trace.choice import choose
from ke_weights.trace.effects import Effects, effects
from ke_weights.trace.facts import TraceFacts
from ke_weights.trace.folder import TraceFolder, TraceSpec
from ke_weights.trace.settings import FactTrace, TraceSettings
from ke_weights.trace.suggestion import Suggestion, store
from ke_weights.trace.tracer import Tracer

LABEL = "facts traced"


@frozen(kw_only=True)
class Traced:
    """Result of a trace. ``skipped``: number of facts by reason. ``exact``: one pass per intervention.

    ``suggestion``: None if the required curves were not traced.
    """

    folder: TraceFolder
    effects: Effects
    skipped: Mapping[str, int]
    sigma: float
    exact: bool
    suggestion: Suggestion | None


def specify(model: Any, reference: ModelRef, facts: TraceFacts, settings: TraceSettings) -> TraceSpec:
    """Return what to trace. Raises NeedsWeights for a model that is not in this process."""
    if not hasattr(model, "module"):
        raise NeedsWeights(
            f"tracing needs the model's weights, and {model.id} is not in this process",
            hint="use a model that is loaded locally (hf:...)",
        )
    return TraceSpec(
        model=reference,
        attention=str(model.module.config._attn_implementation),  # noqa: SLF001  there is no public name
        facts=facts.name,
        sha256=facts.sha256,
        settings=settings,
    )


def trace(
    model: Any, facts: TraceFacts, folder: TraceFolder, limit: int | None, *, artifacts: Artifacts, progress: Progress
) -> Traced:
    """Trace the first ``limit`` facts that the model knows, or all, except those traced already.

    Raises BadData if the model knows none of them.
    """
    settings = folder.spec.settings
    tracer = Tracer.open(model, settings, [fact.subject for fact in facts.facts])
    found = _all(tracer, facts, folder, limit, progress)
    skipped = Counter(fact.skipped for fact in found if fact.skipped)
    if skipped.total() == len(found):
        raise BadData(
            f"{model.id} knows none of the {len(found)} facts of {facts.name}: {_reasons(skipped)}",
            hint="trace a larger model, or use prompts that it completes correctly",
        )
    averaged = effects(found)
    suggestion = choose(averaged.at_subject, shape_of(tracer.modules))
    if suggestion:
        store(artifacts, folder.spec.model.digest, suggestion)
    traced = Traced(
        folder=folder,
        effects=averaged,
        skipped=skipped,
        sigma=tracer.noise.sigma,
        exact=tracer.exact,
        suggestion=suggestion,
    )
    folder.write(_results(traced))
    return traced


def _all(
    tracer: Tracer, facts: TraceFacts, folder: TraceFolder, limit: int | None, progress: Progress
) -> list[FactTrace]:
    """Return the saved facts and the new ones, up to the last of ``limit`` traced facts."""
    with folder.writing() as append:
        found = list(folder.read())
        _check_order(found, facts, folder.path)
        known = [number for number, fact in enumerate(found, start=1) if not fact.skipped]
        if limit is not None and len(known) >= limit:
            return found[: known[limit - 1]]
        done, total = len(known), limit
        for fact in islice(facts.facts, len(found), None):
            progress.advance(LABEL, *((done, total) if total else (len(found), len(facts.facts))))
            found.append(tracer.trace(fact))
            append(found[-1:])
            done += not found[-1].skipped
            if done == total:
                break
        progress.advance(LABEL, total or len(facts.facts), total or len(facts.facts))
    return found


def _check_order(found: Sequence[FactTrace], facts: TraceFacts, path: Path) -> None:
    if [fact.known_id for fact in found] != [fact.id for fact in facts.facts[: len(found)]]:
        raise BadRun(f"the facts in {path} are not those of {facts.name} in its order", hint=CHOOSE_OTHER_FOLDER)


def _reasons(skipped: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {reason}" for reason, count in sorted(skipped.items(), key=lambda pair: -pair[1]))


def _results(traced: Traced) -> dict[str, Any]:
    """Return the content of ``trace.json`` except the specification."""
    found = traced.effects
    return {
        "sigma": traced.sigma,
        "exact": traced.exact,
        "traced": found.facts,
        "skipped": dict(traced.skipped),
        "high_score": found.high,
        "low_score": found.low,
        "average_total_effect": found.total,
        "average_indirect_effect": {
            curve: {role: to_json(line) | {"best_layer": line.best} for role, line in lines.items()}
            for curve, lines in found.lines.items()
        },
        "suggestion": to_json(traced.suggestion) if traced.suggestion else None,
    }
