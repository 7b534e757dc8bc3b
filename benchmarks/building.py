"""Time and peak memory of ``ke build mquake`` on a large graph shaped like Wikidata.

    python benchmarks/building.py --triples 1000000

The graph is synthetic: 40 relations over 12 kinds of things, N-Triples with labels, and hubs (subjects and objects are
sampled by Zipf's law, so that a few countries occur in tens of thousands of facts). A separate process reads the file
and builds the benchmark. The script prints its time and its peak memory.
"""

from __future__ import annotations

import argparse
import random
import resource
import subprocess
import sys
import tempfile
import time
from itertools import accumulate
from pathlib import Path

KINDS = (
    "person",
    "city",
    "country",
    "company",
    "film",
    "book",
    "club",
    "school",
    "river",
    "award",
    "language",
    "genre",
)
SIZES = (80_000, 20_000, 200, 15_000, 30_000, 25_000, 5_000, 5_000, 3_000, 500, 300, 200)
RELATIONS, ZIPF = 40, 0.8
WIKIDATA = "http://www.wikidata.org/"
LABEL = "<http://www.w3.org/2000/01/rdf-schema#label>"


class Drawn:
    """Things of twelve kinds, numbered consecutively. The first things of a kind are its hubs."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.sizes = dict(zip(KINDS, SIZES, strict=True))
        self.first = dict(zip(KINDS, accumulate((0, *SIZES)), strict=False))
        self._weights = {
            kind: list(accumulate(1 / (1 + at) ** ZIPF for at in range(size))) for kind, size in self.sizes.items()
        }

    def hub(self, kind: str) -> int:
        """Sample one thing by Zipf's law."""
        chosen = self.random.choices(range(self.sizes[kind]), cum_weights=self._weights[kind])[0]
        return self.first[kind] + chosen

    def several(self, kind: str, count: int) -> list[int]:
        """Sample ``count`` distinct things, but at most half of the kind."""
        known = range(self.first[kind], self.first[kind] + self.sizes[kind])
        return self.random.sample(known, min(count, self.sizes[kind] // 2))


def write_graph(path: Path, triples: int, seed: int = 0) -> None:
    """Write N-Triples: a label per thing, and ``triples`` facts. Three of four relations have one object."""
    drawn, written = Drawn(seed), 0
    with path.open("w", encoding="utf-8") as out:
        for kind, size in drawn.sizes.items():
            for number in range(drawn.first[kind], drawn.first[kind] + size):
                out.write(f'{thing(number)} {LABEL} "{kind.title()} {number:x}"@en .\n')
        for relation in range(RELATIONS):
            out.write(f'<{WIKIDATA}entity/P{100 + relation}> {LABEL} "relation {relation}"@en .\n')
            subjects = drawn.several(subject_kind(relation), triples // RELATIONS) if relation % 4 else []
            object_ = drawn.random.choice(KINDS)
            for one in subjects:
                out.write(f"{thing(one)} {predicate(relation)} {thing(drawn.hub(object_))} .\n")
            written += len(subjects)
        for _ in range(triples - written):  # the rest is of relations that give many objects
            relation = 4 * drawn.random.randrange(RELATIONS // 4)
            one, other = drawn.hub(subject_kind(relation)), drawn.hub(KINDS[relation // 4])
            out.write(f"{thing(one)} {predicate(relation)} {thing(other)} .\n")


def subject_kind(relation: int) -> str:
    """Return the kind of the subjects of a relation."""
    return KINDS[relation % 8]


def predicate(relation: int) -> str:
    """Return the address of a property, as in Wikidata."""
    return f"<{WIKIDATA}prop/direct/P{100 + relation}>"


def thing(number: int) -> str:
    """Return the address of an item, as in Wikidata."""
    return f"<{WIKIDATA}entity/Q{1000 + number}>"


def main() -> None:
    """Write the graph, build the benchmark and print time and memory."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--triples", type=int, default=1_000_000)
    parser.add_argument("--cases", type=int, default=1_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        graph, cases = Path(folder) / "graph.nt", Path(folder) / "cases.json"
        write_graph(graph, given.triples)
        print(f"graph: {given.triples:,} facts and {sum(SIZES):,} labels, {graph.stat().st_size / 2**20:.0f} MiB")
        start = time.monotonic()
        command = ["build", "mquake", "--graph", str(graph), "--out", str(cases)]
        command += ["--cases", str(given.cases), "-o", "build.popular=0.2"]
        subprocess.run([sys.executable, "-m", "ke_core", *command], check=True)  # noqa: S603  our own command
        spent = time.monotonic() - start
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu, peak = used.ru_utime + used.ru_stime, used.ru_maxrss / 2**10
    print(f"build: {spent:.0f} s ({cpu:.0f} s CPU), peak memory {peak:.0f} MiB")


if __name__ == "__main__":
    main()
