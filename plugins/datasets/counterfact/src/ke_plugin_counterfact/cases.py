"""Convert records to cases: every prompt of CounterFact is a sentence that stops before the object."""

from __future__ import annotations

from attrs import evolve

from ke_benchmarks import single_edit_probes
from ke_core.plugin import FLUENCY, Case, Cloze, Edit, Entity, Fact, Gold, Probe, Query, Relation
from ke_plugin_counterfact.records import CounterfactObject, CounterfactRecord, CounterfactRewrite

OPENING = "opening-"


def case(record: CounterfactRecord, openings: int = 0) -> Case:
    """Convert one record: its edit with paraphrases, neighbors and optional openings."""
    edit = _edit(record.requested_rewrite)
    assert edit.before is not None
    assert edit.after is not None
    assert edit.cloze is not None
    new, old = Gold(entities=edit.after.objects), Gold(entities=edit.before.objects)
    relation = edit.after.relation.key
    own = Query(
        id="edit",
        texts=(edit.cloze.prompt.rstrip(),),
        form="cloze",
        cloze=edit.cloze.prompt.rstrip(),
        gold=new,
        pre_edit=old,
        edit=edit.id,
        relation=relation,
    )
    paraphrases = tuple(
        evolve(own, id=f"paraphrase-{at}", texts=(text.rstrip(),), cloze=None, edit=None)
        for at, text in enumerate(_once(record.paraphrase_prompts), start=1)
    )
    near = tuple(
        Query(id=f"near-{at}", texts=(text.rstrip(),), form="cloze", cloze=text.rstrip(), gold=old, relation=relation)
        for at, text in enumerate(_once(record.neighborhood_prompts), start=1)
    )
    return Case(
        id=str(record.case_id),
        edits=(edit,),
        probes=(*single_edit_probes(own, near, paraphrases=paraphrases), *_continued(record, edit, openings)),
        facts_before=(edit.before,),
        facts_after=(edit.after,),
        tags={"relation": relation},
    )


def _continued(record: CounterfactRecord, edit: Edit, openings: int) -> tuple[Probe, ...]:
    """Return a probe of openings about the subject, continued by both models. They have no right answer."""
    queries = tuple(
        Query(id=f"{OPENING}{at}", texts=(text.rstrip(),), form="cloze", gold=Gold())
        for at, text in enumerate(_once(record.generation_prompts)[:openings], start=1)
    )
    return (Probe(id=FLUENCY, aspect=FLUENCY, queries=queries, phase="both", edits=(edit.id,)),) if queries else ()


def _edit(rewrite: CounterfactRewrite) -> Edit:
    """Return the edit. Its id is its statement, because the file has no subject ids."""
    cloze = Cloze(template=rewrite.prompt, subject=rewrite.subject)
    relation = Relation(label=rewrite.prompt, id=rewrite.relation_id, cloze=rewrite.prompt)

    def fact(target: CounterfactObject) -> Fact:
        return Fact(
            subject=Entity(label=rewrite.subject),
            relation=relation,
            objects=(Entity(label=target.str.strip(), id=target.id),),
            text=f"{cloze.prompt.rstrip()} {target.str.strip()}",
        )

    after = fact(rewrite.target_new)
    return Edit(id=after.text, statement=after.text, before=fact(rewrite.target_true), after=after, cloze=cloze)


def _once(texts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(texts))
