"""MEMIT with many edits on a model of a published shape with random weights: one batch, against one edit at a time.

    python benchmarks/large.py --shape llama-8b --device cuda --edits 1000 --singly 8
    OMP_NUM_THREADS=1 python benchmarks/large.py --shape tiny --device cpu --edits 16 --singly 4 --tokens 2000

Speed and memory do not depend on the values of the weights, so nothing is downloaded: the weights are sampled from
N(0, 0.02^2), and the facts are made up. One batch goes through the whole editor (left contexts, key covariance,
targets, update), and then again with everything but the update cached. Then ``--singly`` other edits are made one by
one with the same covariance. Times are CPU seconds, or wall seconds on an accelerator, which is synchronized before
each reading. Memory is the peak of the allocated accelerator memory, or of the resident memory.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from measure import GIB, Comparison, Stopwatch
from opening import SHAPES, random_model

from ke_core.plugins.catalog import read_catalog
from ke_core.plugins.manager import discover
from ke_core.runner.resolve import resolve_component
from ke_core.spec.facts import Edit
from ke_core.spec.protocols import Editor, Session
from ke_plugin_hf.model import HFModel
from ke_testing.fakes import make_session
from ke_weights.sentences import edit_from_sentence

SMALL = "0.01"  # the farthest a target goes: random weights are small, and an update larger than its weight is refused


def read_options() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=sorted(SHAPES), default="tiny")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="bfloat16", choices=("bfloat16", "float16", "float32"))
    parser.add_argument("--edits", type=int, default=16, help="number of edits in the batch")
    parser.add_argument("--singly", type=int, default=4, help="number of edits made one by one")
    parser.add_argument("--layers", default="1,2", help="layers that MEMIT writes to (published for 8B: 4,5,6,7,8)")
    parser.add_argument("--tokens", type=int, default=2000, help="tokens for the key covariance")
    return parser.parse_args()


def made_up(count: int, *, first: int = 0) -> list[Edit]:
    """Return ``count`` edits about people who do not exist."""
    found = (
        edit_from_sentence(f"The mother tongue of Person {at} is => Language {at % 97}", f"Person {at}")
        for at in range(first, first + count)
    )
    return [sourced.edit for sourced in found]


def seconds(watch: Stopwatch, editor: Editor, session: Session[Any], edits: Sequence[Edit]) -> float:
    """Return the seconds to apply ``edits``, without the time to restore the weights."""
    began = watch.now()
    with editor.edit(session, edits):
        return watch.now() - began


def compare(model: HFModel, given: argparse.Namespace) -> Comparison:
    """Apply the batch twice and the other edits one by one, and print the times."""
    watch = Stopwatch(model.device)
    options = {"memit": {"layers": given.layers, "tokens": str(given.tokens), "clamp": SMALL}}
    editor = resolve_component(read_catalog(discover()), "editor", "memit", options).build()
    weights = sum(part.numel() * part.element_size() for part in model.module.parameters()) / GIB
    print(f"{model.id}, {given.dtype}, {given.device}: {weights:.1f} GiB of weights", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        session = make_session(model, root=Path(folder))
        one = seconds(watch, editor, session, made_up(1, first=10**6))
        print(f"  covariance ({given.tokens} tokens), contexts and one edit  {one:9.1f} s", flush=True)
        batch = seconds(watch, editor, session, made_up(given.edits))
        print(f"  {given.edits} edits at once     {batch / given.edits:8.3f} s per edit", flush=True)
        again = seconds(watch, editor, session, made_up(given.edits))
        print(f"  of which the update       {again / given.edits:8.3f} s per edit", flush=True)
        alone = sum(seconds(watch, editor, session, [edit]) for edit in made_up(given.singly, first=given.edits))
        ratio = (alone / given.singly) / (batch / given.edits)
        print(f"  {given.singly} edits one by one   {alone / given.singly:8.3f} s per edit   {ratio:.1f}x")
    print(f"  at most {watch.memory():.1f} GiB {'allocated' if given.device.startswith('cuda') else 'resident'}")
    work = f"MEMIT, {given.edits:,} edits in one batch; the plain loop makes one at a time"
    return Comparison(work=work, ours=batch, plain=given.edits * alone / given.singly, agreement="not compared")


def main() -> None:
    """Measure a model of the shape of the command line."""
    given = read_options()
    compare(random_model(given.shape, given.device, given.dtype), given)


if __name__ == "__main__":
    main()
