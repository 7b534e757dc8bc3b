"""The state of the process that code may forget to restore, and other processes to run code in."""

from __future__ import annotations

import multiprocessing
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

FORKS = multiprocessing.get_context("forkserver")
"""Forks processes from one that has imported these modules; those that are not installed are skipped."""
FORKS.set_forkserver_preload(["ke_core.cli.main", "transformers.models.llama.modeling_llama"])


def process_marks() -> dict[str, object]:
    """Return the state by name, to compare with ``==``; of numpy and torch only if they are imported."""
    marks: dict[str, object] = {
        "the working directory": os.getcwd(),  # noqa: PTH109  text compares
        "environment variables": dict(os.environ),
        "the state of random": random.getstate(),
    }
    if "numpy" in sys.modules:
        import numpy as np

        marks["the state of numpy.random"] = repr(np.random.get_state())  # noqa: NPY002  the global state is compared
    if "torch" in sys.modules:
        import torch

        marks["the state of torch's random numbers"] = bytes(torch.get_rng_state().numpy())
        marks["whether torch computes gradients"] = torch.is_grad_enabled()
        marks["torch's default dtype"] = torch.get_default_dtype()
        marks["whether torch is deterministic"] = torch.are_deterministic_algorithms_enabled()
        marks["torch's number of threads"] = torch.get_num_threads()
    return marks


def disturb(environment: Mapping[str, str]) -> None:
    """Set the environment to ``environment`` and advance every random generator, so that setting the same value is
    detected.
    """
    os.environ.clear()
    os.environ.update(environment)
    random.random()  # noqa: S311  the number is not used
    if "numpy" in sys.modules:
        import numpy as np

        np.random.random()  # noqa: NPY002  as above
    if "torch" in sys.modules:
        import torch

        torch.rand(1)


def imported_by(code: str, *modules: str) -> list[str]:
    """Return which of ``modules`` a new process has imported after running ``code``. Raises CalledProcessError."""
    code = f"{code}\nimport sys\nprint('', *(name for name in {modules!r} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[-1].split()


def under_hash_seeds(code: str) -> tuple[str, str]:
    """Return the output of ``code`` in two processes with different hash seeds. Raises CalledProcessError."""
    one, other = (
        subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    )
    return one, other


def run_forked(
    call: Callable[..., object], *args: object, cwd: Path, env: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Call ``call`` in a process of its own, in the folder ``cwd``, and return its exit status and output.

    The process is forked from one that has imported the libraries of models: importing them takes seconds each time.
    ``call`` is pickled, so it is a function of a module.
    """
    with tempfile.TemporaryDirectory() as folder:
        out, err = Path(folder, "out"), Path(folder, "err")
        process = FORKS.Process(target=_redirected, args=(call, args, cwd, dict(env), out, err))
        process.start()
        try:
            process.join()
        finally:
            process.kill()
        assert process.exitcode is not None
        return subprocess.CompletedProcess(
            [call.__name__, *map(str, args)],
            process.exitcode,
            out.read_text(encoding="utf-8"),
            err.read_text(encoding="utf-8"),
        )


def _redirected(
    call: Callable[..., object], args: tuple[object, ...], cwd: Path, env: dict[str, str], out: Path, err: Path
) -> None:
    for descriptor, path in ((1, out), (2, err)):
        with path.open("wb") as file:
            os.dup2(file.fileno(), descriptor)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    sys.path[:0] = filter(None, env.get("PYTHONPATH", "").split(os.pathsep))
    call(*args)
