"""Three wordings of a multi-hop question: the last relation asks, those before describe what it asks about.

They are made from a relation's cloze and question, whatever the graph; a table can give better ones.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from attrs import frozen

from ke_benchmarks.graph import KnowledgeGraph
from ke_core.plugin import Entity

WORDINGS = 3
NOUN = re.compile(r"The (?P<noun>.+) of (?:the city of )?\{\} (?:is|was)(?: the)?\Z")
VERB = re.compile(r"\{\} (?P<verb>.+)\Z")
COPULA = re.compile(r"\{\} (?:is|was)(?:(?: an?| the)?\Z| an? )")  # "is a city in": what it is, not what is asked


@frozen(kw_only=True)
class RelationPhrases:
    """Of one relation: what it leads to, and how it asks; three of each, ``{}`` stands for what it starts from."""

    describe: tuple[str, str, str]
    ask: tuple[str, str, str]


def wordings(
    graph: KnowledgeGraph, head: Entity, path: Sequence[str], table: Mapping[str, RelationPhrases]
) -> tuple[str, str, str]:
    """The question of a chain that starts at ``head``; it names the head and nothing else."""
    *way, last = path
    found = []
    for number in range(WORDINGS):
        mention = graph.mention(head)
        for relation in way:
            mention = _words(graph, relation, table).describe[number].replace("{}", mention)
        asked = _words(graph, last, table).ask[number].replace("{}", mention)
        found.append(asked[:1].upper() + asked[1:])
    return found[0], found[1], found[2]


def _words(graph: KnowledgeGraph, relation: str, table: Mapping[str, RelationPhrases]) -> RelationPhrases:
    if relation in table:
        return table[relation]
    link = graph.links[relation]
    cloze, question = link.relation.cloze or "", link.relation.question or ""
    noun, verb = NOUN.match(cloze), VERB.match(cloze)
    if noun:
        described = f"the {noun['noun']} of {{}}"
    elif verb and not COPULA.match(cloze):
        described = f"the {_thing(link.object)} that {{}} {verb['verb']}"
    else:
        described = f"the {link.relation.label} of {{}}"
    asks = dict.fromkeys((question, f"Can you name {described}?", f"Do you know {described}?", f"Name {described}."))
    first, second, third, *_ = asks
    return RelationPhrases(describe=(described, described, described), ask=(first, second, third))


def _thing(kind: str) -> str:
    """A kind as a word, where it is one."""
    return kind.lower() if re.fullmatch(r"[A-Za-z]+(?: [A-Za-z]+)?", kind) and kind != "thing" else "one"
