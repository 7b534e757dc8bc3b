"""The model of a benchmark: a known model, or random weights in a published shape.

Speed and memory do not depend on the values of the weights, so large models need no download. Weights are sampled from
N(0, 0.02^2), and the tokenizer is a small one.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn
from transformers import AutoModelForCausalLM, LlamaConfig

from ke_core.engine.models import open_model
from ke_core.spec.specs import ModelRequest
from ke_plugin_hf.model import HFModel
from ke_plugin_hf.products import OneDnnLinear
from ke_plugin_hf.testing import tiny_tokenizer

RANDOM, CONTEXT = "random:", 8192
SHAPES: dict[str, dict[str, int]] = {
    "tiny": {"hidden_size": 64, "intermediate_size": 176, "num_hidden_layers": 4, "vocab_size": 400,
             "num_attention_heads": 4, "num_key_value_heads": 2},
    "llama-1b": {"hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16, "vocab_size": 128256,
                 "num_attention_heads": 32, "num_key_value_heads": 8},
    "llama-8b": {"hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "vocab_size": 128256,
                 "num_attention_heads": 32, "num_key_value_heads": 8},
}  # fmt: skip
"""Published shapes: LLaMA-3.2-1B and LLaMA-3.1-8B."""


def add_model(parser: argparse.ArgumentParser) -> None:
    """Add the options ``--model``, ``--device`` and ``--dtype``."""
    known = ", ".join(RANDOM + shape for shape in SHAPES)
    parser.add_argument("--model", default="smollm2-135m", metavar="NAME", help=f"a folder, a name as in ke, {known}")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32", choices=("float32", "bfloat16", "float16"))


def opened(given: argparse.Namespace) -> HFModel:
    """Open the model that these options name."""
    if given.model.startswith(RANDOM):
        return random_model(given.model.removeprefix(RANDOM), given.device, given.dtype)
    model = open_model(given.model, ModelRequest(id="", device=given.device, dtype=given.dtype))
    assert isinstance(model, HFModel)
    return model


@contextmanager
def torch_products(*modules: nn.Module) -> Iterator[None]:
    """Let the linear layers compute with torch's own products, as published code does. ``ke`` may use oneDNN."""
    changed = [part for module in modules for part in module.modules() if type(part) is OneDnnLinear]
    for part in changed:
        part.__class__ = nn.Linear  # type: ignore[assignment]  # the class as transformers loads it
    try:
        yield
    finally:
        for part in changed:
            part.__class__ = OneDnnLinear


def random_model(shape: str, device: str, dtype: str) -> HFModel:
    """Return a LLaMA of that shape, created on its device. It generates only tokens that its tokenizer has."""
    tokenizer = tiny_tokenizer()
    tokenizer.model_max_length = CONTEXT
    config = LlamaConfig(
        max_position_embeddings=CONTEXT, tie_word_embeddings=False, bos_token_id=1, eos_token_id=0, **SHAPES[shape]
    )
    torch.manual_seed(0)
    with torch.device(device):
        module = AutoModelForCausalLM.from_config(config, dtype=getattr(torch, dtype))
    with torch.no_grad():
        module.lm_head.weight[len(tokenizer) :] = 0.0
    return HFModel.from_parts(module.eval(), tokenizer, id=f"{RANDOM}{shape}")
