"""The devices that torch can compute on, each tested with one small product."""

from __future__ import annotations

import os
from pathlib import Path

import torch
from attrs import frozen

from ke_plugin_hf.decoding.free import free_bytes

DRIVER = Path("/proc/driver/nvidia/version")
"""Exists if the driver of an NVIDIA GPU is loaded (Linux)."""
SIZE = 64
TOLERANCE = 1e-3  # for a sum of 64 products of numbers below 1, in any order of summation


@frozen(kw_only=True)
class Device:
    """``free`` and ``total`` bytes of memory, None if unknown. ``wrong``: why it cannot be used."""

    name: str
    kind: str
    free: int | None = None
    total: int | None = None
    wrong: str = ""


def devices() -> list[Device]:
    """Return the CPU, then every accelerator that torch finds."""
    found = [_cpu()]
    if torch.cuda.is_available():
        found += [_cuda(index) for index in range(torch.cuda.device_count())]
    if torch.backends.mps.is_available():
        found.append(Device(name="mps", kind="Apple GPU", wrong=_tried(torch.device("mps"))))
    return found


def unused_gpu() -> str:
    """Return why torch does not use the NVIDIA GPU whose driver is loaded; empty if it does, or if there is none."""
    if torch.cuda.is_available() or not DRIVER.exists():
        return ""
    if torch.version.cuda is None and torch.version.hip is None:
        return "this torch is built for CPUs only"
    return f"torch is built for CUDA {torch.version.cuda}; the environment hides the device, or its driver is too old"


def _cpu() -> Device:
    device = torch.device("cpu")
    try:
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):
        total = None
    threads = torch.get_num_threads()
    kind = f"{threads} of {os.cpu_count()} CPUs used"
    return Device(name="cpu", kind=kind, free=free_bytes(device) if total else None, total=total, wrong=_tried(device))


def _cuda(index: int) -> Device:
    device = torch.device("cuda", index)
    wrong = _tried(device)
    if wrong:
        return Device(name=str(device), kind="NVIDIA or AMD GPU", wrong=wrong)
    major, minor = torch.cuda.get_device_capability(device)
    free, total = torch.cuda.mem_get_info(device)
    kind = f"{torch.cuda.get_device_name(device)}, capability {major}.{minor}"
    return Device(name=str(device), kind=kind, free=int(free), total=int(total))


def _tried(device: torch.device) -> str:
    """Return the error of a product on the device; empty if it equals the CPU's result in double precision."""
    numbers = torch.linspace(-1, 1, SIZE * SIZE, dtype=torch.float64).reshape(SIZE, SIZE)
    try:
        found = (numbers.float().to(device) @ numbers.float().to(device)).cpu()
    except (RuntimeError, NotImplementedError, AssertionError) as error:
        return " ".join(str(error).split())[:200]
    if not torch.allclose(found.double(), numbers @ numbers, atol=TOLERANCE):
        return "the product of two small matrices is wrong"
    return ""
