"""Load a causal language model, with one-line errors if that fails."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from ke_core.app import world
from ke_core.plugin import ModelRequest, ModelUnavailable, Shape
from ke_plugin_hf import nf4
from ke_plugin_hf.model import HFModel
from ke_plugin_hf.preflight import check_memory, without_hub
from ke_plugin_hf.products import use_onednn
from ke_plugin_hf.quiet import quiet
from ke_plugin_hf.tensor_parallel import check_split, prepare_split, split_loading

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16, "float64": torch.float64}
INNER = ("intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size")
"""Names of the MLP's inner size in configurations. The default is four times the hidden size."""


def load(request: ModelRequest, where: str) -> HFModel:
    """Load the model at ``where``, a local folder or a hub id, with the settings of ``request``.

    Evaluation mode, no gradients. Raises ModelUnavailable.
    """
    if request.tp:
        prepare_split(request)
    if request.device_map and world().size > 1:
        raise ModelUnavailable(
            f"--device-map spreads one model over the accelerators that {world().size} processes would share",
            hint="start one process with --device-map, or several without it, each with its own copy",
        )
    device = _device(request)
    numbers, quantized = _numbers(request, device), request.dtype == nf4.NF4
    common = _common(request, where)
    with quiet():
        config = _attempt(request, "configuration", lambda: AutoConfig.from_pretrained(where, **common))
        _check_causal(request, config)
        if request.tp:
            check_split(request, config)
        check_memory(config, request, device)
        tokenizer = _attempt(request, "tokenizer", lambda: AutoTokenizer.from_pretrained(where, **common))
        _check_tokenizer(request, tokenizer)
        placed = {"device_map": request.device_map or {"": device}} if request.device_map or quantized else {}
        placed |= split_loading() if request.tp else {}
        module, report = _attempt(
            request,
            "weights",
            lambda: AutoModelForCausalLM.from_pretrained(
                where, config=config, output_loading_info=True, **numbers, **placed, **common
            ),
        )
    _check_whole(request, report)
    if quantized:
        if device.type == "cpu":
            nf4.reject_misread_weights(module)
        nf4.keep_packing(module)
    elif not request.device_map and not request.tp:
        module.to(device)
    use_onednn(module)
    return HFModel.from_parts(module, tokenizer, id=_name(request), chat=_chat(request, tokenizer))


def shape(request: ModelRequest, where: str) -> Shape:
    """Return the shape in the configuration at ``where``, without reading weights. Raises ModelUnavailable."""
    common = _common(request, where)
    with quiet():
        config = _attempt(request, "configuration", lambda: AutoConfig.from_pretrained(where, **common))
    _check_causal(request, config)
    text = config.get_text_config()
    hidden = int(text.hidden_size)
    return Shape(
        family=str(text.model_type),
        blocks=int(text.num_hidden_layers),
        hidden=hidden,
        inner=next((int(inner) for name in INNER if (inner := getattr(text, name, None))), 4 * hidden),
        rms_norm=hasattr(text, "rms_norm_eps"),
    )


def _common(request: ModelRequest, where: str) -> dict[str, Any]:
    """Return the arguments of every ``from_pretrained``. Raises ModelUnavailable."""
    common: dict[str, Any] = {"revision": request.revision, "trust_remote_code": request.trust_remote_code}
    if not Path(where).is_dir() and without_hub(where, request):
        common["local_files_only"] = True
    return common


def _numbers(request: ModelRequest, device: torch.device) -> dict[str, Any]:
    """Return the dtype arguments of ``from_pretrained``. Raises ModelUnavailable."""
    if request.dtype == nf4.NF4:
        return nf4.loading(device)
    if request.dtype not in DTYPES:
        raise ModelUnavailable(f"unknown dtype '{request.dtype}'", hint=f"use one of {', '.join((*DTYPES, nf4.NF4))}")
    return {"dtype": DTYPES[request.dtype]}


def _device(request: ModelRequest) -> torch.device:
    if not request.device:
        return _accelerator() if torch.cuda.is_available() else torch.device("cpu")
    try:
        device = torch.device(request.device)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        there = ["cpu", *(f"cuda:{index}" for index in range(torch.cuda.device_count()))]
        raise ModelUnavailable(
            f"no device '{request.device}' here: torch finds {', '.join(there)}",
            hint="omit --device, or choose one of these; 'ke doctor' prints why a GPU is not found",
        ) from error
    return device


def _accelerator() -> torch.device:
    """Return this process's accelerator: the first for the first process of a machine, and so on. Raises
    ModelUnavailable.
    """
    number, there = world().local_rank, torch.cuda.device_count()
    if number >= there:
        raise ModelUnavailable(
            f"process {number + 1} of this machine has no accelerator: there are {there}",
            hint="start as many processes per machine as it has accelerators, or pass --device cpu",
        )
    return torch.device("cuda", number)


def _attempt(request: ModelRequest, part: str, make: Any) -> Any:
    """Return the result of ``make``. Errors of transformers, the hub and safetensors become one line."""
    try:
        return make()
    except Exception as error:  # three libraries and the network, each with its own errors
        message, hint = _explained(error, part)
        raise ModelUnavailable(f"cannot load the {part} of {_name(request)}: {message}", hint=hint) from error


OFFLINE = (
    "offline",
    "couldn't connect",
    "couldn't reach",
    "connection",
    "locate the file on the hub",
    "timed out",
    "cached",
)
HINTS = (
    (("trust_remote_code",), "the model contains its own code: read it, then pass --trust-remote-code"),
    (("gated", "401", "403"), "accept the model's terms on the hub and log in with 'hf auth login'"),
    (("out of memory", "allocate memory"), "load it in bfloat16 or with --device-map auto, or use a smaller one"),
    (("unrecognized configuration class",), "only causal language models are supported"),
    (("accelerate",), "pip install accelerate"),
    (OFFLINE, "no network? name a local folder, or run 'ke models pull NAME' once ('ke models list' prints the names)"),
)  # fmt: skip


def _explained(error: Exception, part: str) -> tuple[str, str]:
    text = " ".join(str(error).split()) or type(error).__name__
    known = next((hint for words, hint in HINTS if any(word in text.lower() for word in words)), "")
    first = re.split(r"(?<=[a-z'\")])\. ", text)[0].rstrip(".")
    return first[:300], known or f"check that the files of the {part} exist and are complete"


def _check_causal(request: ModelRequest, config: Any) -> None:
    if getattr(config, "is_encoder_decoder", False):
        raise ModelUnavailable(
            f"{_name(request)} is an encoder-decoder ({config.model_type}), not a causal language model",
            hint="only causal language models are supported",
        )


def _check_tokenizer(request: ModelRequest, tokenizer: Any) -> None:
    if len(tokenizer) == 0 or not tokenizer("a")["input_ids"]:
        raise ModelUnavailable(f"{_name(request)} has no tokenizer", hint="add its tokenizer.json to the folder")


def _check_whole(request: ModelRequest, report: Any) -> None:
    """Reject a model with missing weights: transformers fills them with random numbers and warns."""
    missing = sorted(report["missing_keys"])
    if missing:
        raise ModelUnavailable(
            f"{_name(request)} lacks {len(missing)} of a causal language model's weights, the first is {missing[0]}",
            hint="it is not a causal language model, or the download is incomplete",
        )


def _chat(request: ModelRequest, tokenizer: Any) -> bool:
    if request.chat and not tokenizer.chat_template:
        raise ModelUnavailable(f"{_name(request)} has no chat template", hint="omit --chat to send prompts unchanged")
    return request.chat


def _name(request: ModelRequest) -> str:
    """Return ``hf:id@revision`` without a user name or token in a URL."""
    shown = re.sub(r"//[^/@]*@", "//", request.id)
    return f"hf:{shown}@{request.revision}" if request.revision else f"hf:{shown}"
