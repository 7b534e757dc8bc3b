"""Multi-hop questions with a few-shot prompt: batched, against one-by-one generation with the whole prompt.

    OMP_NUM_THREADS=1 python benchmarks/questions.py
    python benchmarks/questions.py --model random:llama-8b --device cuda --dtype bfloat16

Both write 16 greedy tokens for the first questions of MQuAKE-CF-3k after the same eight demonstrations (about 830
tokens, built from cases at the end of the file). The time of ``ke`` includes reading the demonstrations once. The texts
must be identical. In half precision the two variants round differently, and the identical texts are counted.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

import torch
from measure import Comparison, Stopwatch, show_profile, show_rates
from opening import add_model, opened, torch_products
from published import add_data_dir

from ke_core.spec.requests import Generate, Generated
from ke_plugin_hf.model import HFModel

DEMONSTRATIONS, MAX_TOKENS, PROFILED = 8, 16, 32
WARM_UP = [f"{'Question: Who wrote Misery? Answer: Stephen King. ' * 8}Who wrote {title}?" for title in ("It", "Emma")]
"""Prompts with a prefix of their own, for what happens once in a process."""


def demonstration(case: dict[str, Any]) -> str:
    """Return a question, its hops one after another, and the answer."""
    hops = " ".join(f"{hop['question']} {hop['answer']}." for hop in case["single_hops"])
    return f"Question: {case['questions'][0]}\nStep by step: {hops}\nTherefore the answer is: {case['answer']}\n\n"


def prompts(cases: list[dict[str, Any]], count: int) -> list[str]:
    """Return the first question of each of the first ``count`` cases, after the demonstrations."""
    longest = sorted(cases[-200:], key=lambda case: len(demonstration(case)))[-DEMONSTRATIONS:]
    head = "Answer each question by going from fact to fact.\n\n" + "".join(map(demonstration, longest))
    return [f"{head}Question: {case['questions'][0]}\nStep by step:" for case in cases[:count]]


def one_by_one(model: HFModel, prompt: str) -> str:
    """Generate with transformers' ``generate``, with the whole prompt each time."""
    ids = torch.tensor([model.encode(prompt)], device=model.device)
    written = model.module.generate(
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=MAX_TOKENS, do_sample=False, pad_token_id=0
    )
    return model.decode(written[0, ids.shape[1] :].tolist())


def read_options() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_model(parser)
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--plain", type=int, metavar="N", help="number of questions for the plain loop (default: all)")
    parser.add_argument("--profile", action="store_true", help="where our time goes, on a few questions once more")
    add_data_dir(parser)
    return parser.parse_args()


def compare(model: HFModel, given: argparse.Namespace) -> Comparison:
    """Run both, print and compare."""
    cases = json.loads((given.data_dir / "mquake" / "MQuAKE-CF-3k.json").read_text(encoding="utf-8"))
    texts = prompts(cases, given.questions)
    watch = Stopwatch(model.device)
    lengths = [len(ids) for ids in map(model.encode, texts)]
    requests = [Generate(prompt=text, max_tokens=MAX_TOKENS) for text in texts]
    # Neither way pays for what happens once in a process: first touch of the weights, trying out the ways.
    model.generate([Generate(prompt=text, max_tokens=2) for text in WARM_UP])
    one_by_one(model, "Question:")

    before = model.passes()
    ours, fast = watch.timed(lambda: model.generate(requests))
    passes, batch = model.passes() - before, model.batch_size
    few = texts[: given.plain]
    with torch_products(model.module):
        theirs, some = watch.timed(lambda: [one_by_one(model, text) for text in few])
    same = sum(isinstance(mine, Generated) and mine.text == its for mine, its in zip(ours, theirs, strict=False))

    count, unit = len(texts), watch.unit
    slow = some * count / len(few)
    print(
        f"{count} questions, prompts of {min(lengths)} to {max(lengths)} tokens, {MAX_TOKENS} greedy tokens, ", end=""
    )
    print(f"{model.id} in {given.dtype}")
    print(f"one by one  {slow:8.1f} {unit}  {slow / count:6.3f} s a question, from {len(few)} of them, ", end="")
    print(f"{sum(lengths) / slow:,.0f} tokens/s read")
    print(f"ours        {fast:8.1f} {unit}  {fast / count:6.3f} s a question, batches of {batch}")
    print(f"ratio       {slow / fast:8.1f}, identical texts {same} of {len(few)}, ways {dict(model.backends)}")
    show_rates(model, passes, fast)
    if given.profile:
        # with the demonstrations' keys and values kept, as for all questions but the first
        show_profile(lambda: model.generate(requests[:PROFILED]), model.module)
    if same < len(few) and given.dtype == "float32":
        sys.exit("texts differ")
    work = f"{count} questions with {DEMONSTRATIONS} demonstrations, {MAX_TOKENS} greedy tokens"
    return Comparison(work=work, ours=fast, plain=slow, agreement=f"{same} of {len(few)} texts")


def main() -> None:
    """Run both on the model of the command line."""
    given = read_options()
    torch.set_num_threads(1)
    compare(opened(given), given)


if __name__ == "__main__":
    main()
