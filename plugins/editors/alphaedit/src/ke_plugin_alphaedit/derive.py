"""AlphaEdit's hyperparameters: published where there is a publication, else derived.

Both of its own depend on the scale of a model's keys, unlike MEMIT's lambda: a threshold on eigenvalues of
C = E[k k^T], and a ridge against |P k|^2. So for a model without published values neither number carries over, and both
follow from the spectrum of C once it is known (``nullspace.py``): None stands for that.
"""

from __future__ import annotations

from collections.abc import Mapping

from ke_core.plugin import SPREAD, ModelFacts, Published, Setting, settle, spread_settings
from ke_plugin_alphaedit import AlphaEditConfig

THRESHOLD, L2 = 2e-2, 10.0
SOFTER = {"qwen2": 1.0}
"""L2 in EasyEdit's configuration of that family."""


def derive(config: AlphaEditConfig, facts: ModelFacts) -> Mapping[str, Setting]:
    """Every hyperparameter that depends on the model, with the reason for its value."""
    known = SPREAD.get(facts.shape.key)
    values = {"nullspace_threshold": THRESHOLD, "l2": SOFTER.get(facts.shape.family, L2)}
    own = {
        "nullspace_threshold": Setting(None, "each layer's own: the mean eigenvalue of C"),
        "l2": Setting(
            None, "each layer's own: the mean of |P k|^2 over the corpus, which moves a typical key half way"
        ),
    }
    return spread_settings(config, facts) | settle(config, known and Published(known.source, values), own)
