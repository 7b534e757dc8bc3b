"""Optimising the targets of edits: ours, many edits together, against the way of published code, edit by edit.

    OMP_NUM_THREADS=1 python benchmarks/targets.py --model smollm2-135m --edits 8

Both optimise the same edits of MQuAKE-CF-3k with the same left contexts and the same number of steps. Published
code runs the whole model over all rows of one edit (one a left context, one for the KL term) in every step, and makes
logits of every position; ours keeps the states below the edited layer, runs from the subject on, makes the logits that
are scored, and takes edits together. The targets must agree within 1e-5 of their length. Times are CPU times of this
process with one thread.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from ke_core.models.hf.model import HFModel
from ke_core.models.resolve import open_model
from ke_core.plugins.catalog import read
from ke_core.plugins.manager import discover
from ke_core.run.components import choose
from ke_core.whitebox.modules import ModuleMap, module_map
from ke_core.whitebox.optimise import Plan, ZSettings, optimise, plan
from ke_core.whitebox.rewrites import rewrite
from ke_core.whitebox.subject import padded

ROOT = Path(__file__).resolve().parents[1]
TEMPLATES = (
    "{}", "The first of the two is now in print. {}", "Therefore we have to look at it. {}",
    "Because of the rain nobody came to. {}", "I have been there once before, in. {}", "You see it from the hill. {}",
)  # fmt: skip
T = TypeVar("T")


def published(modules: ModuleMap, made: Plan, settings: ZSettings) -> Tensor:
    """The target z [d] of one edit: whole passes over all its rows, all logits, torch's Adam."""
    rows = (*made.rows, made.essence)
    ids, mask = padded([row.ids for row in rows], modules.device)
    index = torch.tensor([row.index for row in rows])
    every = torch.arange(len(rows))
    predicts = [len(row.ids) - len(made.target) for row in made.rows]
    delta = torch.zeros(modules.hidden, requires_grad=True)
    adam = torch.optim.Adam([delta], lr=settings.lr)
    clean = before = None

    def hook(_module: Any, _args: Any, output: Any) -> Any:
        nonlocal clean
        states = output if isinstance(output, Tensor) else output[0]
        if clean is None:
            clean = states[0, index[0]].detach().clone()
        moved = states.index_put((every, index), states[every, index] + delta)
        return moved if isinstance(output, Tensor) else (moved, *output[1:])

    handle = modules.layers[settings.layer].block.register_forward_hook(hook)
    for step in range(settings.steps):
        logs = modules.module(input_ids=ids, attention_mask=mask, use_cache=False).logits.float().log_softmax(-1)
        chosen = [
            logs[row, at : at + len(made.target)].gather(1, torch.tensor(made.target)[:, None]).mean()
            for row, at in enumerate(predicts)
        ]
        now = logs[-1, index[-1]]
        before = now.detach() if before is None else before
        assert clean is not None
        loss = -torch.stack(chosen).mean() + settings.kl * (now.exp() * (now - before)).sum()
        loss = loss + settings.weight_decay * delta.norm() / clean.norm() ** 2
        if loss < settings.stop_loss or step == settings.steps - 1:
            break
        adam.zero_grad()
        loss.backward()
        adam.step()
        with torch.no_grad():
            limit = settings.clamp * clean.norm()
            if delta.norm() > limit:
                delta.mul_(limit / delta.norm())
    handle.remove()
    assert clean is not None
    return (clean + delta).detach()


def plans(model: HFModel, data: Path, count: int) -> list[Plan]:
    """The first ``count`` edits, tokenised."""
    options = {"mquake": {"data_dir": str(data), "view": "edits"}}
    cases = choose(read(discover()), "dataset", "mquake-cf-3k", options).build().cases()
    edits = [case.edits[0] for case in itertools.islice(cases, count)]
    return [plan(model.tokenizer, rewrite(edit), TEMPLATES) for edit in edits]


def timed(work: Callable[[], T]) -> tuple[T, float]:
    """The result, and the CPU seconds it took."""
    began = time.process_time()
    result = work()
    return result, time.process_time() - began


def together(modules: ModuleMap, made: Sequence[Plan], settings: ZSettings) -> list[Tensor]:
    """Ours, all edits at once, longest first."""
    order = sorted(range(len(made)), key=lambda at: -made[at].suffix)
    found = dict(zip(order, optimise(modules, [made[at] for at in order], settings), strict=True))
    return [found[at].z for at in range(len(made))]


def read_options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2-135m", metavar="FOLDER_OR_NAME")
    parser.add_argument("--edits", type=int, default=8)
    parser.add_argument("--steps", type=int, default=6, help="evaluations of the loss; none stops earlier")
    parser.add_argument("--layer", type=int, default=8)
    parser.add_argument(
        "--data-dir", type=Path, default=Path(os.environ.get("KE_DATA_DIR", ROOT.parent / "shared/data"))
    )
    return parser.parse_args()


def main() -> None:
    """Run both and compare."""
    given = read_options()
    torch.set_num_threads(1)
    model = open_model(given.model)
    assert isinstance(model, HFModel)
    modules = module_map(model.module)
    settings = ZSettings(
        layer=given.layer, steps=given.steps, lr=0.5, kl=0.0625, weight_decay=1e-3, clamp=4.0, stop_loss=0.0
    )
    made = plans(model, given.data_dir, given.edits)
    one_by_one, slow = timed(lambda: [published(modules, each, settings) for each in made])
    alone, single = timed(lambda: [optimise(modules, [each], settings)[0].z for each in made])
    ours, fast = timed(lambda: together(modules, made, settings))
    off = max(float((a - b).norm() / b.norm()) for a, b in zip(ours, one_by_one, strict=True))
    mixed = max(float((a - b).norm() / b.norm()) for a, b in zip(ours, alone, strict=True))
    print(f"{len(made)} edits, {len(TEMPLATES)} left contexts, {given.steps} steps, layer {given.layer}")
    print(f"  published way, edit by edit   {slow:8.1f} CPU s")
    print(f"  ours, edit by edit            {single:8.1f} CPU s   {slow / single:5.1f}x")
    print(f"  ours, together                {fast:8.1f} CPU s   {slow / fast:5.1f}x")
    print(f"  largest difference: {off:.1e} of |z| to the published way, {mixed:.1e} between together and alone")
    if max(off, mixed) > 1e-5:
        sys.exit("the targets differ")


if __name__ == "__main__":
    main()
