"""Convert a GGUF file to a folder that transformers loads, with dense float32 weights.

The weights are converted here because transformers takes several times as long; both yield identical bits. The
format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. It stores the query and key rows of a LLaMA with the
two halves of each rotary pair interleaved; transformers stores the halves separately.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ke_core.plugin import ModelUnavailable
from ke_plugin_hf.quiet import quiet

WHOLE = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
IN_LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def convert(gguf: Path, folder: Path) -> None:
    """Write configuration, weights (float32) and tokenizer of ``gguf`` into ``folder``.

    Only the LLaMA architecture is supported. Raises ModelUnavailable for another one.
    """
    from gguf import GGUFReader  # noqa: PLC0415  half a second that only a conversion pays
    from safetensors.numpy import save_file  # noqa: PLC0415  as above

    reader = GGUFReader(gguf)
    config = _config(reader, gguf.name)
    weights = _weights(reader, config)
    config["tie_word_embeddings"] = "lm_head.weight" not in weights
    folder.mkdir(parents=True, exist_ok=True)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "model.safetensors").chmod(0o644)  # the library creates it with private permissions
    special = {name: config[name] for name in ("bos_token_id", "eos_token_id", "pad_token_id")}
    for name, content in (("config.json", config), ("generation_config.json", special)):
        (folder / name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    _tokenizer(gguf, folder, special)


def _config(reader: Any, name: str) -> dict[str, Any]:
    """Return the configuration with the field names of transformers' LlamaConfig."""
    known = {key: field.contents() for key, field in reader.fields.items() if not key.endswith((".tokens", ".merges"))}
    architecture = known["general.architecture"]
    if architecture != "llama":
        raise ModelUnavailable(
            f"{name} contains a {architecture!r} model, which cannot be converted", hint="pass its hub id instead"
        )
    heads = int(known["llama.attention.head_count"])
    hidden = int(known["llama.embedding_length"])
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "dtype": "float32",
        "hidden_act": "silu",
        "hidden_size": hidden,
        "head_dim": int(known.get("llama.rope.dimension_count", hidden // heads)),
        "intermediate_size": int(known["llama.feed_forward_length"]),
        "max_position_embeddings": int(known["llama.context_length"]),
        "num_attention_heads": heads,
        "num_hidden_layers": int(known["llama.block_count"]),
        "num_key_value_heads": int(known["llama.attention.head_count_kv"]),
        "rms_norm_eps": float(known["llama.attention.layer_norm_rms_epsilon"]),
        "rope_parameters": {"rope_theta": float(known["llama.rope.freq_base"]), "rope_type": "default"},
        "vocab_size": int(known["llama.vocab_size"]),
        "bos_token_id": known.get("tokenizer.ggml.bos_token_id"),
        "eos_token_id": known.get("tokenizer.ggml.eos_token_id"),
        "pad_token_id": known.get("tokenizer.ggml.padding_token_id"),
    }


def _weights(reader: Any, config: dict[str, Any]) -> dict[str, NDArray[np.float32]]:
    """Return every tensor by its name in transformers, dense, [out, in]."""
    from gguf.quants import dequantize  # noqa: PLC0415  see convert

    found: dict[str, NDArray[np.float32]] = {}
    for tensor in reader.tensors:
        name, kind = _name(tensor.name)
        dense = np.ascontiguousarray(dequantize(tensor.data, tensor.tensor_type), dtype=np.float32)
        if kind == "attn_q":
            dense = halves_apart(dense, config["num_attention_heads"])
        elif kind == "attn_k":
            dense = halves_apart(dense, config["num_key_value_heads"])
        found[name] = dense
    return found


def _name(stored: str) -> tuple[str, str]:
    """Return the name in transformers, and the type of a layer's tensor (empty for others)."""
    if stored in WHOLE:
        return WHOLE[stored], ""
    parts = stored.split(".")  # blk.NUMBER.KIND.weight
    if len(parts) != 4 or parts[2] not in IN_LAYER or parts[3] != "weight":
        raise ModelUnavailable(f"unknown tensor {stored!r} in a LLaMA file", hint="pass the model's hub id instead")
    return f"model.layers.{parts[1]}.{IN_LAYER[parts[2]]}.weight", parts[2]


def halves_apart(weight: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    """Reorder the rows of rotary pairs (0, d/2, 1, d/2 + 1, ...) in each head to 0, 1, ... d - 1."""
    rows, columns = weight.shape
    pairs = weight.reshape(heads, rows // heads // 2, 2, columns)
    return np.ascontiguousarray(pairs.swapaxes(1, 2)).reshape(rows, columns)


def _tokenizer(gguf: Path, folder: Path, special: Mapping[str, int | None]) -> None:
    """Write the tokenizer, read by transformers' GGUF reader, which supports all pre-tokenizers.

    ``special``: the ids of special tokens in the file. Some versions of transformers, such as 5.17, use others.
    """
    from transformers import AutoTokenizer  # noqa: PLC0415  seconds that only a conversion pays

    with quiet():  # it logs unused parts of the file
        tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    for name, number in special.items():
        if number is not None:
            setattr(tokenizer, name.removesuffix("_id"), tokenizer.convert_ids_to_tokens(number))
    tokenizer.save_pretrained(folder)
