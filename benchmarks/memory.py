"""The memory of memory editors at scale: bytes, and time to add, remove, search, save and load, against plain loops.

    OMP_NUM_THREADS=1 python benchmarks/memory.py --facts 100000
    OMP_NUM_THREADS=1 python benchmarks/memory.py --facts 3000 --encoder minilm-l6

The facts are the edit statements of MQuAKE-CF-3k, or of the atlas if that file is missing, repeated with a number. The
default encoder is a fake one of hashed words (384 dimensions, as MiniLM). Times are wall times without the encoder's
time, which is printed separately. The loop computes one dot product per row, as some published code does; it must find
the identical nearest fact.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import count, islice
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from published import add_data_dir

from ke_benchmarks.graph import load_atlas
from ke_core.runner.usage import resident
from ke_core.spec.requests import Encoder
from ke_memory.plugin import FactMemory, load_encoder
from ke_testing.fakes import WordEncoder

DIMENSION, SINGLY, LOOPED, MIB = 384, 1000, 4, 2**20
T = TypeVar("T")


class Watched:
    """An encoder that measures its own time."""

    def __init__(self, encoder: Encoder) -> None:
        self.encoder = encoder
        self.seconds = 0.0

    @property
    def id(self) -> str:
        """Return the id of the wrapped encoder."""
        return self.encoder.id

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors of the wrapped encoder."""
        began = time.perf_counter()
        vectors = self.encoder.embed(texts)
        self.seconds += time.perf_counter() - began
        return vectors


def statements(folder: Path) -> list[str]:
    """Return the sentences of the facts."""
    path = folder / "mquake" / "MQuAKE-CF-3k.json"
    if not path.is_file():
        graph = load_atlas()
        return [fact.text for relation in graph.links for fact in graph.facts(relation)]
    rewrites = (r for case in json.loads(path.read_text(encoding="utf-8")) for r in case["requested_rewrite"])
    return list(dict.fromkeys(f"{r['prompt'].format(r['subject'])} {r['target_new']['str']}" for r in rewrites))


def varied(sentences: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield facts without end: every sentence, then every sentence with a number in front."""
    for turn in count():
        for at, sentence in enumerate(sentences):
            yield f"e{turn}-{at}", sentence if turn == 0 else f"In edition {turn}, {sentence}"


def timed(encoder: Watched, work: Callable[[], T]) -> tuple[T, float]:
    """Return the result and the seconds without the encoder's."""
    encoder.seconds = 0.0
    began = time.perf_counter()
    result = work()
    return result, time.perf_counter() - began - encoder.seconds


def changes(memory: FactMemory, encoder: Watched, facts: Sequence[tuple[str, str]]) -> None:
    """Add and remove, all at once and one by one."""
    more = [(f"more-{name}", f"further {text}") for name, text in facts[:SINGLY]]
    few = [name for name, _text in facts[:: max(1, len(facts) // SINGLY)]][:SINGLY]

    def one_by_one() -> None:
        for fact in more:
            memory.add([fact])

    def forget_one_by_one() -> None:
        for name in few:
            memory.remove([name])

    _none, adding = timed(encoder, one_by_one)
    _none, removing = timed(encoder, forget_one_by_one)
    _none, together = timed(encoder, lambda: memory.remove([name for name, _text in more]))
    print(f"add {len(more)} one by one    {adding / len(more) * 1e3:10.3f} ms each")
    print(f"remove {len(few)} one by one {removing / len(few) * 1e3:10.3f} ms each")
    print(f"remove {len(more)} at once    {together * 1e3:10.1f} ms")


def looped_over(query: NDArray[np.float32], vectors: NDArray[np.float32]) -> int:
    """Return the nearest row, one dot product at a time."""
    return max(range(len(vectors)), key=lambda row: float(query @ vectors[row]))


def questions(memory: FactMemory, encoder: Watched, facts: Sequence[tuple[str, str]]) -> None:
    """Search 1, 32 and 1000 questions at once, and a few with a loop over the rows."""
    texts = [text.rpartition(" ")[0] for _name, text in facts[:: max(1, len(facts) // 1000)]][:1000]
    print(f"{'questions at once':<21}{'k':>4}{'ms':>12}{'ms/question':>16}")
    for k in (1, 10):
        for size in (1, 32, 1000):
            some = texts[:size]
            _hits, seconds = timed(encoder, partial(memory.search, some, k=k, hidden=[frozenset()] * len(some)))
            print(f"{len(some):<21}{k:>4}{seconds * 1e3:12.1f}{seconds / len(some) * 1e3:16.3f}")
    rows = [text for _name, text in memory.facts]
    vectors, queries = encoder.embed(rows), encoder.embed(texts[:LOOPED])
    began = time.perf_counter()
    nearest = [rows[looped_over(query, vectors)] for query in queries]
    looped = (time.perf_counter() - began) / LOOPED
    hits = memory.search(texts[:LOOPED], k=1, hidden=[frozenset()] * LOOPED)
    same = sum(a == found[0].text for a, found in zip(nearest, hits, strict=True))
    print(f"{'loop of dot products':<21}{1:>4}{'':12}{looped * 1e3:16.3f}   identical nearest {same} of {LOOPED}")


def files(memory: FactMemory, encoder: Watched) -> None:
    """Save and load the memory."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "memory.safetensors"
        _none, saving = timed(encoder, lambda: memory.save(path))
        size = path.stat().st_size / MIB
        again, loading = timed(encoder, lambda: FactMemory.load(path, encoder))
        assert again.facts == memory.facts
    print(f"save {saving:.2f} s, load {loading:.2f} s, file {size:.0f} MiB")


def read_options() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--facts", type=int, default=100_000)
    parser.add_argument("--encoder", default="fake", help="a sentence encoder, or fake")
    add_data_dir(parser)
    return parser.parse_args()


def main() -> None:
    """Fill a memory and measure its operations."""
    options = read_options()
    encoder = Watched(WordEncoder(DIMENSION) if options.encoder == "fake" else load_encoder(options.encoder))
    facts = list(islice(varied(statements(options.data_dir)), options.facts))
    before = resident() or 0
    memory, seconds = timed(encoder, lambda: FactMemory(encoder, facts))
    used = ((resident() or 0) - before) / MIB
    vectors = len(memory) * encoder.embed(["one"]).nbytes / MIB
    print(f"{len(memory)} facts: vectors {vectors:.0f} MiB, resident {used:.0f} MiB")
    print(f"add all at once       {seconds * 1e3:10.1f} ms (plus {encoder.seconds:.1f} s in the encoder)")
    changes(memory, encoder, facts)
    questions(memory, encoder, facts)
    files(memory, encoder)


if __name__ == "__main__":
    main()
