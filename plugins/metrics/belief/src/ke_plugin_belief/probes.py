"""Belief tests, derived from the edits of a case.

For an edit of subject s from the old object o to the new object n (if the dataset has no old object, o is the object of
another edit of the same relation, that is with the same id or question pattern, and another subject):

============ ==================================================== ==========================================
probe        request                                              right answer
============ ==================================================== ==========================================
choice       the question, options n, o and (A to C) "not sure"   n (SA-MCQ: surface compliance)
reversal     the sentence with n and a blank for the subject,     s
             options s and another subject of the relation
conflict     a sentence that states o, then the question          n
============ ==================================================== ==========================================

Each choice is asked in both orders of its options, because models prefer some letters. The letters are scored as
continuations. ``choice`` is also asked without the third option, and after a sentence that states n (supporting), o
(contradicting) or an old fact of another case (irrelevant).

The texts contain the edit's own subject and objects, which its method gets too, and old facts and subjects of other
cases. They name the new object of another case only if the dataset has no old objects. Only a context states an object,
and no request says which option is right. A run asks these questions after all others of the case.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain

from attrs import field, frozen

from ke_core.plugin import SLOT, Case, Edit, Entity, Gold, Probe, Query, continued, distinct
from ke_plugin_belief import CHOICE, CONFLICT, CONTEXTS, NAME, REVERSAL

INSTRUCTION = "Choose the right option. Use the information, if there is any, and what you know."
NONE, NOT_SURE, BLANK, TWO = "none", "I am not sure", "____", "two-options"
LETTERS = "ABC"
ORDERS = ("first", "second")
"""Place of the option that an edited model should choose."""


def unsuitable(edit: Edit) -> str:
    """Return why no belief test can be derived from ``edit``; empty if it can."""
    if edit.after is None or not (edit.prompt or edit.question):
        return "the edit has no new fact, or neither a cloze nor a question"
    if len(edit.after.objects) != 1 or (edit.before is not None and len(edit.before.objects) != 1):
        return "the edit does not replace one object by one"
    return "the edit changes nothing" if edit.operation == "none" else ""


def stated(edit: Edit, target: str) -> str:
    """Return the sentence that the edit's cloze forms with ``target``, or the edit's question and ``target``."""
    prompt = edit.prompt or edit.question or ""
    return f"{prompt}{continued(prompt, target)}."


def question_of(edit: Edit) -> str:
    """Return the edit's question, or one about its cloze."""
    return edit.question or f'Which option completes the sentence "{edit.prompt} ..."?'


@frozen
class BeliefProbes:
    """Derives the probes of a case. ``cases``: all of the dataset, for other subjects and irrelevant facts."""

    cases: Iterable[Case] = field(repr=False)
    _edits: Sequence[Edit] = field(init=False, repr=False)
    _places: Mapping[str, int] = field(init=False, repr=False)
    _by_relation: Mapping[str, Sequence[int]] = field(init=False, repr=False)
    _holders: Mapping[tuple[str, str], Collection[str]] = field(init=False, repr=False)

    @_edits.default
    def _suitable(self) -> Sequence[Edit]:
        every = distinct(edit for case in self.cases for edit in case.edits)
        return [edit for edit in every if not unsuitable(edit)]

    @_places.default
    def _place_of_each_id(self) -> Mapping[str, int]:
        return {edit.id: place for place, edit in reversed(list(enumerate(self._edits)))}

    @_by_relation.default
    def _places_of_each_relation(self) -> Mapping[str, Sequence[int]]:
        found: dict[str, list[int]] = {}
        for place, edit in enumerate(self._edits):
            found.setdefault(_relation(edit), []).append(place)
        return found

    @_holders.default
    def _subjects_of_each_object(self) -> Mapping[tuple[str, str], Collection[str]]:
        found: dict[tuple[str, str], set[str]] = {}
        for edit in self._edits:
            for name in (edit.target, edit.old_target):
                found.setdefault((_relation(edit), name), set()).add(_subject(edit))
        return found

    def __call__(self, case: Case) -> tuple[Probe, ...]:
        """Return the probes of the case's edits. An unsuitable edit has none."""
        return tuple(
            Probe(
                id=f"{NAME}/{kind}/{edit.id}", aspect=f"{NAME}-{kind}", queries=queries, phase="both", edits=(edit.id,)
            )
            for edit in case.edits
            if not unsuitable(edit)
            for kind, queries in self._queries(edit)
            if queries
        )

    def _queries(self, edit: Edit) -> Iterator[tuple[str, tuple[Query, ...]]]:
        alternative = self._alternative(edit)
        if alternative is not None:
            yield CHOICE, tuple(self._choices(edit, alternative))
        yield REVERSAL, tuple(self._reversals(edit))
        if alternative is not None:
            yield CONFLICT, (_conflict(edit, alternative),)

    def _alternative(self, edit: Edit) -> Entity | None:
        """Return the old object. If the dataset has none: the object of another subject in the edit's relation.

        It is an old object if possible, is not the new one by another name, and no edit gives it to the edit's subject.
        """
        if edit.before is not None:
            return _old_object(edit)
        own = _spellings(edit.added[0])
        for other in self._after(edit, self._by_relation[_relation(edit)]):
            found = _old_object(other)
            holders = self._holders[_relation(edit), found.label.strip()]
            if _subject(edit) not in holders and own.isdisjoint(_spellings(found)):
                return found
        return None

    def _choices(self, edit: Edit, alternative: Entity) -> Iterator[Query]:
        pair = (edit.target, alternative.label.strip())
        texts = (NONE, stated(edit, pair[0]), self._irrelevant(edit, pair), stated(edit, pair[1]))
        passages = dict(zip((NONE, *CONTEXTS), texts, strict=True))
        question = question_of(edit)
        for context, passage in passages.items():
            if passage:
                yield from _in_both_orders(edit, CHOICE, context, passage, question, pair, more=(NOT_SURE,))
        yield from _in_both_orders(edit, CHOICE, TWO, NONE, question, pair)

    def _reversals(self, edit: Edit) -> Iterator[Query]:
        other = self._other_subject(edit)
        if other and edit.cloze is not None:
            sentence = f"{edit.cloze.template.replace(SLOT, BLANK).rstrip()} {edit.target}."
            question = f'Which name belongs in the blank of "{sentence}"?'
            yield from _in_both_orders(edit, REVERSAL, NONE, NONE, question, (edit.cloze.subject, other))

    def _other_subject(self, edit: Edit) -> str:
        """Return another subject of the edit's relation that has its new object neither before nor after any edit."""
        holders = self._holders[_relation(edit), edit.target]
        for other in self._after(edit, self._by_relation.get(_relation(edit), ())):
            if _subject(other) not in holders:
                return _subject(other)
        return ""

    def _irrelevant(self, edit: Edit, options: tuple[str, str]) -> str:
        """Return an old fact of another relation that names neither the edit's subject nor one of its ``options``."""
        named = (_subject(edit), *options)
        if len(self._by_relation) == 1:
            return ""
        for other in self._after(edit, range(len(self._edits))):
            if other.before is not None and _relation(other) != _relation(edit):
                fact = stated(other, other.old_target)
                if not any(name in fact for name in named):
                    return fact
        return ""

    def _after(self, edit: Edit, places: Sequence[int]) -> Iterator[Edit]:
        """Yield the other edits at ``places``, beginning with the one that follows ``edit`` in the dataset."""
        own = self._places[edit.id]
        start = bisect_right(places, own)
        for at in chain(range(start, len(places)), range(start)):
            if places[at] != own:
                yield self._edits[places[at]]


def _relation(edit: Edit) -> str:
    assert edit.after is not None
    return edit.after.relation.key


def _subject(edit: Edit) -> str:
    assert edit.after is not None
    return edit.cloze.subject if edit.cloze is not None else edit.after.subject.label


def _old_object(edit: Edit) -> Entity:
    """Return the old object, or the new one if the dataset has no old object."""
    fact = edit.before or edit.after
    assert fact is not None
    return fact.objects[0]


def _spellings(entity: Entity) -> set[str]:
    return {name.strip().casefold() for name in entity.names}


def _in_both_orders(
    edit: Edit,
    kind: str,
    context: str,
    passage: str,
    question: str,
    pair: tuple[str, str],
    *,
    more: tuple[str, ...] = (),
) -> Iterator[Query]:
    """Yield the multiple-choice question with the right one of ``pair`` first, and second."""
    for place, order in enumerate(ORDERS):
        options = (*(pair if place == 0 else pair[::-1]), *more)
        listed = "\n".join(f"{letter}. {option}" for letter, option in zip(LETTERS, options, strict=False))
        yield Query(
            id=f"{NAME}/{kind}/{edit.id}/{context}/{order}",
            texts=(f"{INSTRUCTION}\nInformation: {passage}\nQuestion: {question}\n{listed}\nAnswer:",),
            form="cloze",
            gold=Gold(entities=(Entity(label=LETTERS[place]),)),
            pre_edit=Gold(entities=(Entity(label=LETTERS[1 - place]),)),
            continuations=tuple(f" {letter}" for letter in LETTERS[: len(options)]),
            tags={"context": context, "order": order},
        )


def _conflict(edit: Edit, alternative: Entity) -> Query:
    """Return the question after a sentence that states the old object, or the cloze if the edit has no question."""
    assert edit.after is not None
    return Query(
        id=f"{NAME}/{CONFLICT}/{edit.id}",
        texts=(f"{stated(edit, alternative.label.strip())} {edit.question or edit.prompt}",),
        form="question" if edit.question else "cloze",
        gold=Gold(entities=edit.after.objects),
        pre_edit=Gold(entities=(alternative,)),
        relation=edit.after.relation.key,
        tags={"context": "contradicting"},
    )
