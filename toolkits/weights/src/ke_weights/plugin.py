"""The module that authors of weight editors and adaptors import from. Importing it imports torch.

Such an editor annotates ``session: Session[OpenModel]``. A weight editor changes parameters with ``patch``, an adaptor
the output of a layer with ``adapt``. Both are undone when the context ends::

    with session.model.patch() as weights:
        weights.add("model.layers.4.mlp.down_proj.weight", LowRank(left=u, right=v))
    with session.model.adapt("model.layers.4.mlp.down_proj", forward, state) as adaptor:
        ...
"""

from __future__ import annotations

from ke_core.app import read_edits
from ke_core.plugin import uninterruptible_context
from ke_plugin_hf.adaptors import Adaptor
from ke_plugin_hf.decoding.float64 import double, home
from ke_plugin_hf.guard import (
    NOT_QUANTIZED,
    Delta,
    Dense,
    LowRank,
    Patch,
    map_orientation,
    quantized,
    stored_as,
    swapped,
    whole_instead,
)
from ke_plugin_hf.layer_calls import LayerCall, LayerForward, prompt_lengths
from ke_plugin_hf.model import HFModel as OpenModel
from ke_weights.answer_states import AnswerStates
from ke_weights.corpus import read_corpus
from ke_weights.covariance import CovarianceCache, CovarianceSettings, KeyCovariance
from ke_weights.edit_change import EditChange, edit_change, restored_on_error
from ke_weights.edit_targets import EditTargets
from ke_weights.facts import model_facts
from ke_weights.gradients import hooked, layer_gradients, stacked
from ke_weights.hooks import Hooks, default_dtype, forward, frozen_module
from ke_weights.keys import (
    KeyRows,
    average_keys,
    bare_keys,
    bare_values,
    mlp_states,
    module_outputs,
    project,
    row_keys,
    subject_states,
)
from ke_weights.live_adapters import LiveAdapters, LiveSettings, open_live_adapters
from ke_weights.locate import LocateContext, LocateContextCache
from ke_weights.locate_editor import EditInProgress, LocateEditor, RankOneEditor
from ke_weights.long_answers import BlockEditor, LongAnswerEditor, LongAnswers
from ke_weights.modules import Layer, ModuleMap, find_parts, module_map
from ke_weights.named_maps import named_maps
from ke_weights.nullspace import NullSpace, null_space
from ke_weights.open_models import OpenModels
from ke_weights.optimize import TargetSettings
from ke_weights.rewrites import Rewrite, as_rewrites, rewrite, unsupported_edits
from ke_weights.ridge import RidgeShift
from ke_weights.saved_edits import SavedEdit, opened_edit, read_saved_edit, recorded_model_choice
from ke_weights.scored_tokens import ScoredTokens, require_finite, scored_tokens
from ke_weights.seeds import derived_seed
from ke_weights.solve import cholesky, covariance_weighted, ridge_update
from ke_weights.spread import dense, frobenius, site_states, spread_over_layers, summed, write
from ke_weights.state_files import AS_SAVED, load_state, save_state
from ke_weights.stateful_editor import StatefulEditor
from ke_weights.subject import SubjectTokens, answer_ids, edit_room, encode, end_of_sequence, padded, target_ids
from ke_weights.tail import Tail, open_tail
from ke_weights.templates import context_templates
from ke_weights.training_rows import TrainingRows, training_rows
from ke_weights.wrapping import EditState, UpdateWrapper

__all__ = [
    "AS_SAVED", "NOT_QUANTIZED", "Adaptor", "AnswerStates", "BlockEditor", "CovarianceCache", "CovarianceSettings",
    "Delta", "Dense", "EditChange", "EditInProgress", "EditState", "EditTargets", "Hooks", "KeyCovariance", "KeyRows",
    "Layer", "LayerCall", "LayerForward", "LiveAdapters", "LiveSettings", "LocateContext", "LocateContextCache",
    "LocateEditor", "LongAnswerEditor", "LongAnswers", "LowRank", "ModuleMap", "NullSpace", "OpenModel", "OpenModels",
    "Patch", "RankOneEditor", "Rewrite", "RidgeShift", "SavedEdit", "ScoredTokens", "StatefulEditor", "SubjectTokens",
    "Tail", "TargetSettings", "TrainingRows", "UpdateWrapper", "answer_ids", "as_rewrites", "average_keys", "bare_keys",
    "bare_values", "cholesky", "context_templates", "covariance_weighted", "default_dtype", "dense", "derived_seed",
    "double", "edit_change", "edit_room", "encode", "end_of_sequence", "find_parts", "forward", "frobenius",
    "frozen_module", "home", "hooked", "layer_gradients", "load_state", "map_orientation", "mlp_states", "model_facts",
    "module_map", "module_outputs", "named_maps", "null_space", "open_live_adapters", "open_tail", "opened_edit",
    "padded", "project", "prompt_lengths", "quantized", "read_corpus", "read_edits", "read_saved_edit",
    "recorded_model_choice", "require_finite", "restored_on_error", "rewrite", "ridge_update", "row_keys", "save_state",
    "scored_tokens", "site_states", "spread_over_layers", "stacked", "stored_as", "subject_states", "summed", "swapped",
    "target_ids", "training_rows", "uninterruptible_context", "unsupported_edits", "whole_instead", "write",
]  # fmt: skip
