"""The edits of a record: one for each subject and relation with a new object in the counterfactuals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ke_core.plugin import Cloze, Edit, Entity, Fact, Relation, distinct
from ke_plugin_recoe.records import JOINED, Atom, OpenIETriple, RecoeRecord, StatedFact, plain

BLANK = "___"
Place = tuple[str, str]
Places = dict[Place, dict[str, Atom]]
"""Subject and relation to their atomic facts, by object."""


def edits_of(record: RecoeRecord) -> tuple[Edit, ...]:
    """Return the edits in the order of the file, or edits of sentences if no triple changes.

    An atomic counterfactual that is also an original fact, as a sentence or as a triple, is not an edit. Several
    objects of one subject and relation are one edit.
    """
    return _from_triples(record) or _from_sentences(record)


def reason_not_editable(record: RecoeRecord) -> str:
    """Return why the record cannot be edited; empty if it can."""
    if record.answers_equal:
        return "the counterfactual answer equals the answer"
    if not any(record.counterfactuals()):
        return "there are no counterfactual facts"
    return "" if edits_of(record) else "the edit changes nothing: every counterfactual fact is an original fact"


def paths_of(record: RecoeRecord) -> tuple[tuple[Fact, ...], tuple[Fact, ...]]:
    """Return the facts that a record depends on, before and after, for masking and audits.

    Subjects and relations with several objects are omitted, because none of the objects is determined.
    """
    found = []
    for facts in (record.facts(), record.counterfactuals()):
        places = _by_place((*facts, *record.unchanged()))
        single = [next(iter(held.values())) for held in places.values() if len(held) == 1]
        found.append(tuple(_fact(atom.triple, [atom], atom.sentence) for atom in single))
    return found[0], found[1]


def question_of(atom: Atom) -> str:
    """Return the atomic fact as a task, because the files have no questions for atomic facts."""
    triple, sentence = atom.triple, atom.sentence.strip().removesuffix(".")
    if triple.subject in sentence and sentence.count(triple.object) == 1 and triple.object not in triple.subject:
        return f'Fill in the blank: "{sentence.replace(triple.object, BLANK)}."'
    return f'Fill in the blank: "{triple.subject}, {triple.relation}: {BLANK}."'


def cloze_of(atom: Atom) -> Cloze | None:
    """Return the record's cloze, otherwise subject and relation; None if the relation contains braces."""
    template = atom.cloze or f"{{}} {atom.triple.relation}"
    return Cloze(template=template, subject=atom.triple.subject) if template.count("{}") == 1 else None


def _from_triples(record: RecoeRecord) -> tuple[Edit, ...]:
    before, after = _by_place(record.facts()), _by_place(record.counterfactuals())
    said = _said(record)
    made: dict[str, Edit] = {}
    for place, held in after.items():
        old = before.get(place, {})
        new = [
            atom
            for name, atom in held.items()
            if name not in old and plain(atom.sentence) not in said and atom.triple.note != JOINED
        ]
        if new:
            statement = _statement(new)
            if statement in made:  # a sentence with two triples: one statement is one edit
                statement = _in_words(new[0].triple)
            made[statement] = _edit(statement, new, [atom for name, atom in old.items() if name not in held])
    return tuple(made.values())


def _from_sentences(record: RecoeRecord) -> tuple[Edit, ...]:
    said = _said(record)
    texts = (text for fact in record.counterfactuals() for text in fact.sentences)
    return distinct(Edit(id=text, statement=text) for text in texts if plain(text) not in said)


def _said(record: RecoeRecord) -> frozenset[str]:
    """Return the original atomic sentences."""
    return frozenset(plain(text) for fact in record.facts() for text in fact.sentences)


def _statement(atoms: Sequence[Atom]) -> str:
    return " ".join(_ended(atom.sentence) for atom in atoms) if len(atoms) > 1 else atoms[0].sentence


def _in_words(triple: OpenIETriple) -> str:
    return f"{triple.subject} {triple.relation} {triple.object}"


def _edit(statement: str, new: Sequence[Atom], old: Sequence[Atom]) -> Edit:
    return Edit(
        id=statement,
        statement=statement,
        before=_fact(new[0].triple, old, "") if old else None,
        after=_fact(new[0].triple, new, statement),
        cloze=cloze_of(new[0]),
        question=question_of(new[0]),
    )


def _ended(sentence: str) -> str:
    return sentence if sentence.endswith((".", "!", "?")) else f"{sentence}."


def _fact(about: OpenIETriple, atoms: Sequence[Atom], text: str) -> Fact:
    """Return the fact with subject and relation of ``about`` and the objects of ``atoms``."""
    return Fact(
        subject=Entity(label=about.subject),
        relation=Relation(label=about.relation),
        objects=tuple(Entity(label=atom.triple.object) for atom in atoms),
        text=text,
    )


def _by_place(facts: Iterable[StatedFact]) -> Places:
    found: Places = {}
    for fact in facts:
        for atom in fact.atoms():
            found.setdefault(atom.triple.place, {}).setdefault(plain(atom.triple.object), atom)
    return found
