"""Checks of torch's devices for ``ke doctor``. Each device is tested with one small product."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import torch
from huggingface_hub.constants import HF_HUB_CACHE

from ke_core.plugin import HealthFinding
from ke_plugin_hf.decoding.free import free_bytes

DRIVER = Path("/proc/driver/nvidia/version")
"""Exists if the driver of an NVIDIA GPU is loaded (Linux)."""
SIZE = 64
TOLERANCE = 1e-3  # for a sum of 64 products of numbers below 1, in any order of summation
GIB = 2**30
LITTLE_MEMORY = GIB
"""With less memory, the smallest model and its statistics may not fit."""


def check_devices() -> Iterator[HealthFinding]:
    """Check that the CPU and every accelerator that torch finds compute correctly."""
    cpu = torch.device("cpu")
    try:
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):
        total = 0
    yield _checked(cpu, f"{torch.get_num_threads()} of {os.cpu_count()} CPUs used", free_bytes(cpu), total)
    if torch.cuda.is_available():
        yield from (_cuda(torch.device("cuda", index)) for index in range(torch.cuda.device_count()))
    if torch.backends.mps.is_available():
        yield _checked(torch.device("mps"), "Apple GPU")
    if not torch.cuda.is_available() and DRIVER.exists():
        yield HealthFinding(
            area="device",
            what=f"an NVIDIA driver is installed, but torch finds no GPU: {_why_no_gpu()}",
            state="note",
            advice="https://pytorch.org/get-started lists the torch version for the driver",
        )


def _why_no_gpu() -> str:
    if torch.version.cuda is None and torch.version.hip is None:
        return "this torch is built for CPUs only"
    return f"torch is built for CUDA {torch.version.cuda}; the environment hides the device, or its driver is too old"


def _cuda(device: torch.device) -> HealthFinding:
    if _error(device):
        return _checked(device, "NVIDIA or AMD GPU")
    major, minor = torch.cuda.get_device_capability(device)
    kind = f"{torch.cuda.get_device_name(device)}, capability {major}.{minor}"
    return _checked(device, kind, *torch.cuda.mem_get_info(device))


def _checked(device: torch.device, kind: str, free: int = 0, total: int = 0) -> HealthFinding:
    """Return the finding about a device with ``free`` of ``total`` bytes; 0 if the total is unknown."""
    name = f"{device} ({kind})"
    if wrong := _error(device):
        return HealthFinding(
            area="device",
            what=f"{name} cannot be used: {wrong}",
            state="wrong",
            advice="use --device cpu, or install a torch for this device: https://pytorch.org/get-started",
        )
    memory = f", {free / GIB:.1f} of {total / GIB:.1f} GiB free" if total else ""
    little = total > 0 and free < LITTLE_MEMORY
    advice = "close other programs, or use a smaller model or --dtype bfloat16" if little else ""
    return HealthFinding(area="device", what=name + memory, state="note" if little else "ok", advice=advice)


def _error(device: torch.device) -> str:
    """Return the error of a product on the device; empty if it equals the CPU's result in double precision."""
    numbers = torch.linspace(-1, 1, SIZE * SIZE, dtype=torch.float64).reshape(SIZE, SIZE)
    try:
        found = (numbers.float().to(device) @ numbers.float().to(device)).cpu()
    except (RuntimeError, NotImplementedError, AssertionError) as error:
        return " ".join(str(error).split())[:200]
    if not torch.allclose(found.double(), numbers @ numbers, atol=TOLERANCE):
        return "the product of two small matrices is wrong"
    return ""


def check_hub_cache() -> Iterator[HealthFinding]:
    """Show the size of the models that were downloaded from the hub."""
    hub = Path(HF_HUB_CACHE)
    if hub.is_dir():
        size = sum(path.lstat().st_size for path in hub.rglob("*") if path.is_file())
        yield HealthFinding(area="caches", what=f"{hub}: {size / 1e6:,.1f} MB (models from the hub)")
