"""Facade for editors with a trained hypernetwork, which transforms the gradient of an edit into an update.

Reading order: ``factors`` (inputs and output gradients of an edit), ``network`` (their transformation), ``examples``
(the rows of a training step), ``training`` (optimizer steps, checkpoints), ``editor`` (editing with a checkpoint).
"""

from __future__ import annotations

from ke_weights.hypernetwork.editor import HypernetworkEditor, TrainedNetwork, add_updates, edit_details, place_of
from ke_weights.hypernetwork.examples import EditBatch, ExampleSampler, HypernetworkExample, Wordings, usable_examples
from ke_weights.hypernetwork.factors import GradientFactors, edit_factors, gradient_factors
from ke_weights.hypernetwork.network import (
    PREFIX,
    Hypernetwork,
    LowRankResidual,
    NetworkShape,
    Normalizer,
    ShapeNetwork,
    ignores_constant,
    load_network,
    placed,
    shapes_of,
)
from ke_weights.hypernetwork.recipe import setting_values, with_given
from ke_weights.hypernetwork.training import (
    HypernetworkTrainer,
    HypernetworkTraining,
    NetworkOptimizer,
    StepLosses,
    divergence,
    finite,
)

__all__ = [
    "PREFIX", "EditBatch", "ExampleSampler", "GradientFactors", "Hypernetwork", "HypernetworkEditor",
    "HypernetworkExample", "HypernetworkTrainer", "HypernetworkTraining", "LowRankResidual", "NetworkOptimizer",
    "NetworkShape", "Normalizer", "ShapeNetwork", "StepLosses", "TrainedNetwork", "Wordings", "add_updates",
    "divergence", "edit_details", "edit_factors", "finite", "gradient_factors", "ignores_constant", "load_network",
    "place_of", "placed", "setting_values", "shapes_of", "usable_examples", "with_given",
]  # fmt: skip
