"""Three wordings of a multi-hop question: the last relation is the question, the others describe its subject.

They are built from a relation's cloze and question in any graph. A table can provide better phrases.
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
COPULA = re.compile(r"\{\} (?:is|was)(?:(?: an?| the)?\Z| an? )")  # "is a city in" states a type, not the object


@frozen(kw_only=True)
class RelationPhrases:
    """Phrases of one relation: three descriptions of its object and three questions, with ``{}`` for the subject."""

    describe: tuple[str, str, str]
    ask: tuple[str, str, str]


def wordings(
    graph: KnowledgeGraph, head: Entity, path: Sequence[str], table: Mapping[str, RelationPhrases]
) -> tuple[str, str, str]:
    """Return the question of a chain that starts at ``head``. It names the head and nothing else."""
    *way, last = path
    found = []
    for number in range(WORDINGS):
        mention = graph.mention(head)
        for relation in way:
            mention = _phrases(graph, relation, table).describe[number].replace("{}", mention)
        asked = _phrases(graph, last, table).ask[number].replace("{}", mention)
        found.append(asked[:1].upper() + asked[1:])
    return found[0], found[1], found[2]


def _phrases(graph: KnowledgeGraph, relation: str, table: Mapping[str, RelationPhrases]) -> RelationPhrases:
    if relation in table:
        return table[relation]
    link = graph.links[relation]
    cloze, question = link.relation.cloze or "", link.relation.question or ""
    noun, verb = NOUN.match(cloze), VERB.match(cloze)
    if noun:
        described = f"the {noun['noun']} of {{}}"
    elif verb and not COPULA.match(cloze):
        described = f"the {_type_noun(link.object)} that {{}} {verb['verb']}"
    else:
        described = f"the {link.relation.label} of {{}}"
    asks = dict.fromkeys((question, f"Can you name {described}?", f"Do you know {described}?", f"Name {described}."))
    first, second, third, *_ = asks
    return RelationPhrases(describe=(described, described, described), ask=(first, second, third))


def _type_noun(kind: str) -> str:
    """Return the type as a noun if it looks like one, otherwise "one"."""
    return kind.lower() if re.fullmatch(r"[A-Za-z]+(?: [A-Za-z]+)?", kind) and kind != "thing" else "one"
