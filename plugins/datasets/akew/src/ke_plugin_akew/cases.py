"""Convert records to cases. The questions are the same however the edit is given, except for ``whole-text``."""

from __future__ import annotations

from collections.abc import Iterator

from ke_benchmarks import SUB_QUESTION, both_phases, cloze_edit, text_edit
from ke_core.plugin import EFFICACY, PARAPHRASE, PORTABILITY, SLOT, Case, Edit, Entity, Gold, Probe, Query, distinct
from ke_plugin_akew import WHOLE_TEXT, Form
from ke_plugin_akew.records import AkewRecord, AkewRewrite, AkewTriplet

NO_TRIPLETS = "no usable triplet was extracted from the text"


def case(record: AkewRecord, form: Form) -> Case:
    """Convert one record, with its edits given as ``form``."""
    rewrites = [record.with_aliases(rewrite) for rewrite in record.requested_rewrite]
    made = [edits_of(rewrite, form) for rewrite in rewrites]
    lacking = not all(made)
    edits = () if lacking else distinct(edit for some in made for edit in some)
    probes = [
        probe
        for number, (rewrite, some) in enumerate(zip(rewrites, made, strict=True), start=1)
        for probe in _probes(rewrite, f"-{number}" if number > 1 else "", () if lacking else some, form)
    ]
    return Case(
        id=str(record.case_id),
        edits=edits,
        probes=(*probes, *_multi_hop(record, tuple(edit.id for edit in edits))),
        facts_before=tuple(edit.before for edit in edits if edit.before),
        facts_after=tuple(edit.after for edit in edits if edit.after),
        tags={"edits": str(len(made))},
        not_editable=NO_TRIPLETS if lacking else "",
    )


def edits_of(rewrite: AkewRewrite, form: Form) -> tuple[Edit, ...]:
    """Return the edits that make one rewrite: one, or one for each usable triplet."""
    if form == "text":
        return (text_edit(rewrite.question.strip(), rewrite.fact_new_uns.strip()),)
    if form == "fact":
        new, old = _objects(rewrite)
        return (cloze_edit(_cloze(rewrite), rewrite.subject, new, old, question=rewrite.question.strip()),)
    triplets = (triplet for triplet in rewrite.unsfact_triplets_GPT if triplet.is_complete)
    return distinct(
        cloze_edit(triplet.cloze, triplet.subject.strip(), Entity(label=triplet.target.strip())) for triplet in triplets
    )


def _probes(rewrite: AkewRewrite, suffix: str, edits: tuple[Edit, ...], form: Form) -> Iterator[Probe]:
    """Yield the probes of one rewrite. ``suffix`` makes their ids distinct."""
    new, old = _objects(rewrite)
    ids = tuple(edit.id for edit in edits)
    gold, pre_edit = Gold(entities=(new,)), None if old is None else Gold(entities=(old,))
    # a triplet may be a side fact. Without a cloze, the question is the same for editors that edit clozes
    own = None if form == "triplets" else edits[0].id
    question = rewrite.question.strip()
    fact = Query(id=f"question{suffix}", texts=(question,), gold=gold, pre_edit=pre_edit, edit=own)
    cloze = Query(id=f"cloze{suffix}", texts=(_cloze(rewrite),), form="cloze", gold=gold, pre_edit=pre_edit)
    asked: dict[str, tuple[Query, ...]] = {EFFICACY: (fact,), PARAPHRASE: (cloze,)}
    if form == "text":
        text = Gold(entities=(Entity(label=rewrite.fact_new_uns.strip()),))
        asked[WHOLE_TEXT] = (Query(id=f"text{suffix}", texts=(question,), gold=text),)
    asked[SUB_QUESTION] = tuple(
        _detail(triplet, f"{suffix}-{at}") for at, triplet in enumerate(usable(rewrite), start=1)
    )
    for aspect, queries in asked.items():
        yield from both_phases(aspect, queries, ids, name=aspect + suffix)


def usable(rewrite: AkewRewrite) -> tuple[AkewTriplet, ...]:
    """Return the triplets that can be asked."""
    return tuple(triplet for triplet in rewrite.unsfact_triplets_GPT if triplet.is_complete)


def _detail(triplet: AkewTriplet, suffix: str) -> Query:
    gold = Gold(entities=(Entity(label=triplet.target.strip()),))
    return Query(id=f"triplet{suffix}", texts=(triplet.cloze,), form="cloze", gold=gold)


def _multi_hop(record: AkewRecord, edits: tuple[str, ...]) -> Iterator[Probe]:
    """Yield the multi-hop question: one of its wordings must be answered right, as in MQuAKE."""
    if not record.questions:
        return
    new = Entity(label=record.new_answer.strip(), aliases=_others(record.new_answer, record.new_answer_alias))
    old = (
        Entity(label=record.answer.strip(), aliases=_others(record.answer, record.answer_alias))
        if record.answer
        else None
    )
    pre_edit = None if old is None or old.label == new.label else Gold(entities=(old,))
    queries = tuple(
        Query(id=f"multi-hop-{at}", texts=(text.strip(),), gold=Gold(entities=(new,)), pre_edit=pre_edit)
        for at, text in enumerate(record.questions, start=1)
    )
    yield Probe(id=PORTABILITY, aspect=PORTABILITY, queries=queries, phase="both", edits=edits)


def _objects(rewrite: AkewRewrite) -> tuple[Entity, Entity | None]:
    """Return the new object, and the old one unless they share a name."""
    label, true = rewrite.target_new.str.strip(), rewrite.target_true.str.strip()
    new = Entity(label=label, aliases=_others(label, rewrite.answer_new_aliases))
    old = Entity(label=true, aliases=_others(true, rewrite.answer_true_aliases))
    return new, None if true.casefold() in {name.casefold() for name in new.names} else old


def _cloze(rewrite: AkewRewrite) -> str:
    return rewrite.prompt.replace(SLOT, rewrite.subject).rstrip()


def _others(label: str, names: tuple[str, ...]) -> tuple[str, ...]:
    stripped = dict.fromkeys(name.strip() for name in names)
    return tuple(name for name in stripped if name and name != label.strip())
