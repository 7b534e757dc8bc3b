"""Tensor parallelism: one model, split over the processes that torchrun started (``--tp auto``).

transformers' own plan splits the weights, and makes each layer's output whole again in every process. All processes
compute each forward pass together, so every process runs the whole evaluation: the same requests, in the same order.

- Decisions must not depend on the process. Only free memory does: the processes agree on the smallest number.
- Before each batch of requests, and before those that follow from results, the processes check that they have the same.
- An error in one process ends the run, because the others wait for a forward pass that does not come.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, TypeVar
from weakref import WeakSet

import torch
from torch import Tensor, distributed, nn
from torch.distributed.tensor import DTensor

from ke_core.app import started, world
from ke_core.plugin import ModelRequest, ModelUnavailable, ProcessLost

AUTO = "auto"
LAUNCH = "start it with torchrun --nproc-per-node N -m ke_core eval ...; docs/many-processes.md has more"
UPGRADE = "pip install --upgrade transformers"
RESUME = "start the same command again, with more processes if memory ran out: it resumes"
SPLIT: WeakSet[nn.Module] = WeakSet()
"""The models of which this process holds only a part."""
FAILED: WeakSet[nn.Module] = WeakSet()
"""Those of them whose processes no longer compute together."""

Given = TypeVar("Given")
Found = TypeVar("Found")


def prepare_split(request: ModelRequest) -> None:
    """Connect the processes, with NCCL if they have accelerators. Raises ModelUnavailable.

    Must be called before ``world``, which connects them for waiting only.
    """
    if started() == 1:
        raise ModelUnavailable("--tp auto splits a model over several processes, and there is one", hint=LAUNCH)
    if request.device_map:
        raise ModelUnavailable("--tp and --device-map both place the model", hint="leave out one of them")
    if request.dtype == "nf4":
        raise ModelUnavailable("--tp auto does not split 4-bit weights", hint="use --dtype bfloat16")
    cuda = torch.cuda.is_available()
    if request.device and (cuda or request.device != "cpu"):
        raise ModelUnavailable(
            f"--device {request.device} with --tp: transformers chooses the devices", hint="leave out --device"
        )
    if cuda and not distributed.is_initialized():
        # Processes wait while the first one judges. torchrun ends them if one dies.
        distributed.init_process_group("cpu:gloo,cuda:nccl", timeout=timedelta(days=30))


def key_heads(config: Any) -> int:
    """Return the number of heads with keys of their own: those of grouped attention, or all."""
    return int(getattr(config, "num_key_value_heads", None) or config.num_attention_heads)


def check_split(request: ModelRequest, config: Any) -> None:
    """Raise ModelUnavailable if a model with this configuration cannot be split over the processes of this run."""
    name, size, text = f"hf:{request.id}", world().size, config.get_text_config()
    if not getattr(text, "base_model_tp_plan", None):
        raise ModelUnavailable(
            f"transformers has no plan to split {name} ({text.model_type})", hint="use --device-map auto"
        )
    heads = key_heads(text)
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


def parts(device: torch.device) -> int:
    """Return into how many parts the weights are split, as seen by the memory of ``device``."""
    size = world().size
    return size if device.type == "cuda" else max(1, size // int(os.environ.get("LOCAL_WORLD_SIZE", size)))


def is_split(module: Any) -> bool:
    """Return whether this process holds only a part of the model."""
    return any(isinstance(parameter, DTensor) for parameter in module.parameters())


def in_step(module: nn.Module, call: Callable[[Sequence[Given]], Found], requests: Sequence[Given]) -> Found:
    """Return what ``call`` returns for ``requests``, which all processes of a split model must have.

    Raises ProcessLost for other requests in another process, and instead of every other exception.
    """
    if module not in SPLIT:
        return call(requests)
    try:
        compare_requests(module, requests)
        return call(requests)
    except BaseException as error:
        FAILED.add(module)
        if isinstance(error, ProcessLost) or not isinstance(error, Exception):
            raise
        raise ProcessLost(f"process {world().rank} of {world().size} stopped: {error}", hint=RESUME) from error


def compare_requests(module: nn.Module, requests: object) -> None:
    """Raise ProcessLost if another process of a split model has other requests."""
    if module not in SPLIT:
        return
    number = int.from_bytes(hashlib.sha256(repr(requests).encode()).digest()[:7])
    if smallest(number) != number or smallest(-number) != -number:
        raise ProcessLost("the processes have different requests", hint=RESUME)


def full(tensor: Tensor) -> Tensor:
    """Return all of a weight. The other processes must ask for the same one. Raises ProcessLost after an error."""
    if not isinstance(tensor, DTensor):
        return tensor
    if FAILED:
        raise ProcessLost("the processes that hold the model no longer compute together", hint=RESUME)
    return tensor.full_tensor()


def replaced_forward(part: Any) -> int:
    """Return the id of the function that replaces a module's ``forward``, or 0. Splitting does not count."""
    forward = part.__dict__.get("forward")
    return 0 if forward is None or forward.__module__.startswith("transformers.distributed") else id(forward)


def smallest(number: int) -> int:
    """Return the smallest ``number`` of all processes."""
    found = torch.tensor(number, dtype=torch.int64)
    distributed.all_reduce(found, op=distributed.ReduceOp.MIN)
    return int(found)
