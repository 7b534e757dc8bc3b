"""How much an edit raises the perplexity of unrelated text, measured by the metric ``drift``."""

from __future__ import annotations

import math
from collections.abc import Mapping

from ke_core.app import Model, installed_catalog, resolve_component
from ke_core.plugin import EditFailed, ModelRecord, Reply

METRIC, RATIO = "drift", "perplexity-ratio"


def passage_replies(model: Model) -> Mapping[str, Reply]:
    """Return the log-probabilities of the passages under the current weights.

    The metric also scores many next words after each passage, for its divergence; they are left out.
    """
    drift = resolve_component(installed_catalog(), "metric", METRIC, {})
    requests = [one for one in drift.spec.requests(drift.config) if len(one.continuations) == 1]
    return {one.query: reply for one, reply in zip(requests, model.replies(requests), strict=True)}


def perplexity_rise(before: Mapping[str, Reply], after: Mapping[str, Reply]) -> float:
    """Return the rise of the perplexity as a fraction. Raises EditFailed if it has no value."""
    metric = resolve_component(installed_catalog(), "metric", METRIC, {}).built
    values = metric.model_values(ModelRecord(batch="", replies=after, unedited=before))
    found = next((one for one in values if one.aspect == RATIO), None)
    if found is None or found.value is None or not math.isfinite(found.value):
        reason = found.skipped_because or f"it is {found.value}" if found else f"{METRIC} has no {RATIO}"
        raise EditFailed(
            f"the perplexity of unrelated text cannot be compared: {reason}", hint="check the options of the editor"
        )
    return float(found.value) - 1
