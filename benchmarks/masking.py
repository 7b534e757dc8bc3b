"""What dynamic masking costs a case: finding the edits to hide from it, and searching a memory without them.

    OMP_NUM_THREADS=1 python benchmarks/masking.py

All edits of MQuAKE-CF-3k are in one bank and one memory, and every case asks one question, as an edited case and as a
control. ``scan`` goes through the whole bank for each case; it must find the same. Vectors are those of a fake encoder
(384 dimensions), made beforehand, so that only the look-ups are timed.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ke_core.data.facts import Edit, Fact, distinct
from ke_core.data.masking import EditBank, contradicting
from ke_core.data.queries import Case
from ke_core.plugins.catalog import read
from ke_core.plugins.manager import discover
from ke_core.plugins.options import configure
from ke_core.retrieval import FactMemory
from ke_core.testing.fakes import WordEncoder

ROOT = Path(__file__).resolve().parents[1]
DIMENSION, ROUNDS, SCANNED = 384, 3, 100
LARGEST = 9171  # cases of MQuAKE-Remastered-CF
T = TypeVar("T")
Chain = tuple[Fact, ...]


class Known:
    """An encoder that has seen every text before."""

    def __init__(self, texts: Sequence[str]) -> None:
        encoder = WordEncoder(DIMENSION)
        self.id = encoder.id
        self.vectors = dict(zip(texts, encoder.embed(texts), strict=True))

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Their vectors."""
        return np.stack([self.vectors[text] for text in texts])


def scan(path: Iterable[Fact], bank: Mapping[str, Edit]) -> frozenset[str]:
    """The definition, edit by edit through the whole bank."""
    held = {(fact.subject.key, fact.relation.key): {o.key for o in fact.objects} for fact in path}
    hidden = []
    for edit in bank.values():
        if edit.after is not None:
            objects = held.get((edit.after.subject.key, edit.after.relation.key))
            if objects is not None and objects != {o.key for o in edit.after.objects}:
                hidden.append(edit.id)
    return frozenset(hidden)


def each_of(
    find: Callable[[Chain, Mapping[str, Edit]], frozenset[str]], paths: Iterable[Chain], bank: Mapping[str, Edit]
) -> list[frozenset[str]]:
    """What to hide, path by path."""
    return [find(path, bank) for path in paths]


def best_of(work: Callable[[], T]) -> tuple[T, float]:
    """The result, and the seconds of the fastest of three rounds."""
    times = []
    for _round in range(ROUNDS):
        began = time.perf_counter()
        result = work()
        times.append(time.perf_counter() - began)
    return result, min(times)


def cases(folder: Path) -> tuple[Case, ...]:
    """CF-3k."""
    spec = read(discover()).spec("dataset", "mquake-cf-3k")
    return tuple(spec.build(configure(spec, {"data_dir": str(folder / "mquake")})).cases())


def main() -> None:
    """Find what to hide, then search without it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--data-dir", type=Path, default=Path(os.environ.get("KE_DATA_DIR", ROOT.parent / "shared/data"))
    )
    found = cases(parser.parse_args().data_dir)
    edits = distinct(edit for case in found for edit in case.edits)
    asked = [next(p for p in case.probes if p.aspect == "multi-hop").queries[0].texts[0] for case in found]
    statements = [edit.statement for edit in edits]
    memory = FactMemory(Known([*statements, *asked]), zip((edit.id for edit in edits), statements, strict=True))
    bank, plain, number = EditBank(edits), {edit.id: edit for edit in edits}, len(found)
    _first, indexing = best_of(lambda: contradicting(found[0].facts_after, EditBank(edits)))
    print(f"{number} cases, {len(edits)} edits in force; the index is made in {indexing * 1e3:.1f} ms, once a bank")
    nothing = [frozenset[str]()] * number
    unmasked, plainly = best_of(partial(memory.search, asked, k=1, hidden=nothing))
    for name, paths in (
        ("edited cases", [case.facts_after for case in found]),
        ("controls", [case.facts_before for case in found]),
    ):
        some = paths[:: number // SCANNED]
        slow, scanning = best_of(partial(each_of, scan, some, plain))
        hidden, hiding = best_of(partial(each_of, contradicting, paths, bank))
        assert slow == hidden[:: number // SCANNED]
        masked, searching = best_of(partial(memory.search, asked, k=1, hidden=hidden))
        others = sum(a != b for a, b in zip(masked, unmasked, strict=True))
        print(
            f"{name}: {sum(map(bool, hidden))} with hidden edits, {sum(map(len, hidden))} hidden, {others} find another"
        )
        each, one = 1e6 / number, 1e6 / len(some)
        print(f"  find what to hide  scan {scanning * one:9.1f} us   indexed {hiding * each:9.1f} us a case")
        print(f"  search             bare {plainly * each:9.1f} us   masked  {searching * each:9.1f} us a case")
        print(f"  {LARGEST} cases: {hiding / number * LARGEST:.2f} s, by a scan {scanning / len(some) * LARGEST:.0f} s")


if __name__ == "__main__":
    main()
