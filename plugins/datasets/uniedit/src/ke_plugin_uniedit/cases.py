"""Convert records to cases. Generality questions are ``portability`` probes: they follow from the edit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from attrs import evolve

from ke_benchmarks import FORCED, both_phases, cloze_edit, scored_query, truth_names
from ke_core.plugin import EFFICACY, LOCALITY, PORTABILITY, Case, Edit, Entity, Gold, Probe, Query, distinct
from ke_plugin_uniedit import patterns
from ke_plugin_uniedit.records import UnieditFact, UnieditQuestion, UnieditRecord

YES_NO = " Answer with yes or no:"


def case(domain: str, record: UnieditRecord, decoy: str, hops: Literal["edit", "keep"]) -> Case:
    """Convert one record. ``hops``: whether the other hops of generality questions are edited in, too."""
    own = edit_of(record.edit)
    others = distinct(
        edit_of(hop) for question in record.generality.values() for hop in question.hops if not hop.is_edit
    )
    edits = (own, *(other for other in others if hops == "edit" and other.id != own.id))
    ids = tuple(edit.id for edit in edits)
    tags = {"domain": domain}
    query = Query(
        id="edit",
        texts=(record.edit.prompt.strip(),),
        form="cloze",
        gold=Gold(entities=(_object(record.edit),)),
        edit=own.id,
        tags=tags,
    )
    probes: list[Probe] = [
        *both_phases(EFFICACY, (query,), ids),
        *both_phases(EFFICACY + FORCED, (scored_query(query, decoy),), (own.id,)),
    ]
    for name, question in record.generality.items():
        kind = {"criterion": patterns.generality(question)}
        probes += both_phases(
            PORTABILITY, (_query(f"generality-{name}", question, tags | kind),), ids, name=f"generality-{name}"
        )
    for name, question in record.locality.items():
        kind = {"criterion": patterns.locality(question, record.edit)}
        probes += both_phases(
            LOCALITY, (_query(f"locality-{name}", question, tags | kind),), ids, name=f"locality-{name}"
        )
    return Case(
        id=f"{domain}-{record.id}",
        edits=edits,
        probes=tuple(probes),
        facts_after=tuple(edit.after for edit in edits[:1] if edit.after),
        tags=tags,
    )


def edit_of(fact: UnieditFact) -> Edit:
    """Return the edit that makes a fact. The object may be named by any of its published names."""
    return cloze_edit(fact.prompt.strip(), fact.subject.strip(), _object(fact))


def _object(fact: UnieditFact) -> Entity:
    target = fact.target.strip()
    others = dict.fromkeys(name.strip() for name in fact.tail_entity.names)
    return Entity(label=target, aliases=tuple(name for name in others if name != target))


def _query(name: str, question: UnieditQuestion, tags: dict[str, str]) -> Query:
    """Return a question; one about the same entity is answered with yes or no."""
    prompt = question.prompt.strip()
    target = question.target.strip()
    others = dict.fromkeys((*truth_names(target), *_other_names(question, target)))
    gold = Gold(entities=(Entity(label=target, aliases=tuple(name for name in others if name != target)),))
    query = Query(id=name, texts=(prompt,), form="question" if prompt.endswith("?") else "cloze", gold=gold, tags=tags)
    return evolve(query, texts=(prompt + YES_NO,), form="cloze") if question.path_type == "double" else query


def _other_names(question: UnieditQuestion, target: str) -> Iterator[str]:
    """Yield the published names of the entities of the hops that ``target`` names."""
    for hop in question.hops:
        for entity in (
            (hop.subject, hop.head_entity.label, *hop.head_entity.aliases),
            (hop.target, *hop.tail_entity.names),
        ):
            names = [name.strip() for name in entity if name.strip()]
            if target in names:
                yield from names
