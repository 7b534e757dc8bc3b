"""Convert records to cases.

========================== ===== ====== ================================================================
probe                      phase passes queries
========================== ===== ====== ================================================================
efficacy-N                 after any    the atomic fact of edit N, with a blank for its object, or as a
                                        cloze
reasoning                  both  any    the question; CA is right after the edits, A before them
perplexity-facts           both         log-probability of each atomic sentence of the facts (section
                                        5.1)
perplexity-counterfactuals both         the same of the counterfactual facts
========================== ===== ====== ================================================================
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Literal

from ke_benchmarks import perplexity_probes, truth_names
from ke_core.plugin import EFFICACY, Case, Edit, Entity, Gold, Probe, Query
from ke_plugin_recoe import GROUPS, REASONING
from ke_plugin_recoe.edits import edits_of, paths_of, reason_not_editable
from ke_plugin_recoe.records import RecoeRecord, StatedFact, folded, number_of, plain

SEPARATOR = re.compile(r"\s*[,;\n]\s*(?:and\s+)?")


def case(record: RecoeRecord, number: int, *, perplexity: bool = True) -> Case:
    """Return the case of a record; ``number`` is its position among those of its scheme.

    ``perplexity``: add probes for its facts and counterfactuals. These exclude direct facts, which are never edited,
    and unchanged facts, which belong to neither side. The tag ``edited as`` is set if no triple changes, so only
    editors that accept a sentence can apply the edit. The tag ``note`` lists repairs.
    """
    reason = reason_not_editable(record)
    edits = () if reason else edits_of(record)
    before, after = paths_of(record)
    old, new = golds(record)
    asked = Query(id="question", texts=(record.question,), gold=new, pre_edit=None if record.answers_equal else old)
    names = tuple(edit.id for edit in edits)
    sides = (_sentences(record.facts()), _sentences(record.counterfactuals()))
    return Case(
        id=f"{record.scheme}-{number}",
        edits=edits,
        probes=(
            *(
                Probe(id=f"{EFFICACY}-{at}", aspect=EFFICACY, queries=(_own(edit, at),), edits=(edit.id,))
                for at, edit in enumerate(edits, start=1)
                if edit.after is not None
            ),
            Probe(id=REASONING, aspect=REASONING, queries=(asked,), phase="both", edits=names),
            *(perplexity_probes(*sides, edits=names) if perplexity else ()),
        ),
        facts_before=before,
        facts_after=after,
        tags={
            "scheme": record.scheme,
            "group": GROUPS[record.scheme],
            **(
                {"edited as": "sentences only, since no triple changes"}
                if any(edit.after is None for edit in edits)
                else {}
            ),
            **({"note": "; ".join(record.notes)} if record.notes else {}),
        },
        not_editable=reason,
        sentences_before=_whole(record.facts(), record.unchanged()),
        sentences_after=_whole(record.counterfactuals(), record.unchanged()),
    )


def golds(record: RecoeRecord) -> tuple[Gold, Gold]:
    """Return A and CA. A name that both have belongs to A: CA wins only if A does not match."""
    a, ca = record.answer, record.counterfactual_answer
    if record.scheme == "sorting":
        orders = ordered(a), ordered(ca)
        if sorted(map(plain, orders[0])) == sorted(map(plain, orders[1])) and len(orders[0]) > 1:
            return _order(orders[0], record.answer_alias), _order(orders[1], record.counterfactual_answer_alias)
    own = _entity(a, record.answer_alias, {folded(ca)})
    other = _entity(ca, record.counterfactual_answer_alias, set(map(folded, own.names)))
    require: Literal["number", "any"] = "number" if number_of(a) and number_of(ca) else "any"
    return Gold(entities=(own,), require=require), Gold(entities=(other,), require=require)


def ordered(text: str) -> list[str]:
    """Return the members of an ordered list written as one text."""
    return [part for part in SEPARATOR.split(text.strip().removesuffix(".")) if part]


def _whole(*sides: Iterable[StatedFact]) -> tuple[str, ...]:
    """Return the complete sentences of these facts, which judges compare thoughts with (section 5.2)."""
    return tuple(dict.fromkeys(fact.fact.strip() for side in sides for fact in side))


def _sentences(facts: Iterator[StatedFact]) -> Iterator[str]:
    """Return the atomic sentences of these facts."""
    for fact in facts:
        yield from fact.sentences


def _own(edit: Edit, at: int) -> Query:
    assert edit.after is not None
    assert edit.question is not None
    old = edit.before.objects if edit.before else ()
    numbers = all(number_of(entity.label) for entity in (*edit.after.objects, *old))
    return Query(
        id=f"{EFFICACY}-{at}",
        texts=(edit.question,),
        cloze=edit.cloze.prompt if edit.cloze else None,
        gold=Gold(entities=edit.after.objects, require="number" if numbers else "any"),
        pre_edit=Gold(entities=old, require="number" if numbers else "any") if old else None,
        edit=edit.id,
        relation=edit.after.relation.key,
    )


def _entity(label: str, aliases: tuple[str, ...], taken: set[str]) -> Entity:
    """Return the answer as an entity. Case is ignored for yes and no, which are words, not names."""
    more = truth_names(plain(label).removesuffix("."))
    names = [name for name in dict.fromkeys((*aliases, *more)) if name != label and folded(name) not in taken]
    return Entity(label=label, aliases=tuple(names))


def _order(members: list[str], aliases: tuple[str, ...]) -> Gold:
    """Return the ordered members. Aliases are whole lists too, so each position gets its aliases."""
    others = [found for found in map(ordered, aliases) if len(found) == len(members)]
    labels = {plain(member) for member in members}
    return Gold(
        entities=tuple(
            Entity(label=label, aliases=tuple(dict.fromkeys(name for name in names if plain(name) not in labels)))
            for label, *names in zip(members, *others, strict=True)
        ),
        require="ordered",
    )
