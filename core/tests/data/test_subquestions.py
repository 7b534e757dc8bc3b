"""Oracle material made from cases: every question taken apart, with what was right before the edits."""

from __future__ import annotations

from attrs import evolve

from ke_benchmarks import sub_questions
from ke_core.spec.facts import Entity
from ke_core.spec.queries import Case, Gold, Probe, Query, SubQuestion


def gold(name):
    return Gold(entities=(Entity(label=name),))


CITY = Query(
    id="city", texts=("In which city?",), cloze="It is in", gold=gold("Rome"), pre_edit=gold("Paris"), edit="moved"
)
MAYOR = Query(id="mayor", texts=("Who rules Rome?",), gold=gold("Gualtieri"))
OLD_CITY = Query(id="city", texts=("In which city?",), cloze="It is in", gold=gold("Paris"))
OLD_MAYOR = Query(id="old", texts=("Who rules Paris?",), cloze="Paris is ruled by", gold=gold("Hidalgo"))
MULTI = Query(
    id="multi", texts=("Who rules its city?",), gold=gold("Gualtieri"),
    hops=(CITY, MAYOR), hops_before=(OLD_CITY, OLD_MAYOR),
)  # fmt: skip
CASE = Case(
    id="1",
    probes=(
        Probe(id="efficacy", aspect="efficacy", queries=(CITY,)),
        Probe(id="before", aspect="instance", queries=(OLD_MAYOR,), phase="before"),
        Probe(id="multi", aspect="multi-hop", queries=(MULTI,), phase="both"),
    ),
)
PARIS = SubQuestion(question="In which city?", answer="Paris", statement="It is in Paris")


def test_tentative_answers_are_the_pre_edit_answers() -> None:
    hops = sub_questions([CASE])["1/multi"]
    assert hops["after"] == (PARIS, SubQuestion(question="Who rules Rome?", answer="Gualtieri", statement="Gualtieri"))
    assert hops["before"] == (
        PARIS,
        SubQuestion(question="Who rules Paris?", answer="Hidalgo", statement="Paris is ruled by Hidalgo"),
    )


def test_single_hop_is_its_only_sub_question() -> None:
    assert sub_questions([CASE])["1/city"] == {"after": (PARIS,), "before": (PARIS,)}


def test_only_questions_of_an_edited_model_are_decomposed() -> None:
    assert set(sub_questions([CASE])) == {"1/city", "1/multi"}


def test_v16_tentative_answers_contain_no_edited_object() -> None:
    assert "Rome" not in {hop.answer for hops in sub_questions([CASE]).values() for hop in hops["after"]}


def test_v16_question_without_known_old_answers_is_not_decomposed() -> None:
    """Without the answer from before the edits only what no edit is about can be given away."""
    mayor, both = (Query(id=name, texts=("Who?",), gold=gold("Gualtieri")) for name in ("mayor", "both"))
    edited = Query(id="own", texts=("Where?",), gold=gold("Rome"), edit="moved")
    chain = Query(id="chain", texts=("Who rules it?",), gold=gold("Gualtieri"), hops=(edited, mayor))
    probes = (
        Probe(id="follows", aspect="logical-generalization", queries=(mayor,)),
        Probe(id="own", aspect="efficacy", queries=(edited,)),
        Probe(id="chain", aspect="multi-hop", queries=(chain,)),
        Probe(id="kept", aspect="locality", queries=(both,), phase="both"),
    )
    assert set(sub_questions([Case(id="1", probes=probes[:1])])) == set()
    assert set(sub_questions([Case(id="1", probes=probes)])) == {"1/mayor", "1/both"}  # mayor is a hop, and not edited


def test_questions_of_both_phases_are_not_decomposed_without_pre_edit_answers_except_for_locality_and_fluency() -> None:
    """Data without pre-edit answers have their new answers only."""
    aspects = ("efficacy", "paraphrase", "portability", "locality", "fluency")
    query = Query(id="q", texts=("Who?",), gold=gold("Gualtieri"))
    probes = [Probe(id=name, aspect=name, queries=(evolve(query, id=name),), phase="both") for name in aspects]
    assert set(sub_questions([Case(id="1", probes=tuple(probes))])) == {"1/locality", "1/fluency"}


def test_question_is_not_decomposed_if_its_last_hop_does_not_answer_it() -> None:
    """CompKE's set operations come after the hops."""
    joined = evolve(MULTI, gold=gold("Rome"))
    case = Case(id="1", probes=(Probe(id="complex", aspect="complex", queries=(joined,)),))
    assert sub_questions([case]) == {}
