"""Free memory: reported by torch for an accelerator, by Linux for the machine and containers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import torch

PROC, GROUPS = Path("/proc"), Path("/sys/fs/cgroup")
VERSION_2 = ("memory.max", "memory.current", "inactive_file")
VERSION_1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
UNKNOWN = 4 * 2**30  # a cautious guess if the system does not report it


def free_bytes(device: torch.device) -> int:
    """Return free memory on ``device``. The reclaimable file cache counts as free."""
    if device.type == "cuda":
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(torch.cuda.mem_get_info(device)[0]) + unused
    return min([*_available(), *_allowed()], default=UNKNOWN)


def _available() -> Iterator[int]:
    """Return the machine's available memory; nothing on systems other than Linux."""
    try:
        lines = (PROC / "meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return
    yield from (int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))


def _allowed() -> Iterator[int]:
    """Yield the memory left in each control group of this process: limits of containers, services and batch jobs."""
    try:
        lines = (PROC / "self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return
    for line in lines:
        _number, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        root, names = (GROUPS / "memory", VERSION_1) if controllers else (GROUPS, VERSION_2)
        # Parent groups limit it too. Inside a container the path may be the host's, and only the root exists.
        here = root / path.lstrip("/")
        for group in (here, *here.parents):
            if group.is_relative_to(root):
                yield from _left(group, *names)


def _left(group: Path, limit: str, used: str, cache: str) -> Iterator[int]:
    """Return limit minus usage; nothing for a group that does not exist or has no limit."""
    try:
        most, taken = (int((group / name).read_text(encoding="ascii")) for name in (limit, used))
        statistics = dict(line.split() for line in (group / "memory.stat").read_text(encoding="ascii").splitlines())
        yield max(0, most - taken + int(statistics.get(cache, 0)))
    except (OSError, ValueError):  # ValueError: "max"
        return
