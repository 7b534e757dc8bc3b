"""Toolkit for authors of weight editors. This module imports quickly; ``ke_weights.plugin`` has what needs torch.

Reading order of the modules: ``modules`` (a decoder's parts), ``subject`` and ``rewrites`` (an edit as token ids),
``templates`` (random left contexts), ``tail`` and ``optimize`` (the target z), ``keys``, ``covariance`` and ``solve``
(the update). Equations use W as a map from keys to values, [d, f].
"""

from ke_weights.edit_inputs import EditInputs
from ke_weights.edit_trace import BatchTrace, EditTrace, LayerTrace
from ke_weights.hyperparameters import (
    NULL_SPACE_SETTINGS,
    MultiLayerConfig,
    RankOneConfig,
    SingleLayerConfig,
    as_details,
    corpus_option,
    covariance_tokens,
    derived,
    document_length_option,
    edited_layers,
    multi_layer_settings,
    not_negative,
    positive,
    resolve_hyperparameters,
    single_layer_settings,
    template_length,
)
from ke_weights.long_answer_options import BlockConfig, LongTargetConfig, block_settings
from ke_weights.map_ranges import MapRange
from ke_weights.published import PUBLISHED_LONG_ANSWERS, PUBLISHED_MULTI_LAYER, Published, with_memit_values
from ke_weights.trained import Checkpoint, checkpoint_digest, read_checkpoint, trained_folder
from ke_weights.wrappers import UpdateWrapperSpec

__all__ = [
    "NULL_SPACE_SETTINGS", "PUBLISHED_LONG_ANSWERS", "PUBLISHED_MULTI_LAYER", "BatchTrace", "BlockConfig",
    "Checkpoint", "EditInputs", "EditTrace", "LayerTrace", "LongTargetConfig", "MapRange", "MultiLayerConfig",
    "Published", "RankOneConfig", "SingleLayerConfig", "UpdateWrapperSpec", "as_details", "block_settings",
    "checkpoint_digest", "corpus_option", "covariance_tokens", "derived", "document_length_option", "edited_layers",
    "multi_layer_settings", "not_negative", "positive", "read_checkpoint", "resolve_hyperparameters",
    "single_layer_settings", "template_length", "trained_folder", "with_memit_values",
]  # fmt: skip
