"""How much an edit raises the perplexity of unrelated text, measured on the text of the metric ``drift``."""

from __future__ import annotations

from collections.abc import Mapping

from ke_core.app import Model
from ke_core.plugin import Reply
from ke_plugin_drift.metric import nll
from ke_plugin_drift.passages import OWN, PASSAGE, read


def passage_replies(model: Model) -> Mapping[str, Reply]:
    """Return the log-probabilities of the passages under the current weights."""
    asks = [one for one in read(OWN) if one.id.startswith(PASSAGE)]
    return {one.id: reply for one, reply in zip(asks, model.replies(asks), strict=True)}


def log_rise(before: Mapping[str, Reply], after: Mapping[str, Reply]) -> float:
    """Return D = ln(perplexity after / perplexity before)."""
    return nll(after) - nll(before)
