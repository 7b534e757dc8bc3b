"""A real vLLM server for tests and benchmarks, from an environment of its own.

``scripts/vllm_env.py`` creates the environment in ``.tox/vllm`` of the checkout; ``KE_VLLM`` names another one.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from attrs import frozen

VARIABLE, DEFAULT = "KE_VLLM", Path(".tox/vllm")
READY = 700.0  # seconds: 45 on two idle cores, most of it imports
SETTINGS = {
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "True",
    "HF_HUB_OFFLINE": "1",
}
OPTIONS = ("--dtype", "float32", "--max-model-len", "2048", "--enable-prefix-caching", "--enforce-eager")


@frozen(kw_only=True)
class RunningServer:
    """A server at ``url`` (without ``/v1``), whose processes are in the group ``group``."""

    url: str
    group: int

    def cpu_seconds(self) -> float:
        """Return the CPU seconds of its processes so far, from /proc."""
        ticks = 0
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):  # a process that just ended
                fields = stat.read_text().rpartition(")")[2].split()
                ticks += sum(map(int, fields[11:13])) if int(fields[2]) == self.group else 0
        return ticks / os.sysconf("SC_CLK_TCK")


def vllm_program(root: Path) -> Path:
    """Return the path of ``vllm`` in the environment of the checkout ``root``; it may not exist."""
    return (Path(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else root / DEFAULT) / "bin/vllm"


@contextmanager
def vllm_server(
    program: Path, model: Path, name: str, log: Path, options: Sequence[str] = ()
) -> Iterator[RunningServer]:
    """Serve ``model`` as ``name`` in a process group of its own, until the block ends.

    Raises RuntimeError with the end of ``log`` if the server does not start.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        str(program),
        "serve",
        str(model),
        "--served-model-name",
        name,
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
    ]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, *OPTIONS, *options], stdout=output, stderr=subprocess.STDOUT, env=os.environ | SETTINGS,
            start_new_session=True,
        )  # fmt: skip
    try:
        _wait(process, port, log)
        yield RunningServer(url=f"http://127.0.0.1:{port}", group=process.pid)
    finally:
        _stop(process)


def _wait(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + READY
    while process.poll() is None and time.monotonic() < deadline:
        with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5):
            return
        time.sleep(1)
    state = f"ended with status {process.returncode}" if process.poll() is not None else f"is not ready after {READY} s"
    raise RuntimeError(f"vLLM {state}: {log.read_text(encoding='utf-8', errors='replace')[-3000:]}")


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End the server and its engine process."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    with suppress(ProcessLookupError):  # the engine, if it is still there
        os.killpg(process.pid, signal.SIGKILL)
