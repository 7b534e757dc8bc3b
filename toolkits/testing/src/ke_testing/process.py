"""The state of the process that code may forget to restore, and other processes to compare answers with."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Mapping


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
