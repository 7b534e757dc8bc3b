"""Convert records to cases.

A case has these probes (section 2 of the paper and its appendix B):

============== ====== ======= ===================================================================
probe          phase  passes  queries
============== ====== ======= ===================================================================
efficacy-N     after  any     the single-hop question of edit N
instance-before before all    every single hop of the old chain
instance-after after  all     every single hop of the new chain, edited or not
multi-hop      both   any     every wording of the multi-hop question
============== ====== ======= ===================================================================
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from attrs import evolve, field, frozen

from ke_benchmarks.audit import contamination
from ke_core.plugin import EFFICACY, Case, Cloze, Edit, Entity, Fact, Gold, Probe, Query, Relation
from ke_plugin_mquake.records import SLOT, MquakeRecord, MquakeRewrite, SingleHop, Triple


def cases(records: Sequence[MquakeRecord]) -> tuple[Case, ...]:
    """Return every record as a case, in the order of the file."""
    build = CaseBuilder(aliases=known_aliases(records), relations=relations(records))
    return tuple(build.case(record) for record in records)


def consistent(found: Sequence[Case]) -> tuple[Case, ...]:
    """Return the cases whose new chain stays valid when the edits of all cases are applied together."""
    contaminated = {hop.case for hop in contamination(found, [case.id for case in found], "id").on_edited}
    return tuple(case for case in found if case.id not in contaminated)


def known_aliases(records: Iterable[MquakeRecord]) -> dict[str, tuple[str, ...]]:
    """Return aliases by Wikidata id, from the answers of all hops: objects of edits have no aliases in the file."""
    found: dict[str, tuple[str, ...]] = {}
    for record in records:
        for hops, triples in (
            (record.single_hops, record.orig.triples),
            (record.new_single_hops, record.orig.new_triples),
        ):
            for hop, (_subject, _relation, answer) in zip(hops, triples, strict=True):
                found.setdefault(answer, non_blank(hop.answer_alias))
    return found


def relations(records: Iterable[MquakeRecord]) -> dict[str, Relation]:
    """Return relations by Wikidata id, with the templates of their hops."""
    found: dict[str, Relation] = {}
    for record in records:
        for hop, (_s, key, _o), (subject, label, _object) in hops_of(record):
            if key not in found or found[key].cloze is None or found[key].question is None:
                old = found.get(key) or Relation(label=label, id=key)
                found[key] = evolve(
                    old,
                    cloze=old.cloze or template(hop.cloze, subject),
                    question=old.question or template(hop.question, subject),
                )
    return found


def hops_of(record: MquakeRecord) -> Iterator[tuple[SingleHop, Triple, Triple]]:
    """Yield (hop, ids, labels) of the old chain, then of the new one."""
    orig = record.orig
    yield from zip(record.single_hops, orig.triples, orig.triples_labeled, strict=True)
    yield from zip(record.new_single_hops, orig.new_triples, orig.new_triples_labeled, strict=True)


def template(text: str, subject: str) -> str | None:
    """Return ``text`` with ``{}`` for its subject, or None unless the subject occurs exactly once."""
    return text.replace(subject, SLOT) if text.count(subject) == 1 and SLOT not in text else None


def edit_id(triple: Triple) -> str:
    """Return the id of a fact's edit. It uses Wikidata ids because labels are ambiguous ("Ford Mustang")."""
    return "|".join(triple)


def non_blank(aliases: Iterable[str]) -> tuple[str, ...]:
    """Return the non-blank aliases: a blank alias would match every answer."""
    return tuple(alias for alias in aliases if alias.strip())


@frozen(kw_only=True)
class CaseBuilder:
    """Builds cases with the aliases and relations of the whole file."""

    aliases: dict[str, tuple[str, ...]]
    relations: dict[str, Relation]
    _entities: dict[tuple[str, str | None], Entity] = field(factory=dict)
    _golds: dict[tuple[str, str, tuple[str, ...]], Gold] = field(factory=dict)

    def case(self, record: MquakeRecord) -> Case:
        """Convert one record: its edits, chains and probes."""
        orig = record.orig
        edits = tuple(map(self.edit, record.requested_rewrite, orig.edit_triples))
        new = self._new_hops(record, edits)
        old = self._old_hops(record, {query.texts[0]: query.id for query in new})
        asked = {query.edit: query for query in new}
        efficacy = tuple(
            Probe(id=f"efficacy-{at}", aspect=EFFICACY, queries=(asked[edit.id],), edits=(edit.id,))
            for at, edit in enumerate(edits, start=1)
        )
        ids = tuple(edit.id for edit in edits)
        return Case(
            id=str(record.case_id),
            edits=edits,
            probes=(
                *efficacy,
                Probe(id="instance-before", aspect="instance", queries=old, require="all", phase="before", edits=ids),
                Probe(id="instance-after", aspect="instance", queries=new, require="all", edits=ids),
                Probe(
                    id="multi-hop",
                    aspect="multi-hop",
                    queries=self._multi_hop(record, new, old),
                    phase="both",
                    edits=ids,
                ),
            ),
            facts_before=self._facts(record.single_hops, orig.triples, orig.triples_labeled),
            facts_after=self._facts(record.new_single_hops, orig.new_triples, orig.new_triples_labeled),
            tags={"hops": str(len(record.new_single_hops)), "edits": str(len(edits))},
        )

    def edit(self, rewrite: MquakeRewrite, triple: Triple) -> Edit:
        """Convert one rewrite. The id identifies the new fact, so cases with the same edit share it."""
        subject = self.entity(rewrite.subject, triple[0])
        cloze = Cloze(template=rewrite.prompt, subject=rewrite.subject)

        def fact(label: str, key: str | None) -> Fact:
            return Fact(
                subject=subject,
                relation=self.relations[triple[1]],
                objects=(self.entity(label, key),),
                text=f"{cloze.prompt} {label}",
            )

        after = fact(rewrite.target_new.str, rewrite.target_new.id)
        return Edit(
            id=edit_id(triple),
            statement=after.text,
            before=fact(rewrite.target_true.str, rewrite.target_true.id),
            after=after,
            cloze=cloze,
            question=rewrite.question,
        )

    def entity(self, label: str, key: str | None) -> Entity:
        """Return the entity of that label and id, with its aliases from the whole file."""
        if (label, key) not in self._entities:
            self._entities[label, key] = Entity(label=label, aliases=self.aliases.get(key or "", ()), id=key)
        return self._entities[label, key]

    def gold(self, label: str, aliases: tuple[str, ...], key: str) -> Gold:
        """Return the gold answer with its aliases. Equal ones are cached, because files repeat them often."""
        if (label, key, aliases) not in self._golds:
            entity = Entity(label=label, aliases=non_blank(aliases), id=key)
            self._golds[label, key, aliases] = Gold(entities=(entity,))
        return self._golds[label, key, aliases]

    def _new_hops(self, record: MquakeRecord, edits: Sequence[Edit]) -> tuple[Query, ...]:
        """Return the queries of the new chain. The hop of an edit refers to that edit."""
        own = {edit.id: edit for edit in edits}
        return tuple(
            Query(
                id=f"hop-{at}",
                texts=(hop.question,),
                cloze=hop.cloze,
                gold=self.gold(hop.answer, hop.answer_alias, triple[2]),
                pre_edit=_pre_edit(own.get(edit_id(triple))),
                edit=edit_id(triple) if edit_id(triple) in own else None,
                relation=triple[1],
            )
            for at, (hop, triple) in enumerate(
                zip(record.new_single_hops, record.orig.new_triples, strict=True), start=1
            )
        )

    def _old_hops(self, record: MquakeRecord, ids: dict[str, str]) -> tuple[Query, ...]:
        """Return the queries of the old chain. A hop that is in the new chain too keeps its id there."""
        return tuple(
            Query(
                id=ids.get(hop.question, f"old-hop-{at}"),
                texts=(hop.question,),
                cloze=hop.cloze,
                gold=self.gold(hop.answer, hop.answer_alias, answer),
                relation=relation,
            )
            for at, (hop, (_subject, relation, answer)) in enumerate(
                zip(record.single_hops, record.orig.triples, strict=True), start=1
            )
        )

    def _multi_hop(self, record: MquakeRecord, new: tuple[Query, ...], old: tuple[Query, ...]) -> tuple[Query, ...]:
        """Return each wording as a query that lists the other wordings; any number of wordings works."""
        orig = record.orig
        wordings = tuple(dict.fromkeys(record.questions))
        answer = self.gold(record.new_answer, record.new_answer_alias, orig.new_triples[-1][2])
        before = self.gold(record.answer, record.answer_alias + record.answer_extended, orig.triples[-1][2])
        return tuple(
            Query(
                id=f"multi-hop-{at}",
                texts=(own, *(other for other in wordings if other != own)),
                gold=answer,
                pre_edit=before,
                hops=new,
                hops_before=old,
            )
            for at, own in enumerate(wordings, start=1)
        )

    def _facts(self, hops: Sequence[SingleHop], ids: Sequence[Triple], labels: Sequence[Triple]) -> tuple[Fact, ...]:
        return tuple(
            Fact(
                subject=self.entity(labels[at][0], ids[at][0]),
                relation=self.relations[ids[at][1]],
                objects=(self.entity(labels[at][2], ids[at][2]),),
                text=f"{hop.cloze} {hop.answer}",
            )
            for at, hop in enumerate(hops)
        )


def _pre_edit(edit: Edit | None) -> Gold | None:
    return Gold(entities=edit.before.objects) if edit and edit.before else None
