"""Few-shot prompts about countries that occur in no case, with the cases' own templates.

``direct``: eight demonstrations, of the same relation for a single hop, mixed for a multi-hop question. ``cot``: four
demonstrations with one sentence for each step. A cloze has no demonstrations: the answer completes its sentence.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from ke_benchmarks.graph import Graph
from ke_core.plugin import Decoding, Parse, Prompt, Query
from ke_plugin_atlas.wording import WORDINGS, wordings
from ke_plugin_atlas.world import CAPITAL, CAPITAL_OF, CONTINENT, COUNTRY, CURRENCY, LANGUAGE, NEIGHBOUR, atlas_world

STYLES = ("direct", "cot")
CLOZE = Decoding(max_tokens=8, stop=("\n",))
SHORT = Decoding(max_tokens=16, stop=("\n",))
LONG = Decoding(max_tokens=96, stop=("\n\n", "\nQuestion:"))
ANSWER = "Answer:"
CAPITALS = "PT/lisbon CA/ottawa EG/cairo TH/bangkok AU/canberra NO/oslo KE/nairobi UY/montevideo"
SINGLE = {  # relation to the subjects of its demonstrations
    CAPITAL: " ".join(place.split("/")[0] for place in CAPITALS.split()),
    CAPITAL_OF: CAPITALS,
    COUNTRY: "CA/toronto US/chicago EG/giza TH/chiang-mai AU/brisbane NO/trondheim KE/mombasa PT/porto",
    CONTINENT: "CA PT KE TH UY NO FJ GT",
    CURRENCY: "US EG TH PT AU NO KE MX",
    LANGUAGE: "PT EG TH NO AU ES GT US",
    NEIGHBOUR: "PT HT GT MX CA DO BZ US",
}
MULTI: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("city:CA/toronto", (COUNTRY, CONTINENT)),
    ("city:EG/cairo", (CAPITAL_OF, CURRENCY)),
    ("city:MX/tijuana", (COUNTRY, NEIGHBOUR, CURRENCY)),
    ("country:PT", (NEIGHBOUR, CAPITAL)),
    ("city:TH/chiang-mai", (COUNTRY, LANGUAGE)),
    ("city:PT/lisbon", (CAPITAL_OF, NEIGHBOUR, LANGUAGE)),
    ("city:KE/nairobi", (CAPITAL_OF, CONTINENT)),
    ("city:NO/trondheim", (COUNTRY, CAPITAL)),
)
REASONED = (0, 1, 2, 5)  # the demonstrations with a chain of thought


def prompt(query: Query, style: str) -> Prompt | None:
    """Return the complete prompt; None for a single hop in the style ``cot``."""
    question = query.texts[0]
    if query.form == "cloze":
        return Prompt(text=question, decoding=CLOZE) if style == "direct" else None
    if style == "direct":
        shown = mixed() if query.hops else single(query.relation or "")
        return Prompt(text=f"{shown}Q: {question}\nA:", decoding=SHORT)
    if style == "cot" and query.hops:
        parse = Parse(after=ANSWER, until="\n")
        return Prompt(text=f"{reasoned()}Question: {question}\nThoughts:", decoding=LONG, parse=parse)
    return None


@cache
def single(relation: str) -> str:
    """Return eight questions and answers of one relation."""
    graph = atlas_world().graph
    kind = graph.links[relation].subject
    subjects = [f"{kind}:{key}" for key in SINGLE[relation].split()]
    return "".join(_pair(graph.question(s, relation), graph.objects(s, relation)[0].label) for s in subjects)


@cache
def mixed() -> str:
    """Return eight multi-hop questions of two and three hops, and their answers."""
    return "".join(_pair(question, answer) for question, _thoughts, answer in _multi_hop())


@cache
def reasoned() -> str:
    """Return four multi-hop questions with a sentence for each hop, and their answers."""
    demonstrations = list(_multi_hop())
    return "".join(
        f"Question: {question}\nThoughts: {thoughts}\n{ANSWER} {answer}\n\n"
        for question, thoughts, answer in (demonstrations[number] for number in REASONED)
    )


def _multi_hop() -> Iterator[tuple[str, str, str]]:
    """Return question, thoughts, answer, alternating between the wordings."""
    graph = atlas_world().graph
    for number, (head, relations) in enumerate(MULTI):
        thoughts, answer = _follow(graph, head, relations)
        yield wordings(graph, head, relations)[number % WORDINGS], thoughts, answer


def _follow(graph: Graph, head: str, relations: tuple[str, ...]) -> tuple[str, str]:
    """Return the facts of the path as sentences, and its end."""
    subject, sentences = graph.entity(head), []
    for relation in relations:
        fact = graph.fact(subject, relation)
        sentences.append(f"{fact.text}.")
        subject = fact.objects[0]
    return " ".join(sentences), subject.label


def _pair(question: str, answer: str) -> str:
    return f"Q: {question}\nA: {answer}\n"
