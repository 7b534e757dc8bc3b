"""Multi-hop questions with a few-shot prompt: ours against one-by-one generation with the whole prompt.

    OMP_NUM_THREADS=1 python benchmarks/questions.py --model smollm2-135m --questions 64

Both write 16 greedy tokens for the first questions of MQuAKE-CF-3k after the same eight demonstrations (about 830
tokens, built from cases at the end of the file). The texts must be identical. Times are CPU times of this process with
one thread, so that other work on the machine does not count; ours include reading the demonstrations once.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import torch

from ke_core.models.hf.model import HFModel
from ke_core.models.resolve import open_model
from ke_core.requests import Generate, Generated

ROOT = Path(__file__).resolve().parents[1]
DEMONSTRATIONS, MAX_TOKENS = 8, 16
T = TypeVar("T")


def demonstration(case: dict[str, Any]) -> str:
    """A question, its hops one after another, and the answer."""
    hops = " ".join(f"{hop['question']} {hop['answer']}." for hop in case["single_hops"])
    return f"Question: {case['questions'][0]}\nStep by step: {hops}\nTherefore the answer is: {case['answer']}\n\n"


def prompts(cases: list[dict[str, Any]], count: int) -> list[str]:
    """The first ``count`` cases' first questions, each after the demonstrations."""
    longest = sorted(cases[-200:], key=lambda case: len(demonstration(case)))[-DEMONSTRATIONS:]
    head = "Answer each question by going from fact to fact.\n\n" + "".join(map(demonstration, longest))
    return [f"{head}Question: {case['questions'][0]}\nStep by step:" for case in cases[:count]]


def one_by_one(model: HFModel, prompt: str) -> str:
    """What transformers' own ``generate`` writes, given the whole prompt each time."""
    ids = torch.tensor([model.encode(prompt)], device=model.device)
    written = model.module.generate(
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=MAX_TOKENS, do_sample=False, pad_token_id=0
    )
    return model.decode(written[0, ids.shape[1] :].tolist())


def timed(work: Callable[[], T]) -> tuple[T, float]:
    """The result, and the CPU seconds it took."""
    began = time.process_time()
    result = work()
    return result, time.process_time() - began


def opened(name: str) -> HFModel:
    """A local folder, or a name that ``ke models list`` shows."""
    model = open_model(name)
    assert isinstance(model, HFModel)
    return model


def read_options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2-135m", metavar="FOLDER_OR_NAME")
    parser.add_argument("--questions", type=int, default=64)
    parser.add_argument(
        "--data-dir", type=Path, default=Path(os.environ.get("KE_DATA_DIR", ROOT.parent / "shared/data"))
    )
    return parser.parse_args()


def main() -> None:
    """Run both and compare."""
    options = read_options()
    torch.set_num_threads(1)

    cases = json.loads((options.data_dir / "mquake" / "MQuAKE-CF-3k.json").read_text(encoding="utf-8"))
    texts = prompts(cases, options.questions)
    model = opened(options.model)
    lengths = [len(ids) for ids in map(model.encode, texts)]
    requests = [Generate(prompt=text, max_tokens=MAX_TOKENS) for text in texts]
    # Neither way pays for what happens once in a process: first touch of the weights, trying out the ways.
    model.generate([Generate(prompt=text[-800:], max_tokens=2) for text in texts[:2]])
    one_by_one(model, "Question:")

    ours, our_seconds = timed(lambda: model.generate(requests))
    theirs, their_seconds = timed(lambda: [one_by_one(model, text) for text in texts])
    same = sum(isinstance(mine, Generated) and mine.text == its for mine, its in zip(ours, theirs, strict=True))

    count = len(texts)
    print(f"{count} questions, prompts of {min(lengths)} to {max(lengths)} tokens, {MAX_TOKENS} greedy tokens")
    print(f"one by one  {their_seconds:8.1f} s CPU  {their_seconds / count:6.3f} s a question")
    print(
        f"ours        {our_seconds:8.1f} s CPU  {our_seconds / count:6.3f} s a question, batches of {model.batch_size}"
    )
    print(f"ratio       {their_seconds / our_seconds:8.1f}, identical texts {same} of {count}, ways {dict(model.ways)}")
    if same < count:
        sys.exit("texts differ")


if __name__ == "__main__":
    main()
