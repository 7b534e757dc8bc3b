"""Optimize the targets of edits: many edits together, against the edit-by-edit loop of published code.

    OMP_NUM_THREADS=1 python benchmarks/targets.py
    python benchmarks/targets.py --model random:llama-8b --device cuda --dtype bfloat16 --edits 32 --steps 4

Both optimize the same edits of MQuAKE-CF-3k with the same left contexts and the same number of steps. In every step,
published code runs the whole model over all rows of one edit (one per left context, one for the KL term), and applies
the head twice to every position, once in the model and once explicitly. ``ke`` keeps the states below the edited layer,
starts at the subject, computes only the logits that it scores, and batches edits. The targets must agree within 3e-4 of
their length. In half precision the two variants round differently, and the difference is printed.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from attrs import evolve
from measure import Comparison, Stopwatch, show_profile
from opening import add_model, opened, torch_products
from published import add_data_dir
from torch import Tensor

from ke_core.plugins.catalog import read_catalog
from ke_core.plugins.manager import discover
from ke_core.runner.resolve import resolve_component
from ke_plugin_hf.model import HFModel
from ke_testing.fakes import make_session
from ke_weights.modules import ModuleMap, module_map
from ke_weights.optimize import TargetRows, TargetSettings, target_rows
from ke_weights.rewrites import Rewrite, rewrite
from ke_weights.subject import SubjectTokens, padded
from ke_weights.targets import optimized_targets

TEMPLATES = (
    "{}", "The first of the two is now in print. {}", "Therefore we have to look at it. {}",
    "Because of the rain nobody came to. {}", "I have been there once before, in. {}", "You see it from the hill. {}",
)  # fmt: skip
TOLERANCE, PROFILED = 3e-4, 8  # measured after 20 steps: 1.0e-4 with oneDNN, 3.9e-5 with MKL


def all_rows(made: TargetRows) -> tuple[SubjectTokens, ...]:
    """Return the rows of an edit, the one of the KL term last."""
    assert made.essence is not None
    return (*made.rows, made.essence)


def published(modules: ModuleMap, made: TargetRows, settings: TargetSettings) -> Tensor:
    """Optimize the target z [d] of one edit, of its block or its MLP: whole passes over all rows, the head at all
    positions, torch's Adam.
    """
    device, rows = modules.device, all_rows(made)
    ids, mask = padded([row.ids for row in rows], device)
    index, every = torch.tensor([row.index for row in rows], device=device), torch.arange(len(rows), device=device)
    target = torch.tensor(made.target, device=device)[:, None]
    predicts = [len(row.ids) - len(made.target) for row in made.rows]
    delta = torch.zeros(modules.hidden, device=device, requires_grad=True)
    adam = torch.optim.Adam([delta], lr=settings.lr)
    clean = before = top = None

    def move(_module: Any, _args: Any, output: Any) -> Any:
        nonlocal clean
        states = output if isinstance(output, Tensor) else output[0]
        if clean is None:
            clean = states[0, index[0]].detach().to(delta.dtype).clone()
        moved = states.index_put((every, index), (states[every, index] + delta).to(states.dtype))
        return moved if isinstance(output, Tensor) else (moved, *output[1:])

    def keep(_module: Any, _args: Any, output: Any) -> None:
        nonlocal top
        top = output if isinstance(output, Tensor) else output[0]

    place = modules.layers[settings.layer]
    handles = [
        (place.block if settings.site == "block" else place.projection).register_forward_hook(move),
        modules.layers[-1].block.register_forward_hook(keep),
    ]
    for step in range(settings.steps):
        logits = modules.module(input_ids=ids, attention_mask=mask, use_cache=False).logits
        now = logits.float().log_softmax(-1)[-1, index[-1]]
        before = now.detach() if before is None else before
        assert clean is not None
        assert top is not None
        logs = modules.logits(top[: len(predicts)]).log_softmax(-1)
        chosen = [logs[row, at : at + len(target)].gather(1, target).mean() for row, at in enumerate(predicts)]
        loss = -torch.stack(chosen).mean() + settings.kl * (now.exp() * (now - before)).sum()
        loss = loss + settings.weight_decay * delta.norm() / clean.norm() ** 2
        if step == settings.steps - 1 or loss < settings.stop_loss:
            break
        adam.zero_grad()
        loss.backward()
        adam.step()
        with torch.no_grad():
            limit = settings.clamp * clean.norm()
            if delta.norm() > limit:
                delta.mul_(limit / delta.norm())
    for handle in handles:
        handle.remove()
    assert clean is not None
    return (clean + delta).detach()


def together(model: HFModel, modules: ModuleMap, rewrites: Sequence[Rewrite], settings: TargetSettings) -> list[Tensor]:
    """Optimize all targets with the code of the editors, without the cache."""
    with tempfile.TemporaryDirectory() as folder:
        session = make_session(model, root=Path(folder))
        return [target.z for target in optimized_targets(session, modules, rewrites, TEMPLATES, settings)]


def first_edits(data: Path, count: int) -> list[Rewrite]:
    """Return the first ``count`` edits of the file."""
    options = {"mquake": {"data_dir": str(data), "view": "edits"}}
    cases = resolve_component(read_catalog(discover()), "dataset", "mquake-cf-3k", options).build().cases()
    return [rewrite(case.edits[0]) for case in itertools.islice(cases, count)]


def read_options() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_model(parser)
    parser.add_argument("--edits", type=int, default=32)
    parser.add_argument("--steps", type=int, default=20, help="loss evaluations per edit, without early stopping")
    parser.add_argument("--layer", type=int, default=8)
    parser.add_argument("--profile", action="store_true", help="run a few edits again and print where the time goes")
    add_data_dir(parser)
    return parser.parse_args()


def compare(model: HFModel, given: argparse.Namespace) -> Comparison:
    """Run both, print and compare."""
    modules, watch = module_map(model.module), Stopwatch(model.device)
    settings = TargetSettings(
        layer=given.layer, steps=given.steps, lr=0.5, kl=0.0625, weight_decay=1e-3, clamp=4.0, stop_loss=0.0
    )
    edits = first_edits(given.data_dir / "mquake", given.edits)
    together(model, modules, edits[:1], evolve(settings, steps=1))  # neither way pays for the first touch

    ours, fast = watch.timed(lambda: together(model, modules, edits, settings))
    plans = [target_rows(model.tokenizer, edit, TEMPLATES) for edit in edits]
    with torch_products(model.module):
        theirs, slow = watch.timed(lambda: [published(modules, made, settings) for made in plans])
    off = max(float((a - b).norm() / b.norm()) for a, b in zip(ours, theirs, strict=True))

    count, unit = len(edits), watch.unit
    tokens = sum(len(row.ids) for made in plans for row in all_rows(made)) / count
    kept = sum(len(row.ids) - row.index for made in plans for row in made.rows) / count + 1
    print(f"{count} edits, {len(TEMPLATES)} left contexts, {given.steps} steps, layer {given.layer} of "
          f"{len(modules.layers)}, {model.id} in {given.dtype}")  # fmt: skip
    print(
        f"published code, edit by edit {slow:8.1f} {unit}  {slow / count:6.2f} s per edit, {tokens:.0f} tokens per step"
    )
    print(
        f"ke, batched                  {fast:8.1f} {unit}  {fast / count:6.2f} s per edit, {kept:.0f} tokens per step"
    )
    print(f"ratio                        {slow / fast:8.1f}, largest difference {off:.1e} of |z|")
    if given.profile:
        show_profile(lambda: together(model, modules, edits[:PROFILED], settings), model.module)
    if off > TOLERANCE and given.dtype == "float32":
        sys.exit("the targets differ")
    work = f"targets of {count} edits, {given.steps} steps"
    return Comparison(work=work, ours=fast, plain=slow, agreement=f"difference {off:.0e} of the length")


def main() -> None:
    """Run both on the model of the command line."""
    given = read_options()
    torch.set_num_threads(1)
    compare(opened(given), given)


if __name__ == "__main__":
    main()
