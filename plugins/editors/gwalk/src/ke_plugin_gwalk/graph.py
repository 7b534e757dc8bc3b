"""The edits as a graph: each triple is an edge, found by subject and relation, and hidden per question.

The graph contains only the edits. Entities are compared by name, because the model writes no ids.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import TypeVar

from attrs import frozen

from ke_core.plugin import Edit, Encoder, Entity, Hit, Nearest, Procedure, Relation, UnsupportedEdit
from ke_memory.plugin import FactMemory

T = TypeVar("T")
SLOT = "{}"
NEAR = 10  # entities whose aliases are compared


@frozen(kw_only=True)
class EditTriple:
    """(subject, relation, object) of an edit, with its wordings of the relation.

    ``wordings``: the relation's name, and the edit's sentence without subject and object. ``question``: a template.
    ``entities``: every name that the edit mentions.
    """

    id: str
    statement: str
    subject: str
    relation: str
    object: str
    wordings: tuple[str, ...]
    question: str | None
    entities: tuple[str, ...]

    @property
    def uses(self) -> list[tuple[str, str]]:
        """Pairs (relation, wording) to embed."""
        return [(self.relation, wording) for wording in self.wordings]


def triple_of(edit: Edit, *, released: bool) -> EditTriple:
    """Return the edit's triple. ``released``: use the template as the only wording of the relation.

    Raises UnsupportedEdit if the edit has no triple, or not exactly one object.
    """
    why = unsupported_reason(edit)
    if why or edit.after is None:
        raise UnsupportedEdit(f"edit {edit.id}: {why}", hint="gwalk needs edits with one subject, relation and object")
    after, before = edit.after, edit.before.objects if edit.before else ()
    template = edit.cloze.template if edit.cloze else after.relation.cloze
    return EditTriple(
        id=edit.id,
        statement=edit.statement,
        subject=after.subject.label,
        relation=after.relation.key,
        object=after.objects[0].label,
        wordings=(template,) if released and template else wordings(after.relation.label, template),
        question=_question(edit, after.subject, after.relation),
        entities=tuple(dict.fromkeys(entity.label for entity in (after.subject, *after.objects, *before))),
    )


def unsupported_reason(edit: Edit) -> str:
    """Return why the edit cannot be an edge of the graph; empty if it can."""
    if edit.after is None:
        return "it has no triple"
    return "" if len(edit.after.objects) == 1 else "it does not have exactly one object"


def wordings(label: str, template: str | None) -> tuple[str, ...]:
    """Return the texts that find a relation: its name, and its sentence without the subject."""
    return (label, " ".join(template.replace(SLOT, " ").split())) if template else (label,)


@frozen(kw_only=True)
class HiddenEdges:
    """What a question must not find: hidden edges, and everything that no other edge has.

    ``questions``: edges whose question is not used. ``rows``: of relations, by relation and wording. ``names``: of
    entities. ``subjects``: those without another edge.
    """

    edges: frozenset[str] = frozenset()
    questions: frozenset[str] = frozenset()
    rows: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    subjects: frozenset[str] = frozenset()


class EditGraph:
    """The active edges. ``aliases``: other names by label, or None. ``near``: find subjects by embedding too.

    ``released``: as in the released code, a relation has one wording, and "the U.S.A" does not find "USA".
    """

    def __init__(
        self, encoder: Encoder, *, released: bool, aliases: Mapping[str, Iterable[str]] | None, near: bool = False
    ) -> None:
        self.relations = FactMemory(encoder)
        self.subjects = FactMemory(encoder) if near else None
        self.entities = FactMemory(encoder)
        self._released, self._aliases = released, aliases
        self._triples: dict[str, EditTriple] = {}
        self._edges: dict[str, dict[str, dict[str, EditTriple]]] = {}  # by subject, relation and edit
        self._questions: dict[str, dict[str, str]] = {}
        self._uses: Counter[tuple[str, str]] = Counter()  # of (relation, wording)
        self._names: Counter[str] = Counter()
        self._spelled: dict[str, dict[str, None]] = {}

    def __len__(self) -> int:
        return len(self._triples)

    @property
    def size(self) -> dict[str, int]:
        """Number of edges, relations and names of entities."""
        return {
            "facts": len(self),
            "relations": len({relation for relation, _wording in self._uses}),
            "entities": len(self._names),
        }

    def change(self, *, add: Iterable[Edit] = (), remove: Iterable[str] = ()) -> None:
        """Remove edges with everything that only they have, then add others in their order.

        Unknown ids are ignored, and an existing edge is unchanged. If this raises (UnsupportedEdit, or an error of the
        encoder), nothing changes.
        """
        gone = {name: self._triples[name] for name in remove if name in self._triples}
        fresh = {
            edit.id: triple_of(edit, released=self._released)
            for edit in add
            if edit.id in gone or edit.id not in self._triples
        }
        try:
            self._embed(fresh.values())  # first, because the encoder may fail
        except BaseException:
            self._drop_unused(fresh.values())
            raise
        self._take_out(gone.values())
        self._put_in(fresh.values())
        self._drop_unused(gone.values())

    def _embed(self, triples: Collection[EditTriple]) -> None:
        self.relations.add((_row(*use), use[1]) for triple in triples for use in triple.uses)
        if self._aliases is not None:
            self.entities.add((name, name) for triple in triples for name in triple.entities)
        if self.subjects is not None:
            self.subjects.add((triple.subject, triple.subject) for triple in triples)

    def _drop_unused(self, triples: Collection[EditTriple]) -> None:
        """Remove what only these triples had."""
        self.relations.remove(_row(*use) for triple in triples for use in triple.uses if use not in self._uses)
        self.entities.remove(name for triple in triples for name in triple.entities if name not in self._names)
        if self.subjects is not None:
            self.subjects.remove(triple.subject for triple in triples if triple.subject not in self._edges)

    def _put_in(self, triples: Collection[EditTriple]) -> None:
        for triple in triples:
            self._triples[triple.id] = triple
            edges = self._edges.setdefault(triple.subject, {})
            edges.setdefault(triple.relation, {})[triple.id] = triple
            if triple.question is not None:
                self._questions.setdefault(triple.relation, {})[triple.id] = triple.question
            self._uses.update(triple.uses)
            self._names.update(triple.entities)
            for name in triple.entities:
                self._spelled.setdefault(folded(name), {})[name] = None

    def _take_out(self, triples: Collection[EditTriple]) -> None:
        for triple in triples:
            del self._triples[triple.id]
            edges = self._edges[triple.subject]
            del edges[triple.relation][triple.id]
            if not any(edges.values()):
                del self._edges[triple.subject]
            self._questions.get(triple.relation, {}).pop(triple.id, None)
            _uncount(self._uses, triple.uses)
            _uncount(self._names, triple.entities)
            for name in triple.entities:
                if name not in self._names:
                    self._spelled[folded(name)].pop(name, None)

    def unseen(self, hidden: frozenset[str]) -> HiddenEdges:
        """Return what must not be found if those edges are hidden, as if the graph never had them."""
        triples = [self._triples[name] for name in hidden if name in self._triples]
        uses = Counter(use for triple in triples for use in triple.uses)
        names = Counter(name for triple in triples for name in triple.entities)
        return HiddenEdges(
            edges=hidden,
            questions=hidden,
            rows=frozenset(_row(*use) for use, count in uses.items() if count == self._uses[use]),
            names=frozenset(name for name, count in names.items() if count == self._names[name]),
            subjects=frozenset(one.subject for one in triples if not self.relations_of(one.subject, hidden)),
        )

    def find(self, subject: str, relation: str, hidden: frozenset[str]) -> EditTriple | None:
        """Return the first visible edge of that subject and relation; later ones do not overrule it."""
        edges = self._edges.get(subject, {}).get(relation, {})
        return next((triple for name, triple in edges.items() if name not in hidden), None)

    def relations_of(self, subject: str, hidden: frozenset[str]) -> frozenset[str]:
        """Return the relations of ``subject`` with a visible edge."""
        return frozenset(relation for relation in self._edges.get(subject, {}) if self.find(subject, relation, hidden))

    def question(self, relation: str, subject: str, unseen: HiddenEdges) -> str | None:
        """Return the relation's question about ``subject``; None if no edit has one."""
        templates = self._questions.get(relation, {}).items()
        template = next((template for name, template in templates if name not in unseen.questions), None)
        return None if template is None else template.replace(SLOT, subject)

    def relation(
        self, phrase: str, threshold: float, unseen: HiddenEdges, among: Collection[str] | None = None
    ) -> Procedure[tuple[str | None, float]]:
        """Return the relation with the nearest wording and its score; None below ``threshold``.

        ``among``: consider these relations only.
        """
        others = () if among is None else (_row(*use) for use in self._uses if use[0] not in among)
        hits: tuple[Hit, ...] = yield Nearest(memory=self.relations, text=phrase, k=1, hidden=unseen.rows.union(others))
        if not hits:
            return None, 0.0
        (hit,) = hits
        return (hit.id.rpartition("\n")[0] if hit.score >= threshold else None), hit.score

    def subject(self, name: str, threshold: float, unseen: HiddenEdges) -> Procedure[str]:
        """Return the subject with that name, else the nearest one above ``threshold``, else the name."""
        linked = yield from self.link(name, unseen)
        if (linked in self._edges and linked not in unseen.subjects) or self.subjects is None:
            return linked
        hits: tuple[Hit, ...] = yield Nearest(memory=self.subjects, text=name, k=1, hidden=unseen.subjects)
        return hits[0].id if hits and hits[0].score >= threshold else linked

    def link(self, name: str, unseen: HiddenEdges) -> Procedure[str]:
        """Return the entity of that name: exact, else the only one with a similar spelling, else by an alias.

        A name that belongs to no edit is returned unchanged.
        """
        if name in self._names and name not in unseen.names:
            return name
        alike = [other for other in self._spelled.get(folded(name), ()) if other not in unseen.names]
        if len(alike) == 1 and not self._released:
            return alike[0]
        if self._aliases is not None:
            hits: tuple[Hit, ...] = yield Nearest(memory=self.entities, text=name, k=NEAR, hidden=unseen.names)
            for hit in hits:
                if name in self._aliases.get(hit.id, ()):
                    return hit.id
        return name


def folded(name: str) -> str:
    """Return a name without case, accents, punctuation and a leading article; C, C# and C++ stay distinct.

    Vowel signs and marks of syllables are not accents: without them, many names of some scripts would be equal.
    """
    plain = "".join(c for c in unicodedata.normalize("NFKD", name.casefold()) if unicodedata.combining(c) < ACCENTS)
    plain = re.sub("['\u2019.]", "", plain)
    words = "".join(c if _is_name_character(c) else " " for c in plain).split()
    return " ".join(words[1:] if words[:1] == ["the"] and len(words) > 1 else words) or name


ACCENTS = 10
"""Minimum combining class of an accent: below are virama, nukta, kana voicing marks, and signs of no class."""


def _is_name_character(character: str) -> bool:
    return character.isalnum() or character in "+#" or unicodedata.category(character).startswith("M")


def _uncount(counts: Counter[T], things: Iterable[T]) -> None:
    """Decrease each count, and delete those at zero."""
    for thing in things:
        counts[thing] -= 1
        if not counts[thing]:
            del counts[thing]


def _row(relation: str, wording: str) -> str:
    return f"{relation}\n{wording}"


def _question(edit: Edit, subject: Entity, relation: Relation) -> str | None:
    """Return the relation's own template, else the edit's question without its subject."""
    if relation.question is not None:
        return relation.question
    asked = edit.question or ""
    return asked.replace(subject.label, SLOT) if asked.count(subject.label) == 1 and SLOT not in asked else None
