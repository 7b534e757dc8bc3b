"""Masked memory: MeLLo's retrieval with every case edited, against embedding the allowed facts again for each case.

    OMP_NUM_THREADS=1 python benchmarks/masking.py                       # all 3,000 cases, 3 of them as published
    OMP_NUM_THREADS=1 python benchmarks/masking.py --cases 9171          # the size of CF-9k: some cases twice

All edits of MQuAKE-CF-3k are active. Before a case is answered, edits that contradict its facts are hidden from it
(MQuAKE-Remastered, section 4.1), and each of its sub-questions is looked up. Published code goes through all edits
for each case, embeds the allowed ones in batches of 32 in file order, then each sub-question, and multiplies. ``ke``
embeds all facts and sub-questions once and hides rows of the memory. The published variant runs on every n-th case
only; its time is extrapolated and labeled as such. Hidden edits and retrieved facts must be identical. The same
look-ups are also measured without masks: the cost of masking is the difference, plus the computation of the masks.
The sub-questions are the dataset's, so no model is called.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from attrs import frozen
from measure import Stopwatch
from published import add_data_dir

from ke_core.plugins.catalog import read_catalog
from ke_core.plugins.manager import discover
from ke_core.plugins.options import configure
from ke_core.spec.facts import Edit, EditBank, Fact, contradicting, distinct
from ke_core.spec.queries import Case
from ke_core.spec.requests import Encoder
from ke_memory.plugin import FactMemory, load_encoder
from ke_testing.fakes import WordEncoder

BATCH, DIMENSION = 32, 384


@frozen(kw_only=True)
class Asked:
    """The facts of a case's answer, and its sub-questions."""

    path: tuple[Fact, ...]
    questions: tuple[str, ...]


def asked(case: Case) -> Asked:
    """Return the look-ups of an edited case."""
    query = next(probe for probe in case.probes if probe.aspect == "multi-hop").queries[0]
    return Asked(path=case.facts_after, questions=tuple(hop.texts[0] for hop in query.hops))


def published(one: Asked, edits: Sequence[Edit], encoder: Encoder) -> tuple[int, list[str]]:
    """Return the number of edits hidden from a case, and the edit that each sub-question retrieves."""
    held = {(fact.subject.key, fact.relation.key): {o.key for o in fact.objects} for fact in one.path}
    allowed = [edit for edit in edits if not contradicts(edit, held)]
    facts = [edit.statement for edit in allowed]
    vectors = np.concatenate([encoder.embed(facts[at : at + BATCH]) for at in range(0, len(facts), BATCH)])
    found = [allowed[int((vectors @ encoder.embed([text])[0]).argmax())].id for text in one.questions]
    return len(edits) - len(allowed), found


def contradicts(edit: Edit, held: Mapping[tuple[str, str], set[str]]) -> bool:
    """Return whether ``edit`` changes the objects of a fact of the case."""
    if edit.after is None:
        return False
    objects = held.get((edit.after.subject.key, edit.after.relation.key))
    return objects is not None and objects != {o.key for o in edit.after.objects}


@frozen(kw_only=True)
class Ours:
    """Results for every case, and seconds: facts, masks, look-ups, and look-ups without masks."""

    hidden: Sequence[frozenset[str]]
    found: Sequence[list[str]]
    facts: float
    masks: float
    looking: float
    unmasked: float

    @property
    def seconds(self) -> float:
        """Return the total."""
        return self.facts + self.masks + self.looking


def ours(cases: Sequence[Asked], edits: Sequence[Edit], encoder: Encoder, watch: Stopwatch) -> Ours:
    """Use one memory for all cases, and one search for all sub-questions."""
    memory, facts = watch.timed(lambda: FactMemory(encoder, [(edit.id, edit.statement) for edit in edits]))
    bank = EditBank(edits)
    hidden, masks = watch.timed(lambda: [contradicting(case.path, bank) for case in cases])
    texts = [text for case in cases for text in case.questions]
    unseen = [mask for case, mask in zip(cases, hidden, strict=True) for _text in case.questions]
    hits, looking = watch.timed(lambda: memory.search(texts, k=1, hidden=unseen))
    _bare, unmasked = watch.timed(lambda: memory.search(texts, k=1, hidden=[frozenset()] * len(texts)))
    names = iter([hit.id for (hit,) in hits])
    found = [[next(names) for _text in case.questions] for case in cases]
    return Ours(hidden=hidden, found=found, facts=facts, masks=masks, looking=looking, unmasked=unmasked)


def cases_of(folder: Path) -> Iterable[Case]:
    """Return the cases of CF-3k."""
    spec = read_catalog(discover()).spec("dataset", "mquake-cf-3k")
    return tuple(spec.build(configure(spec, {"data_dir": str(folder / "mquake")})).cases())


def read_options() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encoder", default="minilm-l6", metavar="NAME", help="a sentence encoder, or fake")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--cases", type=int, default=3000)
    parser.add_argument(
        "--published", type=int, default=3, metavar="N", help="number of cases for the published variant"
    )
    add_data_dir(parser)
    return parser.parse_args()


def main() -> None:
    """Hide and look up with both variants, and compare."""
    given = read_options()
    torch.set_num_threads(1)
    every = list(cases_of(given.data_dir))
    edits = list(distinct(edit for case in every for edit in case.edits))
    cases = [asked(case) for case in itertools.islice(itertools.cycle(every), given.cases)]
    encoder = WordEncoder(DIMENSION) if given.encoder == "fake" else load_encoder(given.encoder, device=given.device)
    watch, count = Stopwatch(torch.device(given.device)), len(cases)
    encoder.embed(["one"])  # neither way pays for the first touch

    mine = ours(cases, edits, encoder, watch)
    some = range(0, count, max(1, count // given.published))[: given.published]
    theirs, taken = watch.timed(lambda: [published(cases[at], edits, encoder) for at in some])
    same = sum((len(mine.hidden[at]), mine.found[at]) == one for at, one in zip(some, theirs, strict=True))

    slow, looked = count * taken / len(some), sum(len(case.questions) for case in cases)
    texts = len({text for case in cases for text in case.questions})
    unit = watch.unit
    print(f"{count:,} cases, {len(edits):,} active edits, {looked:,} look-ups of {texts:,} sub-questions, ", end="")
    print(f"{sum(map(bool, mine.hidden)):,} cases with hidden edits ({given.encoder})")
    print(f"published  {slow:12.1f} {unit}  {slow / count:9.3f} s per case, extrapolated from {len(some)} cases")
    print(
        f"ke         {mine.seconds:12.1f} {unit}  {mine.seconds / count:9.6f} s per case: facts embedded once ", end=""
    )
    print(f"{mine.facts:.1f}, masks {mine.masks:.2f}, sub-questions embedded and looked up {mine.looking:.1f}")
    more = mine.masks + mine.looking - mine.unmasked
    print(f"unmasked   {mine.unmasked:12.1f} {unit} for the same look-ups: masks add {more:.2f}, ", end="")
    print(f"{1e6 * more / count:.0f} microseconds per case")
    print(f"ratio      {slow / mine.seconds:12.0f}, {slow / (mine.masks + mine.looking):.0f} without the facts")
    print(f"identical masks and facts {same} of {len(some)}")
    if same < len(some):
        sys.exit("the two ways differ")


if __name__ == "__main__":
    main()
