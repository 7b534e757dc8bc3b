"""``ke eval`` with rows that are read in parts, against rows that are read completely, one token per step.

    OMP_NUM_THREADS=1 python benchmarks/evaluation.py --limit 50 --editors none,mello

Both run the whole evaluation of each editor on the same cases of ``atlas``: unedited answers, edits, answers, judgments
and scores. In parts, tokens that several rows share are read once (``decoding/inner.py``), and repeated text is guessed
and checked in one pass (``decoding/drafts.py``). Without parts, keys and values of
earlier calls are not used either. All replies must agree.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from unittest.mock import patch

import torch
from measure import Stopwatch
from opening import add_model, opened

import ke_core as ke
from ke_core.app import RunFolder
from ke_core.plugin import cache_dir
from ke_plugin_hf.decoding.forward import Forward
from ke_plugin_hf.decoding.passes import COUNTER
from ke_plugin_hf.decoding.runner import LocalRunner

Replies = dict[tuple[str, ...], object]


@contextmanager
def fresh_cache() -> Iterator[Path]:
    """Use an empty cache in the block, except for downloaded models."""
    models = cache_dir() / "models"
    with tempfile.TemporaryDirectory() as folder, patch.dict(os.environ, {"KE_CACHE_DIR": folder}):
        (Path(folder) / "models").symlink_to(models)
        yield Path(folder)


def replies(folder: RunFolder) -> Replies:
    """Return every reply of a run."""
    found: Replies = {}
    for line in (folder.path / "records.jsonl").read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        if record["kind"] == "replied":
            for query, reply in record["replies"].items():
                key = (record["case"], record["phase"], record["style"], query)
                found[key] = {name: value for name, value in reply.items() if name != "cost"}
    return found


def never(_runner: LocalRunner, _forward: Forward) -> bool:
    """Read rows completely."""
    return False


def evaluated(model: ke.Model, editor: str, limit: int, out: Path) -> ke.Evaluation:
    """Run the whole evaluation."""
    return ke.evaluate(model, editors=[editor], dataset="atlas", limit=limit, out=out)


def read_options() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_model(parser)
    parser.add_argument("--editors", default="none,mello", help="separated by commas")
    parser.add_argument("--limit", type=int, default=50, help="number of cases")
    return parser.parse_args()


def main() -> None:
    """Evaluate with both variants and compare."""
    given = read_options()
    torch.set_num_threads(1)
    local = opened(given)
    model = ke.wrap(local.module, local.tokenizer)
    watch = Stopwatch(local.device)
    for name in given.editors.split(","):
        seconds: dict[bool, float] = {}
        found: dict[bool, Replies] = {}
        for parts in (True, False):
            in_parts = LocalRunner.in_parts if parts else never
            with fresh_cache() as folder, patch.object(LocalRunner, "in_parts", in_parts):
                before = COUNTER.now()
                run, seconds[parts] = watch.timed(partial(evaluated, model, name, given.limit, folder / "runs"))
                read = COUNTER.now() - before
                found[parts] = replies(RunFolder.open(run.paths[0]))
            way = "in parts" if parts else "completely"
            print(
                f"{name:12} {way:10} {seconds[parts]:8.1f} {watch.unit}  {read.passes:,} passes, {read.tokens:,} tokens"
            )
        whole = found[False]
        same = sum(whole[key] == reply for key, reply in found[True].items())
        print(f"{name:12} {seconds[False] / seconds[True]:.2f}x, {same} of {len(whole)} replies identical")
        if same < len(whole) and given.dtype == "float32":
            sys.exit("the replies differ")


if __name__ == "__main__":
    main()
