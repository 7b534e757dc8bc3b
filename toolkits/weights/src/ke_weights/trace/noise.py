"""How the subject's embeddings are corrupted (ROME section 2.1, appendix B.1).

The same draws come back for every prompt, so that all interventions on one are compared under the same noise.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from attrs import frozen
from torch import Tensor

from ke_core.plugin import BadConfig, BadData
from ke_plugin_hf.decoding.float64 import double
from ke_weights.hooks import frozen_module
from ke_weights.modules import ModuleMap

RULE = re.compile(r"(?P<kind>[su]?)(?P<size>\d+(\.\d*)?(e-?\d+)?)")


@frozen(kw_only=True)
class Noise:
    """``rule`` as it was given. ``sigma``: the standard deviation of normal noise, the bound of uniform noise."""

    rule: str
    sigma: float
    uniform: bool
    seed: int

    def draw(self, samples: int, tokens: int, width: int) -> Tensor:
        """Float64 [samples, tokens, width]; the generator starts anew at each call."""
        state = np.random.RandomState(self.seed)  # the published stream of draws
        shape = (samples, tokens, width)
        return torch.from_numpy(self.sigma * (state.uniform(-1, 1, shape) if self.uniform else state.randn(*shape)))


def check_rule(rule: str) -> tuple[str, float]:
    """The kind (``s``, ``u`` or nothing) and the number of a rule. Raises BadConfig."""
    found = RULE.fullmatch(rule)
    if not found:
        raise BadConfig(
            f"--noise cannot be {rule!r}",
            hint="s3 (three standard deviations of the subjects' embeddings), a number, or u0.1 (uniform)",
        )
    return found["kind"], float(found["size"])


def settled(rule: str, seed: int, modules: ModuleMap, tokenizer: Any, subjects: Sequence[str]) -> Noise:
    """The noise of ``rule`` for this model; ``subjects`` are all of the file, also those that are not traced."""
    kind, size = check_rule(rule)
    sigma = size * embedding_deviation(modules, tokenizer, subjects) if kind == "s" else size
    return Noise(rule=rule, sigma=sigma, uniform=kind == "u", seed=seed)


def embedding_deviation(modules: ModuleMap, tokenizer: Any, subjects: Sequence[str]) -> float:
    """Standard deviation of all elements of the embeddings of the subjects' tokens, repeated tokens counted again.

    Each subject is encoded by itself, without a space before it and without BOS, which is never corrupted.
    """
    ids = [token for subject in subjects for token in tokenizer(subject, add_special_tokens=False)["input_ids"]]
    if not ids:
        raise BadData("the tokenizer makes no tokens of the facts' subjects")
    embedding: Any = modules.module.get_input_embeddings()  # type: ignore[operator]  # transformers' own
    with frozen_module(modules.module):
        found: Tensor = embedding(torch.tensor([ids], device=modules.device))
    return float(double(found).std())
