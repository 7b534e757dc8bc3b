"""Tiny language models with random weights: real code paths, no download, identical in every process.

Their sizes make mistakes visible: weights of N(0, 0.15^2), so that logits differ; f != d and fewer key/value heads than
heads if the family has them, so that errors in orientation and grouping cannot cancel; an untied head.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, get_args

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast

from ke_core.plugin import ModelRequest
from ke_plugin_hf import nf4
from ke_plugin_hf.loading import load
from ke_plugin_hf.model import HFModel

Family = Literal[
    "gpt2", "gptj", "gptneox", "llama", "qwen2",
    "bloom", "codegen", "falcon", "gemma", "glm", "gpt-bigcode", "gpt-neo", "granite", "mistral", "mpt", "olmo", "opt",
    "phi", "phi3", "qwen3", "smollm3", "stablelm", "starcoder2",
    "cohere", "exaone4", "gemma2", "gemma3", "glm4", "granite-multiplied", "olmo2", "olmo3",
]  # fmt: skip
FAMILIES: tuple[Family, ...] = ("gpt2", "gptj", "gptneox", "llama", "qwen2")
"""Families for most tests: old and new, absolute or rotary positions, LayerNorm and RMSNorm, Conv1D and Linear."""
BLOCKED: tuple[Family, ...] = (
    "cohere", "exaone4", "gemma2", "gemma3", "glm4", "granite-multiplied", "olmo2", "olmo3",
)  # fmt: skip
"""Families with parts that locate-and-edit methods do not support."""
ADDITIVE: tuple[Family, ...] = tuple(family for family in get_args(Family) if family not in BLOCKED)
LAYERS, WIDTH, INNER, HEADS, KV_HEADS, CONTEXT, VOCABULARY = 4, 64, 176, 4, 2, 1024, 400
STD = 0.15
SPECIAL = {"eos_token": "<eos>", "bos_token": "<bos>", "pad_token": "<eos>"}
HEAD: dict[str, Any] = {"head_dim": WIDTH // HEADS}
WINDOW: dict[str, Any] = {"sliding_window": 8}
SPECIALTIES: dict[Family, tuple[str, dict[str, Any]]] = {
    "gptj": ("gptj", {"rotary_dim": 8}),
    "gptneox": ("gpt_neox", {}),
    "codegen": ("codegen", {"rotary_dim": 8}),
    "gemma": ("gemma", HEAD),
    "gemma2": ("gemma2", HEAD | WINDOW),
    "gemma3": ("gemma3_text", HEAD | WINDOW),
    "glm": ("glm", HEAD),
    "glm4": ("glm4", HEAD),
    "gpt-bigcode": ("gpt_bigcode", {}),
    "gpt-neo": ("gpt_neo", {"attention_types": [[["global", "local"], LAYERS // 2]], "window_size": 8}),
    "granite-multiplied": ("granite", {"residual_multiplier": 0.22, "logits_scaling": 3.0}),
    "mistral": ("mistral", HEAD | WINDOW),
    "mpt": ("mpt", {"max_seq_len": CONTEXT}),
    "opt": ("opt", {"word_embed_proj_dim": WIDTH}),
    "qwen3": ("qwen3", HEAD),
}
INNER_NAMES: dict[Family, str] = {
    "gpt2": "n_inner", "gptj": "n_inner", "codegen": "n_inner", "gpt-bigcode": "n_inner",
    "falcon": "ffn_hidden_size", "opt": "ffn_dim",
}  # fmt: skip
"""Configuration fields for the length of a key, if it is not ``intermediate_size``."""
TEXT = (
    "The capital of France is Paris. The capital of Italy is Rome, and that of Japan is Tokyo.",
    "Who is the head of state of the country where the football club was founded?",
    "Question: What is the native language of the author of Misery? Answer: English.",
    "The mother tongue of Danielle Darrieux is French. Angela Merkel is a citizen of Germany.",
    "Steve Jobs is affiliated with the religion of Buddhism. Apple was created in the country of the United States.",
    "Ellie Kemper is married to Michael Koman; W. G. Sebald worked in the city of Norwich.",
    "Thought: the question asks for a person.\nRetrieved fact: the chief executive officer of Apple is Tim Cook.\n",
    "Edits change what a model holds true; its other answers should stay as they were before 2024.",
)


def tiny_tokenizer(*, bos: bool = False) -> Any:
    """Train a byte-level BPE tokenizer on a few sentences: every text survives encoding. ``bos`` adds a token before
    texts.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=["<eos>", "<bos>"],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(TEXT, trainer)
    if bos:
        tokenizer.post_processor = processors.TemplateProcessing(single="<bos> $A", special_tokens=[("<bos>", 1)])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, clean_up_tokenization_spaces=False, model_max_length=CONTEXT, **SPECIAL
    )


def tiny_config(family: Family, *, inner: int = INNER) -> Any:
    """Return the family's configuration with four layers of width 64; sliding windows have 8 tokens.

    ``inner``: the length of a key, if the family does not fix it.
    """
    shape: dict[str, Any] = {
        "vocab_size": VOCABULARY,
        "hidden_size": WIDTH,
        "intermediate_size": inner,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "max_position_embeddings": CONTEXT,
        "bos_token_id": 1,
        "eos_token_id": 0,
        "pad_token_id": 0,
        "tie_word_embeddings": False,
    }
    name, own = SPECIALTIES.get(family, (family, {}))
    return AutoConfig.for_model(name, **(shape | {INNER_NAMES.get(family, "intermediate_size"): inner} | own))


def randomize(module: Any, seed: int) -> None:
    """Set weights and biases from N(0, 0.15^2), in the order of their names; gains of norms stay 1."""
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for _name, parameter in sorted(module.named_parameters()):
            if parameter.dim() >= 2 or _name.endswith("bias"):
                parameter.copy_(torch.randn(parameter.shape, generator=draw) * STD)


def tiny_model(
    family: Family = "llama", *, dtype: str = "float32", seed: int = 0, bos: bool = False, inner: int = INNER
) -> HFModel:
    """Return a model of that family with random weights on the CPU; equal arguments give equal weights."""
    module = AutoModelForCausalLM.from_config(tiny_config(family, inner=inner))
    randomize(module, seed)
    module.to(getattr(torch, dtype))
    return HFModel.from_parts(module, tiny_tokenizer(bos=bos), id=f"tiny:{family}-{dtype}-{seed}{'-bos' * bos}")


def saved(model: HFModel, folder: Path) -> Path:
    """Save ``model`` with its tokenizer as a checkpoint and return the folder."""
    model.module.save_pretrained(folder)
    model.tokenizer.save_pretrained(folder)
    return folder


def tiny_nf4(folder: Path, family: Family = "llama", *, seed: int = 0) -> HFModel:
    """Return a tiny 4-bit model, saved in ``folder``: weights are quantized while loading. Needs bitsandbytes.

    Its key length is a multiple of the block length: bitsandbytes misreads others on some CPUs.
    """
    saved(tiny_model(family, seed=seed, inner=3 * nf4.BLOCK), folder)
    return load(ModelRequest(id=f"tiny:{family}-nf4-{seed}", dtype="nf4", device="cpu"), str(folder))


class Fp8Weight(nn.Linear):
    """8-bit floats with one scale, as in FP8 checkpoints."""

    def __init__(self, plain: nn.Linear) -> None:
        super().__init__(plain.in_features, plain.out_features, bias=False)
        self.scale = float(plain.weight.detach().abs().max()) / 100
        self.weight = nn.Parameter((plain.weight.detach() / self.scale).to(torch.float8_e4m3fn), requires_grad=False)

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002  torch's name
        return nn.functional.linear(input, self.weight.to(input.dtype) * self.scale)
