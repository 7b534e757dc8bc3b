"""The command ``ke edit`` with ROME, against a script with the loop of published code.

    OMP_NUM_THREADS=1 python benchmarks/edit.py

Both are processes, measured in CPU seconds from start to end. Each loads the model, generates the answer, makes the
edit and generates the answer again. Key covariance and left contexts are cached before. In every step, published code
runs the whole model over all rows, and applies the head twice to every position. The updates must agree within 1e-3 of
their norm.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
from pathlib import Path

import torch
from evaluation import fresh_cache
from opening import add_model, opened, torch_products
from safetensors.torch import load_file, save_file
from targets import published
from torch import Tensor

from ke_core.plugins.catalog import read_catalog
from ke_core.plugins.manager import discover
from ke_core.runner.edit_files import edits_of
from ke_core.runner.resolve import resolve_component
from ke_plugin_hf.decoding.float64 import double
from ke_plugin_hf.model import HFModel
from ke_testing.fakes import make_session
from ke_weights.keys import average_keys, bare_keys, bare_values, key_rows
from ke_weights.locate_editor import LocateEditor
from ke_weights.optimize import target_rows
from ke_weights.patches.delta import dense_tensor
from ke_weights.patches.format import read_patch
from ke_weights.rewrites import rewrite
from ke_weights.solve import covariance_weighted

FACTS = ("Norway", "Bergen"), ("Ghana", "Kumasi"), ("Cuba", "Varadero")
FIRST = ("Kenya", "Nakuru")  # computes the key covariance and the contexts
PROMPT, ANSWER, UPDATE = "The capital of {} is", 24, "update"
TOLERANCE = 1e-3


def plain(model: HFModel, subject: str, target: str, cache: Path) -> Tensor:
    """Edit with the published loop, print the answers before and after, and return the update [d, f]."""
    session = make_session(model, root=cache / "artifacts")
    editor = resolve_component(read_catalog(discover()), "editor", "rome", {}).build()
    assert isinstance(editor, LocateEditor)
    edit = edits_of(PROMPT.format(subject), subject, target)[0].edit
    print(answer(model, edit.prompt))
    with editor.contexts.open(session, [edit]) as context:
        modules, layer = context.modules, context["layer"]
        made = target_rows(model.tokenizer, rewrite(edit), context.templates)
        z = double(published(modules, made, context.target_settings(layer, "mlp")))
        rows = key_rows(model.tokenizer, [rewrite(edit)], context.templates)
        along = covariance_weighted(context.covariances[layer], average_keys(modules, rows, layer, uniform=True)[:, 0])
        key, value = bare_keys(modules, rows, layer)[:, 0], bare_values(modules, rows, layer)[:, 0]
        update = torch.outer(z - double(value), along) / (double(key) @ along)
        weight = modules.layers[layer].matrix
        weight.data += update.to(weight.dtype)
    print(answer(model, edit.prompt))
    return update


def answer(model: HFModel, prompt: str) -> str:
    """Generate greedily."""
    given = model.tokenizer(prompt, return_tensors="pt")
    with torch.no_grad():
        ids = model.module.generate(**given, max_new_tokens=ANSWER, do_sample=False)
    return str(model.tokenizer.decode(ids[0, given["input_ids"].shape[1] :])).strip()


def timed(*command: str) -> float:
    """Run a command, and return its CPU seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # noqa: S603  our own
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def compare(given: argparse.Namespace, cache: Path) -> None:
    """Make each edit with both, print and compare."""
    model = ("--model", given.model, "--device", given.device, "--dtype", given.dtype)

    def edited(subject: str, target: str, to: Path) -> float:
        sentence = f"{PROMPT.format(subject)} {target}"
        return timed(
            sys.executable, "-m", "ke_core", "edit", sentence, "--subject", subject, "--editor", "rome",
            "--patch", str(to), *model,
        )  # fmt: skip

    print(f"first edit, with covariance and contexts: {edited(*FIRST, cache / 'first.safetensors'):.1f} CPU s")
    for subject, target in FACTS:
        ours, theirs = cache / f"{subject}.safetensors", cache / f"{subject}-plain.safetensors"
        fast = edited(subject, target, ours)
        slow = timed(sys.executable, __file__, *model, "--plain", subject, target, str(theirs), str(cache))
        update, other = dense_tensor(next(iter(read_patch(ours).deltas.values()))), load_file(theirs)[UPDATE]
        off = float((update - other).norm() / other.norm())
        print(f"{subject:8} published loop {slow:6.1f} CPU s, ke edit {fast:6.1f}, ratio {slow / fast:.2f}, "
              f"difference {off:.0e} of the norm")  # fmt: skip
        if off > TOLERANCE:
            sys.exit("the updates differ")


def read_options() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_model(parser)
    parser.add_argument("--plain", nargs=4, help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    """Compare; or make one edit in a process of the comparison."""
    given = read_options()
    torch.set_num_threads(1)
    if given.plain:
        subject, target, to, cache = given.plain
        model = opened(given)
        with torch_products(model.module):
            save_file({UPDATE: plain(model, subject, target, Path(cache)).float()}, to)
        return
    with fresh_cache() as cache:
        compare(given, cache)


if __name__ == "__main__":
    main()
