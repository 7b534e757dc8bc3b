"""Use a transformers model that the caller loaded: plain, quantized, offloaded, or with peft adapters."""

from __future__ import annotations

from typing import Any

from torch import nn

from ke_core.plugin import ModelUnavailable
from ke_plugin_hf import nf4
from ke_plugin_hf.model import HFModel


def wrap(module: Any, tokenizer: Any, name: str, chat: bool) -> HFModel:  # noqa: FBT001  ModelSpec.wrap
    """Return ``module`` with the interfaces of the engine and the editors. Raises ModelUnavailable.

    Weights of any kind can be asked. Weight editors refuse those that they cannot change, with the reason.
    """
    _check_model(module)
    kind = type(module).__name__
    if not hasattr(tokenizer, "pad_token_id"):
        raise ModelUnavailable(
            f"the tokenizer of {kind} is a {type(tokenizer).__name__}, not a transformers tokenizer",
            hint="pass AutoTokenizer.from_pretrained(...)",
        )
    if chat and not tokenizer.chat_template:
        raise ModelUnavailable(f"the tokenizer of {kind} has no chat template", hint="use ke.wrap without chat=True")
    nf4.keep_packing(module)
    found = name or getattr(module.config, "_name_or_path", "") or "model"
    return HFModel.from_parts(module, tokenizer, id=f"hf:{found}", chat=chat)


def _check_model(module: Any) -> None:
    """Raise ModelUnavailable for anything but a causal language model of transformers, or one in a peft wrapper."""
    kind = type(module).__name__
    if not isinstance(module, nn.Module) or not hasattr(module, "config"):
        raise ModelUnavailable(
            f"ke.wrap needs a transformers model, not a {kind}", hint="ke.load(...) loads a model by its name"
        )
    config: Any = module.config
    if config.is_encoder_decoder or getattr(module, "generation_config", None) is None:
        raise ModelUnavailable(f"{kind} is not a causal language model", hint="load it with AutoModelForCausalLM")
