"""The edits as a graph: an edge a triple, found by its subject's name and its relation, hidden per question.

Only what an edit itself says is kept. Names of entities are compared as names: the model writes no ids.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping

from attrs import frozen

from ke_core.plugin import Edit, Encoder, Entity, Hit, Nearest, Procedure, Relation, UnsupportedEdit
from ke_core.retrieval import FactMemory

SLOT = "{}"
NEAR = 10  # entities whose aliases are looked at


@frozen(kw_only=True)
class Triple:
    """(subject, relation, object) of an edit, with the words that the edit has for its relation.

    ``wordings``: the relation's name and the edit's sentence without its ends. ``question``: a template.
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


def triple_of(edit: Edit, *, bare: bool) -> Triple:
    """The edit's triple. ``bare``: the relation's only wording is its template, as it stands (published).

    Raises UnsupportedEdit where the edit has none, or not exactly one object.
    """
    why = unfit(edit)
    if why or edit.after is None:
        raise UnsupportedEdit(f"edit {edit.id}: {why}", hint="gwalk takes edits of one subject, relation and object")
    after, before = edit.after, edit.before.objects if edit.before else ()
    template = edit.cloze.template if edit.cloze else after.relation.cloze
    return Triple(
        id=edit.id,
        statement=edit.statement,
        subject=after.subject.label,
        relation=after.relation.key,
        object=after.objects[0].label,
        wordings=(template,) if bare and template else wordings(after.relation.label, template),
        question=_question(edit, after.subject, after.relation),
        entities=tuple(dict.fromkeys(entity.label for entity in (after.subject, *after.objects, *before))),
    )


def unfit(edit: Edit) -> str:
    """Why the edit is no edge of the graph; empty where it is one."""
    if edit.after is None:
        return "it states no triple"
    return "" if len(edit.after.objects) == 1 else "its fact has not exactly one object"


def wordings(label: str, template: str | None) -> tuple[str, ...]:
    """What a relation is found by: its name, and its sentence without the subject."""
    return (label, " ".join(template.replace(SLOT, " ").split())) if template else (label,)


class EditGraph:
    """The edges in force. ``aliases``: other names by label, or None. ``respell``: "the U.S.A" finds "USA"."""

    def __init__(
        self, encoder: Encoder, *, bare: bool, respell: bool, aliases: Mapping[str, Iterable[str]] | None
    ) -> None:
        self.relations = FactMemory(encoder)
        self.entities = FactMemory(encoder)
        self._bare, self._respell, self._aliases = bare, respell, aliases
        self._triples: dict[str, Triple] = {}
        self._edges: dict[tuple[str, str], dict[str, Triple]] = {}
        self._questions: dict[str, dict[str, str]] = {}
        self._uses: Counter[tuple[str, str]] = Counter()  # of (relation, wording)
        self._names: Counter[str] = Counter()
        self._spelled: dict[str, dict[str, None]] = {}

    def __len__(self) -> int:
        return len(self._triples)

    @property
    def size(self) -> dict[str, int]:
        """How many edges, relations and names of entities there are."""
        return {
            "facts": len(self),
            "relations": len({relation for relation, _wording in self._uses}),
            "entities": len(self._names),
        }

    def add(self, edits: Iterable[Edit]) -> None:
        """Put edges in, in their order (M3); one that is there already stays as it is. Raises UnsupportedEdit."""
        fresh = {edit.id: triple_of(edit, bare=self._bare) for edit in edits if edit.id not in self._triples}
        for triple in fresh.values():
            self._edges.setdefault((triple.subject, triple.relation), {})[triple.id] = triple
            if triple.question is not None:
                self._questions.setdefault(triple.relation, {})[triple.id] = triple.question
            self._uses.update((triple.relation, wording) for wording in triple.wordings)
            self._names.update(triple.entities)
            for name in triple.entities:
                self._spelled.setdefault(folded(name), {})[name] = None
        self._triples |= fresh
        self.relations.add((_row(*use), use[1]) for use in self._uses)
        if self._aliases is not None:
            self.entities.add((name, name) for name in self._names)

    def remove(self, ids: Iterable[str]) -> None:
        """Take edges out, and what only they knew; ids that are not there are ignored."""
        gone = [triple for name in ids if (triple := self._triples.pop(name, None)) is not None]
        for triple in gone:
            del self._edges[triple.subject, triple.relation][triple.id]
            self._questions.get(triple.relation, {}).pop(triple.id, None)
            self._uses.subtract((triple.relation, wording) for wording in triple.wordings)
            self._names.subtract(triple.entities)
        unused = [use for use, count in self._uses.items() if not count]
        unnamed = [name for name, count in self._names.items() if not count]
        for use in unused:
            del self._uses[use]
        for name in unnamed:
            del self._names[name]
            del self._spelled[folded(name)][name]
        self.relations.remove(_row(*use) for use in unused)
        self.entities.remove(unnamed)

    def find(self, subject: str, relation: str, hidden: frozenset[str]) -> Triple | None:
        """The first edge of that subject and relation that is not hidden; later ones do not overrule it."""
        edges = self._edges.get((subject, relation), {})
        return next((triple for name, triple in edges.items() if name not in hidden), None)

    def question(self, relation: str, subject: str) -> str | None:
        """The relation's question about ``subject``; None where no edit has one (M4: never an error)."""
        template = next(iter(self._questions.get(relation, {}).values()), None)
        return None if template is None else template.replace(SLOT, subject)

    def relation(self, phrase: str, threshold: float) -> Procedure[tuple[str | None, float]]:
        """The relation whose wording is nearest, and its score; None where that is below ``threshold``."""
        hits: tuple[Hit, ...] = yield Nearest(memory=self.relations, text=phrase, k=1)
        if not hits:
            return None, 0.0
        (hit,) = hits
        return (hit.id.rpartition("\n")[0] if hit.score >= threshold else None), hit.score

    def link(self, name: str) -> Procedure[str]:
        """The entity of that name: as it is written, or spelled a little differently, or by an alias of a near one.

        A name that belongs to no edit stays as it is: nothing is known of it.
        """
        if name in self._names:
            return name
        alike = self._spelled.get(folded(name)) if self._respell else None
        if alike:
            return next(iter(alike))
        if self._aliases is not None:
            hits: tuple[Hit, ...] = yield Nearest(memory=self.entities, text=name, k=NEAR)
            for hit in hits:
                if name in self._aliases.get(hit.id, ()):
                    return hit.id
        return name


def folded(name: str) -> str:
    """A name without case, accents, punctuation and a leading article."""
    plain = "".join(c for c in unicodedata.normalize("NFKD", name.casefold()) if not unicodedata.combining(c))
    words = "".join(c if c.isalnum() else " " for c in plain.replace("'", "").replace(".", "")).split()
    return " ".join(words[1:] if words[:1] == ["the"] and len(words) > 1 else words) or name


def _row(relation: str, wording: str) -> str:
    return f"{relation}\n{wording}"


def _question(edit: Edit, subject: Entity, relation: Relation) -> str | None:
    """The relation's own template, else the edit's question without its subject."""
    if relation.question is not None:
        return relation.question
    asked = edit.question or ""
    return asked.replace(subject.label, SLOT) if asked.count(subject.label) == 1 and SLOT not in asked else None
