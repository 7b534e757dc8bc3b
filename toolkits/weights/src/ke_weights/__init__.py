"""Toolkit for authors of weight editors. This module is light; ``ke_weights.plugin`` holds what needs torch.

Reading order of the modules behind it: ``modules`` (where a decoder's parts are), ``subject`` and ``rewrites`` (what an
edit is to a decoder), ``templates`` (random left contexts), ``tail`` and ``optimize`` (the target z), ``keys``,
``moments`` and ``solve`` (the update). Everything is written on W as a map from keys to values, [d, f].
"""

from ke_weights.hyperparameters import (
    MultiLayerConfig,
    RankOneConfig,
    SingleLayerConfig,
    as_details,
    derived,
    multi_layer_settings,
    not_negative,
    positive,
    resolve_hyperparameters,
    single_layer_settings,
    template_length,
)
from ke_weights.published import PUBLISHED_MULTI_LAYER, Published
from ke_weights.trained import Checkpoint, checkpoint_digest, read_checkpoint, trained_folder

__all__ = [
    "PUBLISHED_MULTI_LAYER",
    "Checkpoint",
    "MultiLayerConfig",
    "Published",
    "RankOneConfig",
    "SingleLayerConfig",
    "as_details",
    "checkpoint_digest",
    "derived",
    "multi_layer_settings",
    "not_negative",
    "positive",
    "read_checkpoint",
    "resolve_hyperparameters",
    "single_layer_settings",
    "template_length",
    "trained_folder",
]  # fmt: skip
