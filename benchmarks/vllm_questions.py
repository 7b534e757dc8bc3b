"""Multi-hop questions with a few-shot prompt: this library against vLLM, each in one process.

    python scripts/vllm_env.py                  # once; KE_VLLM names another environment
    python benchmarks/vllm_questions.py --data-dir DATA
    python benchmarks/vllm_questions.py --data-dir DATA --dtype bfloat16 --threads 1

The questions are those of ``questions.py``. vLLM has its prefix cache, so both can read the demonstrations once, within
the measured time. The variants alternate, and the best of ``--repeats`` measurements counts. vLLM starts again for
each. In float32 all greedy texts must be identical. In half precision the identical texts are counted.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import torch
from concurrency import MODEL, TimedTexts, installed_vllm, timed
from published import add_data_dir
from questions import MAX_TOKENS, WARM_UP, prompts

from ke_core.engine.models import open_model
from ke_core.spec.requests import Generate
from ke_core.spec.specs import ModelRequest
from ke_plugin_hf.sources import folder_of

CONTEXT = 2048
INSIDE = Path(__file__).with_name("inside_vllm.py")
SETTINGS = {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_CPU_KVCACHE_SPACE": "4", "VLLM_NO_USAGE_STATS": "1",
            "VLLM_CPU_OMP_THREADS_BIND": "nobind", "DO_NOT_TRACK": "1", "VLLM_LOGGING_LEVEL": "ERROR"}  # fmt: skip


def ours(texts: list[str], dtype: str) -> TimedTexts:
    """Generate in this process."""
    model = open_model(MODEL, ModelRequest(id="", device="cpu", dtype=dtype))
    model.generate([Generate(prompt=text, max_tokens=MAX_TOKENS) for text in WARM_UP])
    requests = [Generate(prompt=text, max_tokens=MAX_TOKENS) for text in texts]
    return timed(lambda: model.generate(requests), lambda: 0.0)


def theirs(texts: list[str], dtype: str, threads: int) -> TimedTexts:
    """Generate with vLLM in a process of its own."""
    work = {"model": str(folder_of(MODEL)), "dtype": dtype, "context": CONTEXT, "max_tokens": MAX_TOKENS,
            "warm_up": WARM_UP, "prompts": texts}  # fmt: skip
    ended = subprocess.run(  # noqa: S603  a program of this repository
        [str(installed_vllm().with_name("python")), str(INSIDE)], input=json.dumps(work), text=True, check=True,
        stdout=subprocess.PIPE, env=os.environ | SETTINGS | {"OMP_NUM_THREADS": str(threads)},
    )  # fmt: skip
    return TimedTexts(**json.loads(ended.stdout))


def read_options() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--dtype", default="float32", choices=("float32", "bfloat16"))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=2)
    add_data_dir(parser)
    return parser.parse_args()


def main() -> None:
    """Generate with both, print and compare."""
    given = read_options()
    torch.set_num_threads(given.threads)
    cases = json.loads((given.data_dir / "mquake" / "MQuAKE-CF-3k.json").read_text(encoding="utf-8"))
    texts = prompts(cases, given.questions)
    found: dict[str, list[TimedTexts]] = {"ke": [], "vLLM": []}
    for _repeat in range(given.repeats):
        found["vLLM"].append(theirs(texts, given.dtype, given.threads))
        found["ke"].append(ours(texts, given.dtype))
    best = {name: min(some, key=lambda one: one.wall) for name, some in found.items()}
    print(f"{len(texts)} questions, {MAX_TOKENS} greedy tokens, {MODEL} in {given.dtype}, {given.threads} threads")
    for name, one in best.items():
        print(f"{name:5} {one.wall:8.1f} s {one.cpu:8.1f} CPU s")
    pairs = [
        pair for mine, its in zip(*found.values(), strict=True) for pair in zip(mine.texts, its.texts, strict=True)
    ]
    same = sum(one == other for one, other in pairs)
    ratio, work = best["vLLM"].wall / best["ke"].wall, best["vLLM"].cpu / best["ke"].cpu
    print(
        f"ke: {ratio:.2f}x the throughput of vLLM, {work:.2f}x per CPU second; identical texts {same} of {len(pairs)}"
    )
    if same < len(pairs) and given.dtype == "float32":
        sys.exit("texts differ")


if __name__ == "__main__":
    main()
