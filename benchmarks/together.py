"""Hundreds of questions concurrently: the procedures of a memory editor, in turns and one question at a time.

    OMP_NUM_THREADS=1 python benchmarks/together.py
    python benchmarks/together.py --questions 24 -o mello.decomposition=model

All variants use ``ke`` without the completion cache: they answer the same multi-hop questions of MQuAKE-CF-3k, with
all edits of the file in memory (``mello.py`` compares with the published loop). Concurrently, one engine advances all
procedures: look-ups become one matrix product, model calls are batched, and a next call joins those under way. In
turns, all calls end before the next ones begin. Sequentially, a question is finished before the next one starts.
Answers, retrieved edits and intermediate texts must agree. By default MeLLo uses the dataset's own sub-questions, so
that every question goes through all its hops even with a weak model.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import torch
from attrs import frozen
from measure import Stopwatch, show_rates
from opening import add_model, opened
from published import add_data_dir

from ke_core.engine.batching import BatchingEngine
from ke_core.plugins.catalog import read_catalog
from ke_core.plugins.manager import discover
from ke_core.plugins.options import split_options
from ke_core.runner.requests import RequestBuilder
from ke_core.runner.resolve import DATA_DIR, resolve_component, with_flag
from ke_core.runner.session import allowed
from ke_core.spec.facts import Edit, distinct
from ke_core.spec.protocols import Editor, Session
from ke_core.spec.queries import Case
from ke_core.spec.requests import EditorRequest
from ke_core.spec.results import Answer, Cost, ForwardCalls, Reply
from ke_core.spec.specs import DatasetSpec, EditorSpec
from ke_memory.plugin import MemoryEditedModel, load_encoder
from ke_plugin_hf.model import HFModel
from ke_testing.fakes import WordEncoder, make_session

DATASET, USUAL = "mquake-cf-3k", {"mello": {"decomposition": "oracle"}}
DIMENSION = 384  # of the fake encoder's vectors, as MiniLM's


@frozen(kw_only=True)
class Prepared:
    """An editor with its session, the active edits, and the questions."""

    editor: Editor
    session: Session[Any]
    edits: Sequence[Edit]
    requests: Sequence[EditorRequest]


@frozen(kw_only=True)
class TimedReplies:
    """Replies in order, their seconds, and the model's forward passes."""

    replies: Sequence[Reply]
    seconds: float
    passes: ForwardCalls

    def line(self, name: str, unit: str) -> str:
        """Return a row of the table."""
        each = self.seconds / len(self.replies)
        took = f"{name:14} {self.seconds:8.1f} {unit}  {each:6.3f} s a question"
        return f"{took}, {self.passes.passes:,} passes of {self.passes.tokens / self.passes.passes:.1f} tokens"


def in_turns(model: HFModel) -> Any:
    """Return the model without ``complete``."""
    names = ("id", "context", "digest", "state", "generate", "score")
    return SimpleNamespace(**{name: getattr(model, name) for name in names})


def advanced(
    edited: MemoryEditedModel, groups: Sequence[Sequence[EditorRequest]], watch: Stopwatch, *, turns: bool = False
) -> TimedReplies:
    """Answer group after group, the questions of each group concurrently."""
    model = edited.session.model
    engine, before = BatchingEngine(in_turns(model) if turns else model), model.passes()
    replies, seconds = watch.timed(lambda: [r for group in groups for r in engine.answer(edited.solve, group)])
    return TimedReplies(replies=replies, seconds=seconds, passes=model.passes() - before)


def questions(cases: Sequence[Case], asker: RequestBuilder, edits: Sequence[Edit]) -> list[EditorRequest]:
    """Return the first wording of each case's multi-hop question."""
    bank = {edit.id: edit for edit in edits}
    found: list[EditorRequest] = []
    for case in cases:
        query = next(probe.queries[0].id for probe in case.probes if probe.aspect == "multi-hop")
        (unit,) = asker.after(case, bank, edited=True)
        found += [request for request in unit.questions if request.query == query]
    return found


def prepared(
    model: HFModel, given: argparse.Namespace, name: str, options: Mapping[str, Mapping[str, str]]
) -> Prepared:
    """Return the editor ``name``, every edit of the file, and ``given.questions`` questions, evenly spread over it."""
    catalog = read_catalog(discover())
    where = with_flag(catalog.spec("dataset", DATASET), {}, DATA_DIR, str(given.data_dir / "mquake"))
    data = resolve_component(catalog, "dataset", DATASET, where)
    editor = resolve_component(catalog, "editor", name, options)
    assert isinstance(data.spec, DatasetSpec)
    assert isinstance(editor.spec, EditorSpec)
    dataset = data.build()
    every = list(dataset.cases())  # in the file those of two hops come first, those of four last
    cases = every[:: max(1, len(every) // given.questions)][: given.questions]
    session = make_session(
        model,
        material=allowed(dataset.material(), editor.spec.oracle(editor.config), editor=name),
        encoder=WordEncoder(DIMENSION) if given.encoder == "fake" else load_encoder(given.encoder, device=given.device),
    )
    asker = RequestBuilder(
        dataset=dataset, styles=data.spec.styles[:1], edited_form="question", own_prompt=editor.spec.own_prompt
    )
    edits = list(distinct(edit for case in every for edit in case.edits))
    return Prepared(editor=editor.build(), session=session, edits=edits, requests=questions(cases, asker, edits))


def way(reply: Reply) -> object:
    """Return what must agree: the answer, all generated texts, and the retrieved edits (scores may differ slightly)."""
    if not isinstance(reply, Answer):
        return reply
    return reply.text, reply.raw, reply.outcome, [step.retrieved for step in reply.steps]


def total(replies: Sequence[Reply]) -> Cost:
    """Return the total cost of all replies."""
    return sum((reply.cost for reply in replies if isinstance(reply, Answer)), Cost())


def add_editor(parser: argparse.ArgumentParser) -> None:
    """Add the options ``--editor`` and ``-o``."""
    parser.add_argument("--editor", default="mello", help="a memory editor")
    parser.add_argument("-o", "--option", dest="options", action="append", default=[], metavar="NAME.OPTION=VALUE")


def read_options() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_model(parser)
    parser.add_argument("--encoder", default="minilm-l6", metavar="NAME", help="a sentence encoder, or fake")
    add_editor(parser)
    parser.add_argument("--questions", type=int, default=200)
    add_data_dir(parser)
    return parser.parse_args()


def main() -> None:
    """Answer with all variants and compare."""
    given = read_options()
    torch.set_num_threads(1)
    model = opened(given)
    watch = Stopwatch(model.device)
    made = prepared(model, given, given.editor, {**USUAL, **split_options(given.options)})
    requests = made.requests
    with made.editor.edit(made.session, made.edits) as edited:
        assert isinstance(edited, MemoryEditedModel)
        advanced(edited, [requests[:2]], watch)  # neither way pays for what happens once in a process
        together = advanced(edited, [requests], watch)
        turns = advanced(edited, [requests], watch, turns=True)
        alone = advanced(edited, [[request] for request in requests], watch)
    triples = zip(together.replies, turns.replies, alone.replies, strict=True)
    agreeing, count = sum(way(one) == way(two) == way(three) for one, two, three in triples), len(requests)
    cost = total(together.replies)

    calls = max(1, cost.calls)
    print(f"{given.editor} on {model.id}: {count} questions, {cost.calls / count:.1f} model calls per question,")
    print(f"{cost.prompt_tokens / calls:.0f} prompt tokens and {cost.tokens / calls:.1f} generated per call")
    print(alone.line("one at a time", watch.unit))
    print(turns.line("in turns", watch.unit))
    print(together.line("concurrently", watch.unit))
    ratios = f"{alone.seconds / together.seconds:.1f} and {turns.seconds / together.seconds:.2f}"
    print(f"ratios {ratios}, identical answers {agreeing} of {count}")
    show_rates(model, together.passes, together.seconds)
    if agreeing < count and given.dtype == "float32":
        sys.exit("answers differ")


if __name__ == "__main__":
    main()
