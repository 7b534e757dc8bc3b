"""The edits of a record: one for each atomic counterfactual that its facts do not hold already."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from ke_core.plugin import Cloze, Edit, Entity, Fact, Relation, distinct
from ke_plugin_recoe.records import Record, Stated, Triple, plain

BLANK = "___"
Place = tuple[str, str]


def edits_of(record: Record) -> tuple[Edit, ...]:
    """Every edit once, in the order of the file.

    A swap can leave atoms that name neither choice: what is the same before and after is no edit (section 11 of the
    protocol). ``before`` is what the facts say of that subject and relation; None where they say nothing of it.
    """
    before = _by_place(record.facts())
    said = {plain(sentence) for fact in record.facts() for sentence in fact.atomic_facts}
    made = []
    for fact in record.counterfactuals():
        for sentence, triple in fact.atoms():
            old = before.get(triple.place, {})
            if plain(sentence) not in said and plain(triple.object) not in old:
                made.append(_edit(sentence, triple, tuple(old.values())))
    return distinct(made)


def paths_of(record: Record) -> tuple[tuple[Fact, ...], tuple[Fact, ...]]:
    """The facts that a record rests on, before and after: what masking and audits compare.

    Where a subject and a relation have several objects, they are no function of them, and no path goes there.
    """
    stay = record.unchanged()
    found = []
    for facts in (record.facts(), record.counterfactuals()):
        places: dict[Place, dict[str, tuple[str, Triple]]] = {}
        for fact in (*facts, *stay):
            for sentence, triple in fact.atoms():
                places.setdefault(triple.place, {})[plain(triple.object)] = sentence, triple
        single = [next(iter(held.values())) for held in places.values() if len(held) == 1]
        found.append(tuple(_fact(triple, (triple.object,), sentence) for sentence, triple in single))
    return found[0], found[1]


def question_of(edit: Edit) -> str:
    """The edit's own fact as a task, since the files have no questions for atomic facts."""
    assert edit.after is not None
    subject, relation, new = edit.after.subject.label, edit.after.relation.label, edit.after.objects[0].label
    sentence = edit.statement.strip().removesuffix(".")
    if subject in sentence and sentence.count(new) == 1 and new not in subject:
        return f'Fill in the blank: "{sentence.replace(new, BLANK)}."'
    return f'Fill in the blank: "{subject}, {relation}: {BLANK}."'


def cloze_of(sentence: str, triple: Triple) -> Cloze | None:
    """The sentence without its object, where the subject stands in it and the object ends it; else None."""
    whole = sentence.strip().removesuffix(".").rstrip()
    if not whole.casefold().endswith(triple.object.casefold().removesuffix(".")):
        return None
    start = whole[: len(whole) - len(triple.object.removesuffix("."))]
    at = start.casefold().find(triple.subject.casefold())
    if at < 0 or not start[-1:].isspace() or "{}" in start:
        return None
    end = at + len(triple.subject)
    return Cloze(template=f"{start[:at]}{{}}{start[end:].rstrip()}", subject=start[at:end])


def _edit(sentence: str, triple: Triple, old: tuple[Triple, ...]) -> Edit:
    after = _fact(triple, (triple.object,), sentence)
    before = _fact(triple, tuple(one.object for one in old), "") if old else None
    made = Edit(id=sentence.strip(), statement=sentence.strip(), before=before, after=after)
    return Edit(
        id=made.id,
        statement=made.statement,
        before=before,
        after=after,
        cloze=cloze_of(sentence, triple),
        question=question_of(made),
    )


def _fact(triple: Triple, objects: Iterable[str], sentence: str) -> Fact:
    return Fact(
        subject=Entity(label=triple.subject),
        relation=Relation(label=triple.relation),
        objects=tuple(Entity(label=name) for name in objects),
        text=sentence,
    )


def _by_place(facts: Iterator[Stated]) -> Mapping[Place, dict[str, Triple]]:
    found: dict[Place, dict[str, Triple]] = {}
    for fact in facts:
        for _sentence, triple in fact.atoms():
            found.setdefault(triple.place, {}).setdefault(plain(triple.object), triple)
    return found
