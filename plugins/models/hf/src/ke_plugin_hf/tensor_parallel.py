"""Tensor parallelism: one model, split over the processes that torchrun started (``--tp auto``).

transformers' own plan splits the weights, and makes each layer's output whole again in every process. So every process
does all the work of a run: it sends the same requests in the same order, because each forward pass is a common one.
Decisions must not depend on the process. Only free memory does: the processes agree on the smallest number, and
running out of memory ends the run, because the other processes would wait for the pass that is repeated.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, distributed
from torch.distributed.tensor import DTensor

from ke_core.app import world
from ke_core.plugin import ModelRequest, ModelUnavailable

AUTO = "auto"
LAUNCH = "start it with torchrun --nproc-per-node N -m ke_core eval ...; docs/many-processes.md has more"
UPGRADE = "pip install --upgrade transformers"


def check_split(request: ModelRequest, config: Any, device: torch.device) -> None:
    """Raise ModelUnavailable if the model cannot be split over the processes of this run."""
    name, size = f"hf:{request.id}", world().size
    if request.tp != AUTO:
        raise ModelUnavailable(f"--tp {request.tp}: unknown", hint="use --tp auto")
    if size == 1:
        raise ModelUnavailable("--tp auto splits a model over several processes, and there is one", hint=LAUNCH)
    if request.device_map:
        raise ModelUnavailable("--tp and --device-map both place the model", hint="leave out one of them")
    if request.dtype == "nf4":
        raise ModelUnavailable("--tp auto does not split 4-bit weights", hint="use --dtype bfloat16")
    if device.type != "cpu" and "nccl" not in str(distributed.get_backend_config()):
        raise ModelUnavailable("the processes cannot exchange tensors on accelerators", hint="leave out --processes")
    text = config.get_text_config()
    if not getattr(text, "base_model_tp_plan", None):
        raise ModelUnavailable(
            f"transformers has no plan to split {name} ({text.model_type})", hint="use --device-map auto"
        )
    heads = getattr(text, "num_key_value_heads", None) or text.num_attention_heads
    if heads % size:
        raise ModelUnavailable(
            f"{name} has {heads} key-value heads, which {size} processes cannot share equally",
            hint=f"start a number of processes that divides {heads}, or use --device-map auto",
        )


def split_loading() -> dict[str, Any]:
    """Return the arguments of ``from_pretrained`` that split the weights. Raises ModelUnavailable."""
    try:
        from transformers.distributed import DistributedConfig  # noqa: PLC0415  not in earlier versions

        return {"distributed_config": DistributedConfig(tp_plan=AUTO)}
    except (ImportError, TypeError) as error:
        raise ModelUnavailable("--tp auto needs a newer transformers", hint=UPGRADE) from error


def is_split(module: Any) -> bool:
    """Return whether this process holds only a part of the model."""
    return any(isinstance(parameter, DTensor) for parameter in module.parameters())


def full(tensor: Tensor) -> Tensor:
    """Return all of a weight. The other processes must ask for the same one."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def replaced_forward(part: Any) -> int:
    """Return the id of the function that replaces a module's ``forward``, or 0. Splitting does not count."""
    forward = part.__dict__.get("forward")
    return 0 if forward is None or forward.__module__.startswith("transformers.distributed") else id(forward)


def smallest(number: int) -> int:
    """Return the smallest ``number`` of all processes."""
    found = torch.tensor(number, dtype=torch.int64)
    distributed.all_reduce(found, op=distributed.ReduceOp.MIN)
    return int(found)
