"""Corruption of the subject's embeddings (ROME section 2.1, appendix B.1).

Every prompt gets the same samples, so all interventions on a prompt are compared with the same noise.
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
    """``rule``: as given. ``sigma``: the standard deviation of normal noise, the bound of uniform noise."""

    rule: str
    sigma: float
    uniform: bool
    seed: int

    def sample(self, samples: int, tokens: int, width: int) -> Tensor:
        """Return float64 [samples, tokens, width]; the generator restarts at each call."""
        state = np.random.RandomState(self.seed)  # the published random stream
        shape = (samples, tokens, width)
        return torch.from_numpy(self.sigma * (state.uniform(-1, 1, shape) if self.uniform else state.randn(*shape)))


def check_rule(rule: str) -> tuple[str, float]:
    """Return the kind (``s``, ``u`` or empty) and the number of a rule. Raises BadConfig."""
    found = RULE.fullmatch(rule)
    if not found:
        raise BadConfig(
            f"--noise {rule}: not a noise rule",
            hint="use s3 (three standard deviations of the subjects' embeddings), a number, or u0.1 (uniform)",
        )
    return found["kind"], float(found["size"])


def resolve_noise(rule: str, seed: int, modules: ModuleMap, tokenizer: Any, subjects: Sequence[str]) -> Noise:
    """Return the noise of ``rule`` for this model; ``subjects`` are all of the file, including untraced ones."""
    kind, size = check_rule(rule)
    sigma = size * embedding_deviation(modules, tokenizer, subjects) if kind == "s" else size
    return Noise(rule=rule, sigma=sigma, uniform=kind == "u", seed=seed)


def embedding_deviation(modules: ModuleMap, tokenizer: Any, subjects: Sequence[str]) -> float:
    """Return the standard deviation of all elements of the embeddings of the subjects' tokens, with repetitions.

    Each subject is encoded separately, without a leading space and without BOS, which is never corrupted.
    """
    ids = [token for subject in subjects for token in tokenizer(subject, add_special_tokens=False)["input_ids"]]
    if not ids:
        raise BadData(
            "the tokenizer returns no tokens for the subjects of the facts",
            hint="use facts with other subjects: the tokenizer drops the letters of these",
        )
    embedding: Any = modules.module.get_input_embeddings()  # type: ignore[operator]  # untyped in transformers
    with frozen_module(modules.module):
        found: Tensor = embedding(torch.tensor([ids], device=modules.device))
    return float(double(found).std())
