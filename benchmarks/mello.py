"""MeLLo over MQuAKE-CF-3k with every edit in its memory: all questions concurrently, against the published loop.

    OMP_NUM_THREADS=1 python benchmarks/mello.py                            # 100 questions, 10 of them as published
    python benchmarks/mello.py --model random:llama-8b --device cuda --dtype bfloat16 --encoder fake

The published code processes one question at a time. For each, it embeds all edited facts again, in batches of 32 in
file order, and every model call encodes the whole transcript, including the four worked examples. ``ke`` embeds the
facts once, caches the keys and values of the worked examples, and advances all questions concurrently. Both are greedy
(the notebook's profile: four calls of at most 256 tokens). The published variant runs on every n-th question only; its
time is extrapolated and labeled as such. The transcripts must be identical. In half precision the two variants round
differently, and the identical transcripts are counted.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import numpy as np
import torch
from attrs import evolve, frozen
from measure import Comparison, Stopwatch, show_profile, show_rates
from opening import add_model, opened, torch_products
from published import add_data_dir
from together import Prepared, prepared

from ke_core.engine.batching import BatchingEngine
from ke_core.spec.requests import EditorRequest, Encoder, Question
from ke_core.spec.results import Answer, Reply
from ke_memory.encoder import SentenceEncoder
from ke_memory.plugin import MemoryEditedModel, sentence
from ke_plugin_hf.model import HFModel

CALLS, MAX_TOKENS, BATCH, PROFILED = 4, 256, 32, 16
PAPER = {"profile": "paper"}
FACT, SUBQUESTION, FINAL = "Retrieved fact:", "Subquestion:", "Final answer:"


def written(model: HFModel, state: str) -> tuple[str, bool]:
    """Return the generated text after ``state``, reading every token of it again, and whether it was truncated."""
    ids = torch.tensor([model.encode(state)], device=model.device)

    def said(found: torch.Tensor, _scores: torch.Tensor, **_more: object) -> torch.Tensor:
        """Return whether the text announces a look-up in the memory."""
        return torch.tensor([FACT in model.decode(found[0, ids.shape[1] :].tolist())], device=found.device)

    found = model.module.generate(
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=MAX_TOKENS, do_sample=False, pad_token_id=0,
        stopping_criteria=[said],
    )[0, ids.shape[1] :]  # fmt: skip
    text, stop, _rest = model.decode(found.tolist()).partition(FACT)
    ended = model.tokenizer.eos_token_id in found.tolist()
    return text, not stop and not ended and len(found) == MAX_TOKENS


@frozen(kw_only=True)
class Alone:
    """One question as published: transcript, number of model calls, and seconds of memory and model."""

    text: str
    calls: int
    embedding: float
    asking: float


def published(model: HFModel, encoder: Encoder, facts: Sequence[str], start: str, watch: Stopwatch) -> Alone:
    """Run the loop of Zhong et al. for one question; ``start`` holds the worked examples and the question."""
    vectors, embedding = watch.timed(
        lambda: np.concatenate([encoder.embed(facts[at : at + BATCH]) for at in range(0, len(facts), BATCH)])
    )
    state, began, calls = start, watch.now(), 0
    while calls < CALLS:
        text, cut = written(model, state)
        state, calls = state + text, calls + 1
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        if cut or not lines or lines[-1].startswith(FINAL):
            break
        if len(lines) < 2 or not lines[-2].startswith(SUBQUESTION):
            break
        asked = encoder.embed([lines[-2].removeprefix(SUBQUESTION).strip()])[0]
        state = f"{state.rstrip()}\n{FACT} {sentence(facts[int((vectors @ asked).argmax())])}"
    return Alone(text=state[len(start) :], calls=calls, embedding=embedding, asking=watch.now() - began)


def ours(made: Prepared, requests: Sequence[EditorRequest]) -> tuple[list[Reply], BatchingEngine]:
    """Fill the memory once and answer all questions."""
    engine = BatchingEngine(made.session.model)
    with made.editor.edit(evolve(made.session, engine=engine), made.edits) as edited:
        return list(edited.answer(requests)), engine


def start_of(made: Prepared, request: EditorRequest) -> str:
    """Return the prompt of the first model call."""
    assert isinstance(request, Question)
    with made.editor.edit(made.session, []) as edited:
        assert isinstance(edited, MemoryEditedModel)
        first = next(edited.solve(request))
    assert hasattr(first, "prompt")
    return str(first.prompt)


def read_options() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_model(parser)
    parser.add_argument("--encoder", default="minilm-l6", metavar="NAME", help="a sentence encoder, or fake")
    parser.add_argument("--questions", type=int, default=100)
    parser.add_argument(
        "--published", type=int, default=10, metavar="N", help="number of questions for the published variant"
    )
    parser.add_argument(
        "--profile", action="store_true", help="run a few questions again and print where the time goes"
    )
    add_data_dir(parser)
    return parser.parse_args()


def compare(model: HFModel, given: argparse.Namespace) -> Comparison:
    """Answer with both variants, print and compare."""
    watch = Stopwatch(model.device)
    made = prepared(model, given, "mello", {"mello": PAPER})
    requests, facts = made.requests, [edit.statement for edit in made.edits]
    encoder = made.session.encoder("")
    ours(evolve(made, edits=made.edits[:2]), requests[:2])  # neither way pays for what happens once in a process
    some = range(0, len(requests), max(1, len(requests) // given.published))[: given.published]

    before = model.passes()
    (replies, engine), fast = watch.timed(lambda: ours(made, requests))
    passes = model.passes() - before
    starts = [start_of(made, requests[at]) for at in some]
    modules = [model.module, *([encoder.model] if isinstance(encoder, SentenceEncoder) else [])]
    with torch_products(*modules):
        alone = [published(model, encoder, facts, start, watch) for start in starts]
    texts = [reply.raw if isinstance(reply, Answer) else str(reply) for reply in (replies[at] for at in some)]
    same = sum(mine == one.text for mine, one in zip(texts, alone, strict=True))

    count, tried, unit = len(requests), len(alone), watch.unit
    embedding, asking = (
        sum(part) / tried for part in zip(*((one.embedding, one.asking) for one in alone), strict=True)
    )
    slow = count * (embedding + asking)
    print(f"{count} questions, {len(facts):,} facts, {model.id} in {given.dtype}")
    print(
        f"published  {slow:10.1f} {unit}, from {tried} of them: {embedding:.1f} a question to embed the facts, ", end=""
    )
    print(f"{asking:.1f} for {sum(one.calls for one in alone) / tried:.1f} calls")
    print(f"ke         {fast:10.1f} {unit}, {engine.requests / count:.1f} calls per question")
    print(f"ratio      {slow / fast:10.1f}, without the embedding of the published variant {count * asking / fast:.1f}")
    print(f"identical transcripts {same} of {tried}")
    show_rates(model, passes, fast)
    if given.profile:  # of the first call alone: the profiler keeps every operation
        first = prepared(model, given, "mello", {"mello": {**PAPER, "max_calls": "1", "max_tokens": "32"}})
        show_profile(lambda: ours(evolve(first, edits=first.edits[:2]), first.requests[:PROFILED]), model.module)
    if same < tried and given.dtype == "float32":
        sys.exit("transcripts differ")
    work = f"MeLLo, {count} questions, {len(facts):,} edits in memory, plain loop without its embedding"
    return Comparison(work=work, ours=fast, plain=count * asking, agreement=f"{same} of {tried} transcripts")


def main() -> None:
    """Run both on the model of the command line."""
    given = read_options()
    torch.set_num_threads(1)
    compare(opened(given), given)


if __name__ == "__main__":
    main()
