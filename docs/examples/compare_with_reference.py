"""Compare MEMIT's update in ``ke`` with the formula of its paper, on a tiny random model.

Covariance, targets and left contexts are given, so that both sides start from the same numbers. To compare with another
implementation, give its numbers and compare its update with ``layer.update``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

import ke_core as ke
from ke_weights import EditInputs

HIDDEN, INNER = 32, 80
LAYERS, WEIGHT = (1, 2), 50.0
EDITS = [
    {"prompt": "The capital of {} is", "subject": "Peru", "target_new": "Cusco"},
    {"prompt": "The capital of {} is", "subject": "Chile", "target_new": "Arica"},
]


def random_model() -> ke.Model:
    """Return a GPT-2 with four layers and random float64 weights, whose tokens are bytes."""
    alphabet = {letter: number for number, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    tokens = Tokenizer(models.BPE(vocab={**alphabet, "<eos>": len(alphabet)}, merges=[]))
    tokens.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokens.decoder = decoders.ByteLevel()
    special = dict.fromkeys(("eos_token", "pad_token"), "<eos>")
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=tokens, **special)
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=len(tokenizer), n_positions=128, n_embd=HIDDEN, n_inner=INNER, n_layer=4, n_head=4,
        bos_token_id=len(alphabet), eos_token_id=len(alphabet),
    )  # fmt: skip
    return ke.wrap(GPT2LMHeadModel(config).double().eval(), tokenizer, name="tiny")


def inputs() -> EditInputs:
    """Return random inputs: C of each layer [f, f], z [d, N], and one left context."""
    rng = np.random.default_rng(0)
    keys = {layer: rng.normal(size=(INNER, 10 * INNER)) for layer in LAYERS}
    return EditInputs(
        covariance={layer: k @ k.T / k.shape[1] for layer, k in keys.items()},
        targets=rng.normal(size=(HIDDEN, len(EDITS))),
        contexts=["Well, it is known. {}"],
    )


def reference(keys: NDArray[Any], residuals: NDArray[Any], covariance: NDArray[Any]) -> NDArray[Any]:
    """Return R K^T (lambda C + K K^T)^-1, MEMIT equation 14."""
    update: NDArray[Any] = residuals @ keys.T @ np.linalg.inv(WEIGHT * covariance + keys @ keys.T)
    return update


def main() -> dict[int, float]:
    """Print and return the relative difference of the two updates, for each layer."""
    given = inputs()
    options = {"layers": LAYERS, "mom2_weight": WEIGHT}
    with ke.edit(random_model(), edits=EDITS, editor="memit", options=options, inputs=given, trace=True) as edited:
        (batch,) = edited.trace.batches
    found = {}
    for number, layer in batch.layers.items():
        expected = reference(layer.keys, layer.residuals, np.asarray(given.covariance[number]))
        found[number] = float(np.linalg.norm(layer.update - expected) / np.linalg.norm(expected))
        print(f"layer {number}: relative difference {found[number]:.1e}")
    return found


if __name__ == "__main__":
    main()
