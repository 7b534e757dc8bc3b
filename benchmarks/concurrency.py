"""The client of model servers: concurrent requests to a real vLLM server, against the same model in this process.

    python scripts/vllm_env.py                  # once; KE_VLLM names another environment
    python benchmarks/concurrency.py --data-dir DATA

For each number of concurrent requests, both answer another part of MQuAKE-CF-3k, so that no answer comes from the
server's prefix cache. The eight demonstrations before each question (about 830 tokens) are in the cache. The greedy
texts must be identical. The CPU time includes all processes of the server. Other work on the machine hardly affects it.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import torch
from attrs import frozen
from published import add_data_dir
from questions import MAX_TOKENS, prompts

from ke_core.spec.requests import Generate, Generated
from ke_core.spec.specs import ModelRequest
from ke_plugin_hf.loading import load
from ke_plugin_hf.sources import folder_of
from ke_plugin_openai.spec import build
from ke_plugin_openai.testing import RunningServer, vllm_program, vllm_server

MODEL, NAME = "smollm2-135m", "model"
LEVELS = (8, 16, 32, 64)
Texts = list[str]


@frozen(kw_only=True)
class TimedTexts:
    """Texts, and the wall and CPU seconds that they took."""

    texts: Texts
    wall: float
    cpu: float


def timed(work: Callable[[], Sequence[Generated | Exception]], others: Callable[[], float]) -> TimedTexts:
    """Measure ``work``. ``others``: CPU seconds of other processes so far."""
    began, before = time.perf_counter(), _own() + others()
    found = work()
    wall, cpu = time.perf_counter() - began, _own() + others() - before
    return TimedTexts(
        texts=[one.text if isinstance(one, Generated) else repr(one) for one in found], wall=wall, cpu=cpu
    )


def installed_vllm() -> Path:
    """Return the path of ``vllm``. Ends the program if it is not installed."""
    program = vllm_program(Path(__file__).resolve().parents[1])
    if not program.is_file():
        sys.exit(f"there is no {program}: run python scripts/vllm_env.py")
    return program


def _own() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def read_options() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=192, help="for each number of concurrent requests")
    parser.add_argument("--levels", type=int, nargs="+", default=LEVELS, metavar="N")
    parser.add_argument("--threads", type=int, default=2, help="of torch in this process")
    add_data_dir(parser)
    return parser.parse_args()


def measure(server: RunningServer, given: argparse.Namespace) -> int:
    """Print a line for each number of concurrent requests. Return how many texts differ."""
    cases = json.loads((given.data_dir / "mquake" / "MQuAKE-CF-3k.json").read_text(encoding="utf-8"))
    here = load(ModelRequest(id=str(folder_of(MODEL)), device="cpu"), str(folder_of(MODEL)))
    there = build(ModelRequest(id=NAME, base_url=f"{server.url}/v1"))
    texts = prompts(cases, given.questions * len(given.levels) + 1)
    requests = [Generate(prompt=text, max_tokens=MAX_TOKENS) for text in texts]
    for model in (here, there):  # the demonstrations, and what happens once in a process
        model.generate(requests[-1:])
    print(f"{given.questions} questions each, {MAX_TOKENS} greedy tokens, {MODEL} in float32")
    print("concurrent     in process              server           server/process   identical")
    differ = 0
    for number, level in enumerate(given.levels):
        part = requests[number * given.questions : (number + 1) * given.questions]
        client = build(ModelRequest(id=NAME, base_url=f"{server.url}/v1", concurrency=level))
        ours = timed(partial(here.generate, part), lambda: 0.0)
        theirs = timed(partial(client.generate, part), server.cpu_seconds)
        same = sum(one == other for one, other in zip(ours.texts, theirs.texts, strict=True))
        differ += given.questions - same
        print(
            f"{level:10d} {ours.wall:8.1f} s {ours.cpu:6.1f} CPU s {theirs.wall:8.1f} s {theirs.cpu:6.1f} CPU s "
            f"{theirs.wall / ours.wall:6.2f} {theirs.cpu / ours.cpu:6.2f}   {same} of {given.questions}",
            flush=True,
        )
    return differ


def main() -> None:
    """Start the server and measure."""
    given = read_options()
    torch.set_num_threads(given.threads)
    program = installed_vllm()
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "server.log"
        with vllm_server(program, folder_of(MODEL), NAME, log) as server:
            differ = measure(server, given)
    if differ:
        sys.exit(f"{differ} texts differ")


if __name__ == "__main__":
    main()
