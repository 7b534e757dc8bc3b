"""Convert records to cases.

========== ===== ====== =================================================================
probe      phase passes queries
========== ===== ====== =================================================================
efficacy-N after any    the question of edit N; the answer must name all its new objects
complex    both  any    every wording of the complex question; the answer must name all of A*
========== ===== ====== =================================================================
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ke_core.plugin import EFFICACY, BadData, Case, Cloze, Edit, Entity, Fact, Gold, Probe, Query, Relation
from ke_plugin_compke import COMPLEX
from ke_plugin_compke.records import CompkeRecord, CompkeRewrite, CompkeTriple, NamedEntity
from ke_plugin_compke.relations import SLOT, RelationTemplate, wikidata

PLAIN = RelationTemplate()


def case(record: CompkeRecord, file: str) -> Case:
    """Convert one record. Raises BadData for an unknown relation without phrases in the record."""
    edits = {_place(rewrite): _edit(rewrite, record, file) for rewrite in record.edits}
    before, after = _facts(record.triples, edits), _facts(record.new_triples, edits)
    hops_before, hops = _hops(record.triples, {}, "old-"), _hops(record.new_triples, edits, "")
    efficacy = tuple(
        Probe(id=f"{EFFICACY}-{number}", aspect=EFFICACY, queries=(_asked(edit),), edits=(edit.id,))
        for number, edit in enumerate(edits.values(), start=1)
    )
    return Case(
        id=str(record.case_id),
        edits=tuple(edits.values()),
        probes=(
            *efficacy,
            Probe(
                id=COMPLEX,
                aspect=COMPLEX,
                queries=tuple(_complex(record, hops, hops_before)),
                phase="both",
                edits=tuple(edit.id for edit in edits.values()),
            ),
        ),
        facts_before=before,
        facts_after=after,
        tags=_tags(record, edits.values()),
    )


def _complex(record: CompkeRecord, hops: Sequence[Query], hops_before: Sequence[Query]) -> Iterator[Query]:
    """Return each wording as a query that lists the others. ``pre_edit`` is None if the answer does not change."""
    wordings = tuple(dict.fromkeys(record.questions))
    same = {answer.id for answer in record.answers} == {answer.id for answer in record.new_answers}
    for number, own in enumerate(wordings, start=1):
        yield Query(
            id=f"{COMPLEX}-{number}",
            texts=(own, *(other for other in wordings if other != own)),
            gold=_gold(record.new_answers),
            pre_edit=None if same else _gold(record.answers),
            hops=tuple(hops),
            hops_before=tuple(hops_before),
        )


def _edit(rewrite: CompkeRewrite, record: CompkeRecord, file: str) -> Edit:
    """Return one edit. Its id names the fact and its sorted new objects, so cases with the same edit share it."""
    known = wikidata().get(rewrite.relation_id, PLAIN)
    question = rewrite.question or known.question.replace(SLOT, rewrite.subject)
    if not question:
        raise BadData(
            f"{file}, case {record.case_id}: edits: relation {rewrite.relation_id} is unknown and has no question",
            hint="give the edit a question, or use one of the 40 properties in the paper's table 9",
        )
    cloze = Cloze(template=rewrite.prompt, subject=rewrite.subject)
    relation = Relation(label=rewrite.relation or known.label or rewrite.relation_id, id=rewrite.relation_id)
    subject = Entity(label=rewrite.subject, id=rewrite.subject_id)
    statement = rewrite.statement or f"{cloze.prompt} {', '.join(named.str for named in rewrite.new_objects)}"

    def fact(objects: Sequence[NamedEntity], text: str) -> Fact:
        return Fact(subject=subject, relation=relation, objects=_entities(objects), text=text)

    old = f"{cloze.prompt} {', '.join(named.str for named in rewrite.old_objects)}"
    new = "+".join(sorted(named.id for named in rewrite.new_objects))
    return Edit(
        id=f"{rewrite.subject_id}|{rewrite.relation_id}|{new}",
        statement=statement,
        before=fact(rewrite.old_objects, old),
        after=fact(rewrite.new_objects, statement),
        cloze=cloze,
        question=question,
    )


def _asked(edit: Edit) -> Query:
    """Return the edit's fact as a question. The id names the fact, because a hop may have the same question."""
    assert edit.before is not None
    assert edit.after is not None
    assert edit.cloze is not None
    return Query(
        id=f"{edit.after.relation.key}/{edit.after.subject.key}",
        texts=(edit.question or "",),
        cloze=edit.cloze.prompt,
        gold=Gold(entities=edit.after.objects),
        pre_edit=Gold(entities=edit.before.objects),
        edit=edit.id,
        relation=edit.after.relation.key,
    )


def _hops(triples: Sequence[CompkeTriple], edits: Mapping[tuple[str, str], Edit], prefix: str) -> tuple[Query, ...]:
    """Return a single-fact question for each fact with a question; edited facts use the question of the edit."""
    return tuple(
        hop for triple in triples if (hop := _hop(triple, edits.get((triple.subject.id, triple.relation_id)), prefix))
    )


def _hop(triple: CompkeTriple, edit: Edit | None, prefix: str) -> Query | None:
    if edit is not None:
        return _asked(edit)
    known, label = wikidata().get(triple.relation_id, PLAIN), triple.subject.str
    question = triple.question or known.question.replace(SLOT, label)
    if not question:
        return None
    return Query(
        id=f"{prefix}{triple.relation_id}/{triple.subject.id}",
        texts=(question,),
        cloze=triple.cloze or known.cloze.replace(SLOT, label) or None,
        gold=_gold(triple.objects),
        relation=triple.relation_id,
    )


def _facts(triples: Sequence[CompkeTriple], edits: Mapping[tuple[str, str], Edit]) -> tuple[Fact, ...]:
    """Return the facts of a case for masking and audits, by the ids of subject and relation."""
    found = []
    for triple in triples:
        known = wikidata().get(triple.relation_id, PLAIN)
        edit = edits.get((triple.subject.id, triple.relation_id))
        label = edit.after.relation.label if edit and edit.after else known.label or triple.relation_id
        cloze = triple.cloze or known.cloze.replace(SLOT, triple.subject.str)
        said = ", ".join(named.str for named in triple.objects)
        found.append(
            Fact(
                subject=_entities((triple.subject,))[0],
                relation=Relation(label=label, id=triple.relation_id),
                objects=_entities(triple.objects),
                text=f"{cloze} {said}".strip(),
            )
        )
    return tuple(found)


def _tags(record: CompkeRecord, edits: Iterable[Edit]) -> dict[str, str]:
    """Return the tags that tables are grouped by. The paper groups by steps and by edits separately."""
    made = list(edits)
    steps = len(record.operations) or len(record.steps)
    structure = record.structure and {
        "structure": f"form {record.structure}" if record.structure.isdecimal() else record.structure
    }
    operations = {edit.operation for edit in made}
    return {
        "edits": str(len(made)),
        **({"steps": f"{steps}-step"} if steps else {}),
        **(structure or {}),
        "operation": operations.pop() if len(operations) == 1 else "several",
    }


def _place(rewrite: CompkeRewrite) -> tuple[str, str]:
    return rewrite.subject_id, rewrite.relation_id


def _gold(named: Sequence[NamedEntity]) -> Gold:
    return Gold(entities=_entities(named))


def _entities(named: Sequence[NamedEntity]) -> tuple[Entity, ...]:
    return tuple(Entity(label=one.str, aliases=one.aliases, id=one.id) for one in named)
