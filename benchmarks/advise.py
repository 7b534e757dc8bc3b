"""Which editor for how many facts? Write 500 counterfactual facts of the atlas to a file, and run ``ke advise`` on it.

    OMP_NUM_THREADS=1 python benchmarks/advise.py --sizes 20,100 --candidate memit --candidate rag

The trials are saved in ``--out`` (``benchmarks/advise.jsonl``), and are not repeated. Each fact gets another object of
the same relation, and its question as a paraphrase. 100 further facts are to be kept. Other options are those of
``ke advise``.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from attrs import frozen

from ke_benchmarks.graph import Graph, load_atlas
from ke_core.cli.main import main

RESULTS = Path(__file__).with_suffix(".jsonl")
RELATIONS = ("capital", "country", "continent", "currency", "language", "largest-neighbour")
"""Relations with one object, without the inverse of another one."""
FACTS, KEPT, LONGEST = 500, 100, 16
"""Numbers of facts to edit and to keep, and the maximum number of characters of a new object."""


@frozen(kw_only=True)
class AtlasFact:
    """A fact of the atlas: a subject's id, a relation and the object's name."""

    subject: str
    relation: str
    object: str

    @property
    def order(self) -> str:
        """A hash, which gives a random order that is always the same."""
        return hashlib.sha256(f"{self.subject} {self.relation}".encode()).hexdigest()


def facts(graph: Graph) -> Iterator[AtlasFact]:
    """Yield the facts of relations with one object."""
    for relation in RELATIONS:
        for subject in graph.subjects(relation):
            objects = graph.objects(subject, relation)
            if subject.id and len(objects) == 1:
                yield AtlasFact(subject=subject.id, relation=relation, object=objects[0].label)


def content(graph: Graph) -> Iterator[str]:
    """Yield the lines of the file."""
    known = sorted(facts(graph), key=lambda fact: fact.order)
    names = {name: sorted({one.object for one in known if one.relation == name}) for name in RELATIONS}
    for one in known[:FACTS]:
        others = [name for name in names[one.relation] if name != one.object and len(name) <= LONGEST]
        new = others[int(one.order, 16) % len(others)]
        cloze = graph.cloze(one.subject, one.relation)
        question = f"Question: {graph.question(one.subject, one.relation)}\nAnswer:"
        yield "[[facts]]"
        yield f"prompt = {json.dumps(cloze.template)}"
        yield f"subject = {json.dumps(cloze.subject)}"
        yield f"target = {json.dumps(new)}"
        yield f"paraphrases = [{json.dumps(question)}]"
    for one in known[FACTS : FACTS + KEPT]:
        yield "[[keep]]"
        yield f"prompt = {json.dumps(graph.cloze(one.subject, one.relation).prompt)}"
        yield f"expect = {json.dumps(one.object)}"


def run(words: list[str]) -> int:
    """Write the file, and run ``ke advise`` with ``words``; return its exit status."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "facts.toml"
        file.write_text("\n".join(content(load_atlas())) + "\n", encoding="utf-8")
        out = [] if "--out" in words else ["--out", str(RESULTS)]
        return main(["advise", "--facts", str(file), *out, *words])


if __name__ == "__main__":
    raise SystemExit(run(sys.argv[1:]))
