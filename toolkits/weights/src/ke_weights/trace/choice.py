"""Choose layers for ROME and MEMIT from the curves at the subject's last token, by a fixed rule. Imports no torch.

ROME edits the layer where windows of MLP outputs have the largest effect. MEMIT spreads its edit over layers up to the
last one where severing the later MLPs still costs half of the maximum (MEMIT section 4.2). Tracing predicts the quality
of edits badly, so try the neighboring layers too.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ke_core.plugin import ModelFacts, Shape
from ke_weights.hyperparameters import MultiLayerConfig, SingleLayerConfig, multi_layer_settings, single_layer_settings
from ke_weights.trace.effects import standard_error
from ke_weights.trace.suggestion import Suggestion

NEEDED = ("states", "severed-mlp", "mlp")
FEWEST = 50  # facts
CLEAR = 3.0  # standard errors
SMOOTHED = 3  # layers
SHALLOW, DEEP_ENOUGH = 32, 7  # GPT-J's six layers, 3 to 8 of 28


def choose(at_subject: Mapping[str, NDArray[np.float64]], shape: Shape) -> Suggestion | None:
    """Return layers from the effects [facts, n] of each curve; None if a required curve was not traced.

    g(l) = effect of states - effect of states with severed MLPs, smoothed over three layers. L_hi is the last l with
    g(l) >= max g / 2. ROME's layer is the peak of the MLP windows, at most L_hi. MEMIT's are the five layers ending
    there.
    """
    if any(name not in at_subject for name in NEEDED):
        return None
    states, severed, mlp = (at_subject[name] for name in NEEDED)
    facts, blocks = states.shape
    if facts < FEWEST:
        return _by_shape(shape, facts, f"{facts} facts, fewer than {FEWEST}")
    through = _smooth(states - severed)  # [facts, n], for the error of the smoothed difference
    mean = through.mean(0)
    top = int(mean.argmax())
    error = float(standard_error(through)[top])
    if mean[top] <= 0 or mean[top] < CLEAR * error:
        return _by_shape(
            shape, facts, f"the effect of MLPs is {mean[top]:.2g}, less than {CLEAR:g} standard errors of {error:.2g}"
        )
    lowest, highest = min(1, blocks - 1), max(blocks - 2, min(1, blocks - 1))
    last = min(max(int(np.flatnonzero(mean >= mean[top] / 2)[-1]), lowest), highest)
    peak = int(mlp.mean(0).argmax())
    count = 6 if blocks < SHALLOW and last >= DEEP_ENOUGH else 5
    return Suggestion(
        rome_layer=min(max(peak, lowest), last),
        memit_layers=tuple(range(max(last - count + 1, 0), last + 1)),
        rule=f"traced: MLPs have half of their maximum effect up to layer {last}, their windows peak at layer {peak}",
        facts=facts,
    )


def _smooth(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the mean of each layer and its neighbors, fewer at the borders."""
    half = SMOOTHED // 2
    columns = [values[:, max(0, at - half) : at + half + 1].mean(1) for at in range(values.shape[1])]
    return np.stack(columns, axis=1)


def _by_shape(shape: Shape, facts: int, why: str) -> Suggestion:
    """Return the layers for an untraced model of this shape: published ones, else fractions of its depth."""
    known = ModelFacts(shape=shape, scale=lambda _layer: 0.0)
    one, many = (
        single_layer_settings(SingleLayerConfig(), known)["layer"],
        multi_layer_settings(MultiLayerConfig(), known)["layers"],
    )
    reason = one.reason if one.reason == many.reason else f"{one.reason}; {many.reason}"
    return Suggestion(
        rome_layer=one.value, memit_layers=tuple(many.value), rule=f"not traced ({why}): {reason}", facts=facts
    )
