"""ENCORE (Gupta et al. 2025).

::

    dW = R K^T (lambda C + lambda_n I + K K^T)^-1
    optimize z until the target was the most probable text after every sampled context, in ``hits`` evaluations

ENCORE also adds the keys of earlier edits: ``memit+key-history+encore`` with ``-o key-history.keys=solved``. The
released code counts a target of several tokens as a hit only if five of its tokens are correct; here all must be.
"""

from __future__ import annotations

from attrs import evolve

from ke_plugin_encore import EncoreConfig
from ke_weights.plugin import EditInProgress, TargetSettings, UpdateWrapper


class Encore(UpdateWrapper):
    """Wrapper that constrains the norm of updates and stops targets early."""

    def __init__(self, config: EncoreConfig) -> None:
        self.config = config

    @property
    def changes_normal_matrix(self) -> bool:
        """Whether lambda_n is not 0."""
        return self.config.norm != 0

    def target_settings(self, work: EditInProgress, settings: TargetSettings) -> TargetSettings:
        """Return the settings with the early stop."""
        return evolve(settings, stop_hits=work.context["encore.hits"])

    def ridge(self, work: EditInProgress) -> float:
        """Return lambda_n."""
        return float(work.context["encore.norm"])
