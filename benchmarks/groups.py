"""Memory editors with each case edited separately: concurrent groups, against one group after another.

    OMP_NUM_THREADS=1 python benchmarks/groups.py
    python benchmarks/groups.py --editor ice --cases 100

Both variants use the runner of ``ke`` without the completion cache. 40 cases of MQuAKE-CF-3k are edited separately, and
each is asked its own questions (about six per case). Sequentially, only the questions of one case are batched.
Concurrently, the edited models of many cases are active at once, and a batch holds questions of all of them. The script
measures the phase "edited model" of each run. The recorded replies must be identical.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import torch
from attrs import evolve, frozen
from opening import add_model, opened
from published import add_data_dir
from together import DATASET, add_editor, way

from ke_core.engine.batching import BatchingEngine
from ke_core.plugins.catalog import read_catalog
from ke_core.plugins.manager import discover
from ke_core.plugins.options import split_options
from ke_core.results.folder import RunFolder
from ke_core.runner import concurrent as abreast
from ke_core.runner.evaluate import ask_models, prepare
from ke_core.runner.run import EvalRequest
from ke_core.runner.session import ModelChoice
from ke_core.spec.records import Replied
from ke_core.spec.results import ForwardCalls, Reply
from ke_core.spec.runspec import Plan
from ke_plugin_hf.model import HFModel
from ke_testing.fakes import SilentProgress


@frozen(kw_only=True)
class TimedEdits:
    """Replies of the edited models in order, CPU and wall seconds, and the model's forward passes."""

    replies: list[tuple[str, str, Reply]]
    cpu: float
    wall: float
    passes: ForwardCalls

    def line(self, name: str) -> str:
        """Return a row of the table."""
        passes, tokens = self.passes.passes, self.passes.tokens
        return f"{name:18} {self.cpu:8.1f} s CPU {self.wall:8.1f} s, {passes:,} passes of {tokens / passes:.1f} tokens"


def timed(model: HFModel, given: argparse.Namespace, folder: Path, *, together: int) -> TimedEdits:
    """Run with concurrent groups of at least ``together`` questions in total."""
    request = EvalRequest(
        editor=given.editor, dataset=DATASET, model=ModelChoice(reference=given.model), plan=Plan(limit=given.cases),
        options=split_options(given.options), data_dir=str(given.data_dir / "mquake"), styles=("direct",),
    )  # fmt: skip
    job = prepare(request, read_catalog(discover()), SilentProgress(), model=model)
    engine = BatchingEngine(model)
    job = evolve(job, session=evolve(job.session, engine=engine))
    abreast.ENOUGH = together
    run, before = RunFolder.create(folder, job.spec), model.passes()
    ask_models(job, run)
    taken = next(one for one in run.logged() if one.get("phase") == "edited model")
    records = (record for record in run.read() if isinstance(record, Replied) and record.phase == "after")
    replies = [(record.case, query, reply) for record in records for query, reply in record.replies.items()]
    return TimedEdits(replies=replies, cpu=taken["cpu_seconds"], wall=taken["seconds"], passes=model.passes() - before)


def read_options() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_model(parser)
    add_editor(parser)
    parser.add_argument("--cases", type=int, default=40)
    add_data_dir(parser)
    return parser.parse_args()


def main() -> None:
    """Run both variants and compare."""
    given = read_options()
    torch.set_num_threads(1)
    model = opened(given)
    with tempfile.TemporaryDirectory() as place:
        enough = abreast.ENOUGH
        apart = timed(model, given, Path(place) / "apart", together=1)
        together = timed(model, given, Path(place) / "together", together=enough)
    pairs = list(zip(apart.replies, together.replies, strict=True))
    same = sum((one[0], one[1], way(one[2])) == (two[0], two[1], way(two[2])) for one, two in pairs)
    print(f"{given.editor} on {model.id}: {given.cases} cases, each edited separately, {len(pairs)} questions")
    print(apart.line("one after another"))
    print(together.line("concurrently"))
    print(f"ratio              {apart.cpu / together.cpu:8.1f} of CPU, identical replies {same} of {len(pairs)}")
    if same < len(pairs) and given.dtype == "float32":
        sys.exit("replies differ")


if __name__ == "__main__":
    main()
