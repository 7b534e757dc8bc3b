"""Build the demonstrations of the editor ike: edits with paraphrases and neighbors, one JSON record per line.

    python scripts/build_ike_demonstrations.py plugins/editors/ike/src/ke_plugin_ike/demonstrations.jsonl

The facts are those of ``ike_tables.toml`` and of the embedded graph, the latter only about countries that the dataset
atlas holds out. Each fact becomes one record: the edit has the object of another fact with the same relation, and the
neighbors are other subjects of the relation with their true objects. The output is deterministic.
"""

from __future__ import annotations

import argparse
import json
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ke_benchmarks.graph import Graph, load_atlas

TABLES = Path(__file__).with_name("ike_tables.toml")
HELD_OUT = frozenset("AU BZ CA DO EG ES FJ GT HT KE MX NO PT TH US UY".split())  # noqa: SIM905  as a table
MOST = 16  # facts of one relation
NEIGHBORS = 4
STEP = 5  # the new object comes from so many facts further on, past the neighbors


def main() -> None:
    """Write the file that is named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    lines = [json.dumps(record, ensure_ascii=False) for record in records()]
    parser.parse_args().out.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def records() -> Iterator[dict[str, Any]]:
    """Return every record, relation by relation."""
    graph = load_atlas()
    for relation in tomllib.loads(TABLES.read_text(encoding="utf-8"))["relation"]:
        facts = from_atlas(graph, relation["atlas"]) if "atlas" in relation else relation["facts"]
        yield from of_relation(relation["cloze"], relation["paraphrases"], facts)


def from_atlas(graph: Graph, relation: str) -> Mapping[str, str]:
    """Return subject to object, as written in a sentence, for relations with one object."""
    of_one: dict[str, str] = {}
    for subject in graph.subjects(relation):
        place = subject.key.partition(":")[2].partition("/")[0]
        found = graph.object(subject, relation)
        if place in HELD_OUT and found is not None:
            of_one[graph.mention(subject)] = graph.mention(found)
    spread = max(1, len(of_one) // MOST)  # of many cities, some of each country
    return dict(list(of_one.items())[::spread][:MOST])


def of_relation(cloze: str, paraphrases: list[str], facts: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Return a record for each fact."""
    pairs = list(facts.items())
    for place, (subject, true) in enumerate(pairs):
        round_ = pairs[place + 1 :] + pairs[:place]
        further = round_[STEP - 1 :] + round_[: STEP - 1]
        yield {
            "subject": subject,
            "prompt": said(cloze, subject),
            "object": next(new for _other, new in further if new != true),
            "paraphrases": [said(words, subject) for words in paraphrases],
            "neighbors": [{"prompt": said(cloze, other), "object": object_} for other, object_ in round_[:NEIGHBORS]],
        }


def said(template: str, subject: str) -> str:
    """Return the template filled with that subject, with a capital letter at its start."""
    text = template.replace("{}", subject)
    return text[0].upper() + text[1:]


if __name__ == "__main__":
    main()
