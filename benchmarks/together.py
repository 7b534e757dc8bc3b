"""Hundreds of questions at once: a memory editor's procedures advanced together, against one question at a time.

    OMP_NUM_THREADS=1 python benchmarks/together.py
    python benchmarks/together.py --questions 24 -o mello.decomposition=model

Both ways answer the same multi-hop questions of MQuAKE-CF-3k with the same edited model, without the cache of
completions. Together: one engine advances all procedures, so that a wave of look-ups is one matrix product and a wave
of model calls goes to the model in batches. One at a time: a question is finished before the next is begun. The answers
must agree, with what was retrieved and written on the way. MeLLo goes over the dataset's own sub-questions unless
options say otherwise: then every question goes all its hops, however weak the model. Seconds are of CPU, on one thread.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from attrs import frozen

from ke_core.data.facts import distinct
from ke_core.data.queries import Case
from ke_core.data.results import Answer, Cost, Reply
from ke_core.engine.engine import Engine
from ke_core.models.resolve import open_model
from ke_core.plugins.catalog import read
from ke_core.plugins.manager import discover
from ke_core.plugins.options import split
from ke_core.protocols import Ask
from ke_core.retrieval import Remembering, load_encoder
from ke_core.run.asks import Asker
from ke_core.run.components import DATA_DIR, choose, with_flag
from ke_core.run.session import allowed
from ke_core.specs import DatasetSpec, EditorSpec
from ke_core.testing.fakes import make_session

ROOT = Path(__file__).resolve().parents[1]
DATASET, USUAL = "mquake-cf-3k", {"mello": {"decomposition": "oracle"}}


@frozen(kw_only=True)
class Timed:
    """Replies in order, the CPU seconds they took, and how many requests went to the model together on average."""

    replies: Sequence[Reply]
    seconds: float
    batch: float
    waves: int

    def line(self, name: str) -> str:
        """A row of the table."""
        each = self.seconds / len(self.replies)
        took = f"{name:14} {self.seconds:8.1f} s CPU  {each:6.3f} s a question"
        return f"{took}, mean batch {self.batch:6.1f} in {self.waves:,} waves"


def advanced(edited: Remembering, groups: Sequence[Sequence[Ask]]) -> Timed:
    """Each group's questions together, group after group, by an engine of their own."""
    engine = Engine(edited.session.model)
    began = time.process_time()
    replies = [reply for group in groups for reply in engine.answer(edited.solve, group)]
    seconds = time.process_time() - began
    return Timed(replies=replies, seconds=seconds, batch=engine.stats.mean_wave, waves=engine.stats.waves)


def questions(cases: Sequence[Case], asker: Asker) -> list[Ask]:
    """The first wording of each case's multi-hop question, with every case's edits in force."""
    bank = {edit.id: edit for case in cases for edit in case.edits}
    found: list[Ask] = []
    for case in cases:
        query = next(probe.queries[0].id for probe in case.probes if probe.aspect == "multi-hop")
        (unit,) = asker.after(case, bank, edited=True)
        found += [ask for ask in unit.questions if ask.query == query]
    return found


def opened(options: argparse.Namespace) -> tuple[Any, list[Ask]]:
    """The edited model, and what it is asked."""
    catalog = read(discover())
    where = with_flag(catalog.spec("dataset", DATASET), {}, DATA_DIR, str(options.data_dir / "mquake"))
    data = choose(catalog, "dataset", DATASET, where)
    editor = choose(catalog, "editor", options.editor, {**USUAL, **split(options.options)})
    assert isinstance(data.spec, DatasetSpec)
    assert isinstance(editor.spec, EditorSpec)
    dataset = data.build()
    every = list(dataset.cases())  # in the file those of two hops come first, those of four last
    cases = every[:: max(1, len(every) // options.questions)][: options.questions]
    session = make_session(
        open_model(options.model),
        material=allowed(dataset.material(), editor.spec.oracle(editor.config), editor=options.editor),
        encoder=load_encoder(options.encoder),
    )
    asker = Asker(
        dataset=dataset, styles=data.spec.styles[:1], edited_form="question", own_prompt=editor.spec.own_prompt
    )
    with editor.build().edit(session, distinct(edit for case in cases for edit in case.edits)) as edited:
        return edited, questions(cases, asker)  # a memory beside the model: nothing is undone when its context ends


def way(reply: Reply) -> object:
    """What must agree: the text, all that was written, and what was retrieved (scores differ in their last bits)."""
    if not isinstance(reply, Answer):
        return reply
    return reply.text, reply.raw, reply.outcome, [step.retrieved for step in reply.steps]


def total(replies: Sequence[Reply]) -> Cost:
    """What all replies took."""
    return sum((reply.cost for reply in replies if isinstance(reply, Answer)), Cost())


def read_options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2-135m", metavar="NAME")
    parser.add_argument("--encoder", default="minilm-l6", metavar="NAME")
    parser.add_argument("--editor", default="mello", help="one that keeps its edits in a memory")
    parser.add_argument("-o", "--option", dest="options", action="append", default=[], metavar="NAME.OPTION=VALUE")
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument(
        "--data-dir", type=Path, default=Path(os.environ.get("KE_DATA_DIR", ROOT.parent / "shared/data"))
    )
    return parser.parse_args()


def main() -> None:
    """Answer both ways and compare."""
    options = read_options()
    torch.set_num_threads(1)
    edited, asks = opened(options)
    advanced(edited, [asks[:2]])  # neither way pays for what happens once in a process

    together = advanced(edited, [asks])
    alone = advanced(edited, [[ask] for ask in asks])
    pairs = zip(together.replies, alone.replies, strict=True)
    agreeing, count, cost = sum(way(one) == way(other) for one, other in pairs), len(asks), total(together.replies)

    calls = max(1, cost.calls)
    print(f"{options.editor} on {options.model}: {count} questions, {cost.calls / count:.1f} model calls a question,")
    print(f"{cost.prompt_tokens / calls:.0f} prompt tokens and {cost.tokens / calls:.1f} generated a call")
    print(alone.line("one at a time"))
    print(together.line("together"))
    print(f"ratio          {alone.seconds / together.seconds:8.1f}, identical answers {agreeing} of {count}")
    if agreeing < count:
        sys.exit("answers differ")


if __name__ == "__main__":
    main()
