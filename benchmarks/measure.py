"""Shared by the benchmarks: a stopwatch, and the hardware limits of a piece of work.

On a CPU the stopwatch counts the CPU time of this process with one thread, so that other work on the machine has little
effect. On an accelerator it counts wall time and synchronizes before each reading.
"""

from __future__ import annotations

import resource
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from attrs import frozen
from torch.profiler import ProfilerActivity, profile

from ke_core.spec.results import ForwardCalls
from ke_plugin_hf.model import HFModel

T = TypeVar("T")
GIGA, GIB, MICRO = 1e9, 2**30, 1e-6
OPERATION = "aten::"
PRODUCTS = frozenset({"aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::mv", "aten::addmv"})
ATTENTION = "attention"  # in the name of every operation that is all of it


class Stopwatch:
    """Measure time and memory of work on ``device``."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.waits = device.type == "cuda"

    @property
    def unit(self) -> str:
        """Return the unit of ``now``."""
        return "s" if self.waits else "s CPU"

    def now(self) -> float:
        """Return seconds since an arbitrary start."""
        if not self.waits:
            return time.process_time()
        torch.cuda.synchronize(self.device)
        return time.perf_counter()

    def timed(self, work: Callable[[], T]) -> tuple[T, float]:
        """Return the result and the seconds it took."""
        began = self.now()
        result = work()
        return result, self.now() - began

    def memory(self) -> float:
        """Return the peak memory in GiB: allocated on the accelerator, else resident."""
        if self.waits:
            return torch.cuda.max_memory_allocated(self.device) / GIB
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / GIB


@frozen(kw_only=True)
class Comparison:
    """Seconds of the same work by ``ke`` and by a plain loop. ``agreement``: how far the results are identical."""

    work: str
    ours: float
    plain: float
    agreement: str

    @property
    def ratio(self) -> float:
        """Return how many times faster ``ke`` is."""
        return self.plain / self.ours


@frozen(kw_only=True)
class PeakRates:
    """Peak rates of a device: FLOP/s of a large product, bytes/s of reading a large matrix once."""

    flops: float
    read: float


def limits(device: torch.device, dtype: torch.dtype) -> PeakRates:
    """Measure the limits of the device, the best of three runs each."""
    watch = Stopwatch(device)
    side, rows = (8192, 2**18) if watch.waits else (2048, 2**15)
    square = torch.ones(side, side, device=device, dtype=dtype)
    tall = torch.ones(rows, side, device=device, dtype=dtype)
    product = min(watch.timed(lambda: square @ square)[1] for _ in range(3))
    reading = min(watch.timed(lambda: tall @ square[0])[1] for _ in range(3))
    return PeakRates(flops=2 * side**3 / product, read=tall.nbytes / reading)


def show_rates(model: HFModel, made: ForwardCalls, seconds: float) -> None:
    """Print tokens per second, and the share of the device's arithmetic and bandwidth that they make.

    A token costs two operations a parameter of the blocks (attention's scores and the head are left out), and every
    pass reads blocks and head once. Padding counts as tokens.
    """
    module, top = model.module, limits(model.device, model.module.dtype)
    head = module.get_output_embeddings().weight
    ends = {head, module.get_input_embeddings().weight}  # one and the same in many models
    blocks = sum(part.numel() for part in module.parameters()) - sum(part.numel() for part in ends)
    weights = (blocks + head.numel()) * head.itemsize
    flops, read = 2 * blocks * made.tokens / seconds, weights * made.passes / seconds
    print(f"  {made.tokens / seconds:,.0f} tokens/s in {made.passes:,} passes of {made.tokens / made.passes:,.0f}")
    print(f"  arithmetic {_of(flops, top.flops, 'GFLOP/s')}, weight reads {_of(read, top.read, 'GB/s')}")


def show_profile(work: Callable[[], Any], model: torch.nn.Module) -> None:
    """Repeat ``work`` under torch's profiler, and print where the time goes and the speed of its matrix products."""
    first = next(model.parameters())
    watch, top = Stopwatch(first.device), limits(first.device, first.dtype)
    kinds = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if watch.waits else [])]
    with profile(activities=kinds, with_flops=True) as seen:
        watch.now()  # waits
        began = time.perf_counter()
        work()
        watch.now()
        wall = time.perf_counter() - began
    shares: defaultdict[str, float] = defaultdict(float)
    flops = 0
    for event in seen.key_averages():
        if event.key.startswith(OPERATION):  # on an accelerator it counts with the kernels that it started
            own = event.self_device_time_total if watch.waits else event.self_cpu_time_total
            shares[_kind(event.key)] += own * MICRO / wall
            flops += event.flops or 0
    shares["outside of operations"] = max(0.0, 1 - sum(shares.values()))
    print(f"  profile of {wall:.1f} s wall time: ", end="")
    print(", ".join(f"{name} {share:.0%}" for name, share in sorted(shares.items(), key=lambda item: -item[1])))
    if in_products := shares["matrix products"] * wall:
        print(f"  products {_of(flops / in_products, top.flops, 'GFLOP/s')} while they run, ", end="")
        print(f"{_of(flops / wall, top.flops, 'GFLOP/s')} over all")


def _kind(operation: str) -> str:
    if operation in PRODUCTS:
        return "matrix products"
    return "attention" if ATTENTION in operation else "other operations"


def _of(rate: float, most: float, unit: str) -> str:
    return f"{rate / GIGA:,.1f} of {most / GIGA:,.0f} {unit} ({rate / most:.0%})"
