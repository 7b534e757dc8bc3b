"""Convert records to cases: one edit, its own fact, and a probe for every test of the six criteria.

==================== ====== =============================================================================
probe                phase  queries
==================== ====== =============================================================================
efficacy             after  the edit's phrase; the new object (condition b of section 5.1)
known                before the same phrase; the old object, or for an injected fact the new one
LG-1, CI-1 ...       after  the test's queries, any or all must be right; ``given``: its conditions
==================== ====== =============================================================================

All queries are clozes. Any of several gold targets is right (section 5.1). Queries with the same prompt and answer
share an id and are sent once. The metric ``ripple`` combines conditions and success of edits.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from functools import cached_property

from attrs import evolve, field, frozen

from ke_benchmarks import structure_record
from ke_benchmarks.graph import Record
from ke_core.plugin import EFFICACY, Case, Cloze, Edit, Entity, Fact, Gold, Probe, Query, Relation
from ke_plugin_ripple_edits.records import KEYS, Ids, RippleEdit, RippleQuery, RippleRecord, RippleTarget, ids
from ke_plugin_ripple_edits.words import Sentence, cloze, split_prompt

KNOWN = "known"
SHORT = dict(zip(KEYS, ("LG", "CI", "CII", "SA", "PV", "RS"), strict=True))
RENAMED, BACKWARDS = ("subject-aliasing", "compositionality-2")
"""Criteria whose right answer is the edit's new object, so the pre-edit answer is the old object."""
BARE = re.compile(r"Q\d+\Z")


def case(record: RippleRecord, number: int) -> Case:
    """Convert the record. The id is its position in the file, from 1. Raises ValueError for an unreadable prompt."""
    return _RecordCase(record=record).made(str(number))


def cases_of(records: Sequence[Record], where: str) -> list[Case]:
    """Convert records of our own builder. ``where``: for errors, which are bugs."""
    return [
        case(structure_record(raw, RippleRecord, where=f"{where}, record {at}", hint="report this bug"), at)
        for at, raw in enumerate(json.loads(json.dumps(records)), start=1)
    ]


@frozen(kw_only=True, slots=False)
class _RecordCase:
    record: RippleRecord
    _queries: dict[tuple[str, tuple[Entity, ...]], Query] = field(factory=dict)

    def made(self, name: str) -> Case:
        """Return the case."""
        return Case(
            id=name,
            edits=(self.edit,),
            probes=tuple(self._probes()),
            facts_before=self._facts(after=False),
            facts_after=self._facts(after=True),
            tags={"subset": self.record.example_type, "relation": self.change.relation},
        )

    # --- the edit ----------------------------------------------------------------------------------------

    @property
    def change(self) -> RippleEdit:
        return self.record.edit

    @cached_property
    def said(self) -> Sentence:
        """The edit's prompt split into its parts, by the record's own labels if it has them."""
        change, old = self.change, self.change.original_fact
        if change.phrase is not None and change.target_label is not None:
            return Sentence(phrase=change.phrase.rstrip(), object=change.target_label, cloze=self._cloze())
        known = [self.labels[key].label for key in ids(change.target_id) if key in self.labels]
        return split_prompt(change.prompt, change.relation, objects=known, other=old.prompt if old else "")

    def _cloze(self) -> Cloze | None:
        phrase, subject = (self.change.phrase or "").rstrip(), self.change.subject_label
        if subject is None:
            return cloze(phrase, self.change.relation)
        head, found, tail = phrase.partition(subject)
        return Cloze(template=f"{head}{{}}{tail}", subject=subject) if found and "{}" not in head + tail else None

    @cached_property
    def subject(self) -> Entity:
        """The edited entity; by its id only if the prompt does not contain its label."""
        cloze_ = self.said.cloze
        label = self.change.subject_label or (cloze_.subject if cloze_ else ids(self.change.subject_id)[0])
        return Entity(label=label, aliases=self.change.subject_aliases, id=ids(self.change.subject_id)[0])

    @cached_property
    def new(self) -> Entity:
        """The new object."""
        key = ids(self.change.target_id)[0]
        aliases = self.change.target_aliases or self._aliases(key, self.said.object)
        return Entity(label=self.said.object or key, aliases=aliases, id=key)

    @cached_property
    def old(self) -> Entity | None:
        """The old object; None for an injected fact, or if its prompt lacks it."""
        old = self.change.original_fact
        if old is None:
            return None
        key, label = ids(old.target_id)[0], old.target_label
        if label is None and old.prompt.startswith(self.said.phrase):
            label = old.prompt[len(self.said.phrase) :].strip().removesuffix(".").strip()
        if not label or BARE.match(label):
            return None
        return Entity(label=label, aliases=old.target_aliases or self._aliases(key, label), id=key)

    @cached_property
    def edit(self) -> Edit:
        """The edit. Two records with the same change share its id."""
        change = self.change
        return Edit(
            id=f"{self.subject.key}|{change.relation}|{self.new.key}",
            statement=change.prompt.strip().removesuffix("."),
            before=self._fact(self.subject, (self.old,)) if self.old else None,
            after=self._fact(self.subject, (self.new,)),
            cloze=self.said.cloze,
            question=change.question,
        )

    def _fact(self, subject: Entity, objects: tuple[Entity, ...]) -> Fact:
        label = self.change.relation.replace("_", " ").lower()
        return Fact(
            subject=subject,
            relation=Relation(label=label, id=self.change.relation),
            objects=objects,
            text=f"{self.said.phrase} {objects[0].label}",
        )

    # --- probes ------------------------------------------------------------------------------------------

    def _probes(self) -> Iterator[Probe]:
        edits = (self.edit.id,)
        yield Probe(id=EFFICACY, aspect=EFFICACY, queries=(self.own,), edits=edits)
        knows = self.old or self.new
        if not BARE.match(knows.label):
            known = evolve(self.own, id=KNOWN, gold=_any((knows,)), pre_edit=None, edit=None, cloze=None)
            yield Probe(id=KNOWN, aspect=KNOWN, queries=(known,), phase="before", edits=edits)
        for aspect, short in SHORT.items():
            for number, test in enumerate(self.record.tests(aspect), start=1):
                yield Probe(
                    id=f"{short}-{number}",
                    aspect=aspect,
                    queries=tuple(self._query(asked, aspect, tests=True) for asked in test.test_queries),
                    given=tuple(self._query(asked, aspect) for asked in test.condition_queries),
                    require="all" if test.test_condition == "AND" else "any",
                    edits=edits,
                )

    @cached_property
    def own(self) -> Query:
        """Return the edit's own fact as a cloze."""
        phrase = self.said.phrase
        return Query(
            id="edit",
            texts=(phrase,),
            form="cloze",
            cloze=phrase,
            gold=_any(() if BARE.match(self.new.label) else (self.new,)),
            pre_edit=_any((self.old,)) if self.old else None,
            edit=self.edit.id,
            relation=self.change.relation,
        )

    def _query(self, asked: RippleQuery, aspect: str, *, tests: bool = False) -> Query:
        """Return the query of a test or a condition."""
        entities = _named(asked)
        key = (asked.prompt, entities)
        if key not in self._queries:
            pre_edit = self.old if tests and aspect in (RENAMED, BACKWARDS) else None
            self._queries[key] = Query(
                id=f"{SHORT[aspect]}-q{len(self._queries) + 1}",
                texts=(asked.prompt,),
                form="cloze",
                gold=_any(entities),
                pre_edit=_any((pre_edit,))
                if pre_edit and entities and pre_edit.key not in {e.key for e in entities}
                else None,
                relation=f"{asked.relation}/{asked.second_relation}" if asked.two_hop else asked.relation,
            )
        return self._queries[key]

    # --- facts for masking and audits ------------------------------------------------------------------------

    def _facts(self, *, after: bool) -> tuple[Fact, ...]:
        """Return the edit's fact, the facts of the tests' conditions, and the consequences after the edit."""
        own = self.edit.after if after else self.edit.before
        found: dict[tuple[str, str], Fact] = {}
        for aspect in KEYS:
            for test in self.record.tests(aspect):
                derived = test.test_queries if after and aspect == "logical-generalization" else ()
                for asked in (*test.condition_queries, *derived):
                    self._take(found, asked)
        return (*((own,) if own else ()), *found.values())

    def _take(self, found: dict[tuple[str, str], Fact], asked: RippleQuery) -> None:
        subject = (*ids(asked.subject_id), "")[0]
        place = (subject, asked.relation)
        objects = _named(asked)
        if asked.two_hop or not subject or not objects or place == (self.subject.key, self.change.relation):
            return
        found[place] = Fact(
            subject=self.subject if subject == self.subject.key else Entity(label=subject, id=subject),
            relation=Relation(label=asked.relation.replace("_", " ").lower(), id=asked.relation),
            objects=objects,
            text=f"{asked.prompt} {objects[0].label}",
        )

    @cached_property
    def labels(self) -> dict[str, Entity]:
        """Labels by id, from the record's answers."""
        found: dict[str, Entity] = {}
        for aspect in KEYS:
            for test in self.record.tests(aspect):
                for asked in (*test.test_queries, *test.condition_queries):
                    for entity in _named(asked):
                        if entity.id is not None:
                            found.setdefault(entity.id, entity)
        return found

    def _aliases(self, key: str, label: str) -> tuple[str, ...]:
        known = self.labels.get(key)
        return known.aliases if known and known.label == label else ()


def _named(asked: RippleQuery) -> tuple[Entity, ...]:
    """Return the answers that have a name."""
    keys: Sequence[str | None] = (
        asked.gold_ids if len(asked.gold_ids) == len(asked.answers) else [None] * len(asked.answers)
    )
    found = (_entity(answer, key, asked.gold_ids) for answer, key in zip(asked.answers, keys, strict=True))
    return tuple(entity for entity in found if entity is not None)


def _entity(answer: RippleTarget, key: str | None, bare: Ids) -> Entity | None:
    """Return a gold target; None if it has no name.

    Without a label in Wikidata, the file has the bare id or a blank: then the first alias is the label.
    """
    if BARE.match(answer.value) and answer.value in bare:
        return None
    aliases = _spelled(answer.aliases, bare)
    names = (answer.value, *aliases) if answer.value.strip() else aliases
    return Entity(label=names[0], aliases=names[1:], id=key) if names else None


def _spelled(aliases: Sequence[str], bare: Ids) -> tuple[str, ...]:
    """Return the non-blank aliases: a blank alias would match every answer."""
    return tuple(alias for alias in aliases if alias.strip() and alias not in bare)


def _any(entities: tuple[Entity, ...]) -> Gold:
    return Gold(entities=entities, require="any")
