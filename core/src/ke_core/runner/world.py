"""The processes that share a run. torchrun or accelerate starts them, and accelerate knows the rank of each.

They communicate through gloo, and only wait for one another.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from datetime import timedelta
from functools import cache
from typing import Any

from attrs import field, frozen

from ke_core.spec.errors import BadConfig, ProcessLost, ToldToEnd

PATIENCE = timedelta(days=30)
"""How long a process waits for the slowest one. A dead process is noticed at once by its closed connection."""
RESUME = "see its own error; start the same run again, with any number of processes: it resumes"
LAUNCH = "torchrun --nproc-per-node N -m ke_core eval ... starts N processes; docs/many-processes.md has more"


@frozen(kw_only=True)
class World:
    """One of ``size`` processes. ``rank`` 0 leads; ``local_rank`` counts the processes on this machine."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    _meet: Any = field(default=None, repr=False, eq=False)

    @property
    def leads(self) -> bool:
        """True for the process that merges, judges, scores and prints."""
        return self.rank == 0

    def meet(self) -> None:
        """Wait for every process. Raises ProcessLost if one has died."""
        if self._meet is None:
            return
        try:
            self._meet()
        except RuntimeError as error:
            raise ProcessLost(
                f"another of the {self.size} processes of this run has died (this is process {self.rank})", hint=RESUME
            ) from error


def started(environment: Mapping[str, str] | None = None) -> int:
    """Return the number of processes that a launcher has started; 1 without a launcher."""
    given = (os.environ if environment is None else environment).get("WORLD_SIZE", "1")
    if not given.isdecimal() or int(given) < 1:
        raise BadConfig(f"WORLD_SIZE is {given!r}, not a number of processes", hint=LAUNCH)
    return int(given)


@cache
def world() -> World:
    """Return the place of this process. Raises BadConfig if accelerate sees another number of processes."""
    size = started()
    if size == 1:
        return World()
    try:
        from accelerate import PartialState  # noqa: PLC0415  torch takes seconds, and one process needs none of it
    except ImportError as error:
        raise BadConfig(
            f"{size} processes were started (WORLD_SIZE), and accelerate is not installed",
            hint="pip install 'ke-core[distributed]'",
        ) from error
    state = PartialState(cpu=True, timeout=PATIENCE)
    if state.num_processes != size:
        raise BadConfig(
            f"{size} processes were started, and accelerate sees {state.num_processes}: each would do all the work",
            hint=LAUNCH,
        )
    signal.signal(signal.SIGTERM, _ended)  # sent by a launcher to the other processes when one has died
    return World(
        rank=state.process_index, size=size, local_rank=state.local_process_index, meet=state.wait_for_everyone
    )


def _ended(_signal: int, _frame: object) -> None:
    raise ToldToEnd(
        f"process {os.environ.get('RANK')} was terminated: another process of this run has died, or the launcher was "
        "stopped",
        hint=RESUME,
    )


def expect(processes: int | None) -> None:
    """Raise BadConfig if the launcher has started another number of processes than the user asked for.

    For example, accelerate's own launcher always starts one process on CPUs.
    """
    if processes is not None and started() != processes:
        raise BadConfig(f"--processes {processes}, and {started()} were started", hint=LAUNCH)
