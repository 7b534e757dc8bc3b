"""Constructed cases about a few places."""

from collections.abc import Callable, Sequence

import pytest

from ke_core.plugin import EFFICACY, Case, Cloze, Edit, Entity, Fact, Gold, Probe, Query, Relation

Hop = tuple[str, str, str]
RELATIONS = {
    "country": Relation(label="country", id="country"),
    "capital": Relation(label="capital", id="capital"),
    "mayor": Relation(label="mayor", id="mayor"),
}


def thing(name: str) -> Entity:
    """``Ford#2``: the label, and an id where two things share a label."""
    label, _hash, number = name.partition("#")
    return Entity(label=label, id=name if number else None)


def fact(hop: Hop) -> Fact:
    subject, relation, target = hop
    return Fact(
        subject=thing(subject),
        relation=RELATIONS[relation],
        objects=(thing(target),) if target else (),
        text=f"The {relation} of {thing(subject).label} is {thing(target).label}" if target else "",
    )


def edit(old: Hop, new: Hop) -> Edit:
    after = fact(new)
    return Edit(
        id="|".join(new),
        statement=after.text,
        before=fact(old),
        after=after,
        cloze=Cloze(template=f"The {new[1]} of {{}} is", subject=after.subject.label),
    )


def query(hop: Hop, name: str, own: dict[str, Edit]) -> Query:
    made = own.get("|".join(hop))
    return Query(
        id=name,
        texts=(f"What is the {hop[1]} of {thing(hop[0]).label}?",),
        gold=Gold(entities=(thing(hop[2]),)),
        pre_edit=Gold(entities=made.before.objects) if made and made.before else None,
        edit=made.id if made else None,
        relation=hop[1],
    )


def make(name: str, before: Sequence[Hop], after: Sequence[Hop], *edited: int, asked: str = "") -> Case:
    """A case of two chains; ``edited`` are the places of the new chain that are edits, from 0."""
    edits = tuple(
        edit(next((old for old in before if old[:2] == after[at][:2]), (*after[at][:2], "Elsewhere")), after[at])
        for at in edited
    )
    own = {one.id: one for one in edits}
    old = tuple(
        query(hop, f"hop-{at}" if hop[:2] == after[at - 1][:2] else f"old-{at}", {}) for at, hop in enumerate(before, 1)
    )
    new = tuple(query(hop, f"hop-{at}", own) for at, hop in enumerate(after, start=1))
    words = (
        asked
        or "What is the " + " of the ".join(hop[1] for hop in reversed(after)) + f" of {thing(after[0][0]).label}?"
    )
    question = Query(
        id="multi-hop", texts=(words,), gold=new[-1].gold, pre_edit=old[-1].gold, hops=new, hops_before=old
    )
    ids = tuple(own)
    return Case(
        id=name,
        edits=edits,
        probes=(
            *(
                Probe(id=f"efficacy-{at}", aspect=EFFICACY, queries=(one,), edits=(one.edit,))
                for at, one in enumerate((one for one in new if one.edit), start=1)
            ),
            Probe(id="before", aspect="instance", queries=old, require="all", phase="before", edits=ids),
            Probe(id="after", aspect="instance", queries=new, require="all", edits=ids),
            Probe(id="multi-hop", aspect="multi-hop", queries=(question,), phase="both", edits=ids),
        ),
        facts_before=tuple(map(fact, before)),
        facts_after=tuple(map(fact, after)),
        tags={"edits": str(len(edits))},
    )


@pytest.fixture(name="make")
def make_(request: pytest.FixtureRequest) -> Callable[..., Case]:
    return make
