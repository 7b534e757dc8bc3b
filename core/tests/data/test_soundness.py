"""What is wrong with cases is found, named, and nothing else is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from attrs import evolve

from ke_benchmarks.soundness import Soundness, problems
from ke_core.spec.facts import Cloze, Edit, Entity, Fact, FreeForm, Relation
from ke_core.spec.queries import Case, Gold, Probe
from ke_testing.toy import Toy

CASE, OTHER = Toy().cases()
ROME, PARIS = Entity(label="Rome"), Entity(label="Paris")


def found(*cases: Case) -> list[tuple[str, str, str]]:
    return [(problem.level, problem.rule, problem.what) for problem in problems(cases)]


def with_edit(**changes: Any) -> Case:
    return evolve(CASE, edits=(evolve(CASE.edits[0], **changes),))


def with_gold(gold: Gold, pre_edit: Gold | None = None) -> Case:
    query = evolve(CASE.probes[0].queries[0], gold=gold, pre_edit=pre_edit)
    return evolve(CASE, probes=(evolve(CASE.probes[0], queries=(query,)),))


def with_chain(*pairs: tuple[str, str]) -> Case:
    relation = Relation(label="next")
    facts = tuple(
        Fact(subject=Entity(label=one), relation=relation, objects=(Entity(label=two),)) for one, two in pairs
    )
    return evolve(CASE, facts_after=facts, tags={"hops": str(len(facts))})


def test_sound_cases_have_no_problem() -> None:
    assert found(CASE, OTHER) == []


def test_two_cases_of_one_id() -> None:
    assert found(CASE, evolve(OTHER, id="1")) == [("error", "id", "two cases have the id '1'")]


def test_problem_of_many_cases_is_one_line_with_all_their_names() -> None:
    cases = [evolve(with_edit(id=f"e{n}"), id=str(n)) for n in range(9)]
    lines = problems(evolve(case, edits=CASE.edits, tags={}, probes=CASE.probes[1:]) for case in cases)
    assert [(line.what, len(line.cases)) for line in lines if line.rule == "edit"] == [
        ("no efficacy probe tests edit 'eiffel-tower-rome'", 9)
    ]


@pytest.mark.parametrize(
    ("case", "what"),
    [
        (evolve(CASE, edits=CASE.edits * 2), "two edits of the case share an id"),
        (evolve(CASE, probes=CASE.probes + CASE.probes[-1:]), "two probes of the case share an id"),
        (evolve(CASE, edits=()), "names edit 'eiffel-tower-rome', which the case does not contain"),
        (with_gold(Gold()), "query 'hop-1' has no right answer"),
        (with_gold(Gold(entities=(Entity(label="Rome", aliases=(" ",)),))), "query 'hop-1' has a blank name"),
        (
            with_gold(Gold(entities=(ROME,)), Gold(entities=(ROME,))),
            "query 'hop-1' has the same answer before and after the edit",
        ),
        (with_gold(Gold(entities=(Entity(label="Q90"),))), "'Q90' has no label, only its id"),
        (
            with_gold(Gold(entities=(Entity(label="Q90", id="http://www.wikidata.org/entity/Q90"),))),
            "'Q90' has no label, only its id",
        ),
        (with_gold(Gold(entities=(Entity(label="_:b0"),))), "'_:b0' has no label, only its id"),
        (with_chain(("a", "b"), ("c", "d")), "hop 2 of the chain starts at 'c', but hop 1 ends at 'b'"),
        (with_chain(("a", "b"), ("b", "a")), "hop 2 of the chain returns to 'a'"),
        (with_chain(("a", "b"), ("b", "c"), ("c", "c")), "hop 3 of the chain returns to 'c'"),
        (with_edit(after=CASE.edits[0].before), "the new object of edit 'eiffel-tower-rome' is the old one"),
        (
            with_edit(cloze=Cloze(template="{} stands in", subject="Big Ben")),
            "the cloze of edit 'eiffel-tower-rome' is about 'Big Ben', not 'Eiffel Tower'",
        ),
    ],
)
def test_an_error_is_named(case: Case, what: str) -> None:
    assert any(level == "error" and what in words for level, _rule, words in found(case))


def test_x7_question_with_an_id_in_place_of_a_label() -> None:
    gold = Gold(entities=(Entity(label="Paris", id="Q90"),))
    query = evolve(CASE.probes[0].queries[0], gold=gold, texts=("Which river flows through Q90?",))
    case = evolve(CASE, probes=(evolve(CASE.probes[0], queries=(query,)),))
    assert ("error", "label", "a text contains 'Q90' in place of a label") in found(case)


def test_x7_a_thing_may_be_called_like_an_id() -> None:
    assert found(with_gold(Gold(entities=(Entity(label="Q1", id="Q7265311"),)))) == []


def test_an_answer_may_be_an_address() -> None:
    address = Entity(label="https://doi.org/10.1515/cllt")
    assert found(with_gold(Gold(entities=(address,)))) == []
    [(level, rule, _what)] = found(with_gold(Gold(entities=(evolve(address, id=address.label),))))
    assert (level, rule) == ("error", "label")


@pytest.mark.parametrize(("aspect", "wrong"), [("fluency", 0), ("locality", 0), ("portability", 1)])
def test_fluency_and_locality_need_no_right_answer(aspect: str, wrong: int) -> None:
    query = evolve(CASE.probes[0].queries[0], id="opening", gold=Gold(), pre_edit=None)
    opening = Probe(id="opening", aspect=aspect, queries=(query,), phase="both")
    assert len(found(evolve(CASE, probes=(*CASE.probes, opening)))) == wrong


def test_empty_answer_is_correct_if_the_edit_removes_the_only_object() -> None:
    edit = CASE.edits[0]
    assert edit.before is not None
    gone = evolve(edit, after=evolve(edit.before, objects=()))
    assert found(evolve(with_gold(Gold()), edits=(gone,))) == []


def test_facts_that_claim_no_chain_need_not_be_connected() -> None:
    relation = Relation(label="population")
    facts = tuple(
        Fact(subject=Entity(label=city), relation=relation, objects=(Entity(label=number),))
        for city, number in (("Rome", "2,800,000"), ("Paris", "2,100,000"))
    )
    assert found(evolve(CASE, facts_after=facts, facts_before=facts, tags={}, probes=CASE.probes[:1])) == []


def test_chain_without_tags_is_labeled_by_its_hops() -> None:
    broken = with_chain(("a", "b"), ("c", "d"))
    assert any(rule == "chain" for _level, rule, _what in found(evolve(broken, tags={})))


def test_hops_of_a_set_operation_are_no_chain() -> None:
    """The union of two answers is not the answer of the last hop."""
    case = evolve(with_chain(("a", "b"), ("c", "d")), tags={})
    multi = next(probe for probe in case.probes if probe.queries[0].hops)
    both = Gold(entities=(*multi.queries[0].gold.entities, PARIS), require="all")
    union = evolve(multi, queries=tuple(evolve(query, gold=both) for query in multi.queries))
    case = evolve(case, probes=tuple(union if probe is multi else probe for probe in case.probes))
    assert not any(rule == "chain" for _level, rule, _what in found(case))


def test_an_edit_that_nobody_tests_is_a_warning() -> None:
    untested = evolve(CASE, probes=CASE.probes[1:])
    assert found(untested) == [("warning", "edit", "no efficacy probe tests edit 'eiffel-tower-rome'")]


def test_alias_equal_to_the_label_of_another_entity_is_a_warning() -> None:
    football = Entity(label="association football", aliases=("Football",), id="Q2736")
    gridiron = Entity(label="football", id="Q1081491")
    one, two = with_gold(Gold(entities=(football,))), evolve(with_gold(Gold(entities=(gridiron,))), id="9")
    assert found(one, two) == [
        ("warning", "alias", "an alias of 'association football' is the label of another entity, 'football'")
    ]
    assert problems((one, two))[0].cases == ("1",)


def test_entity_with_and_without_its_id_is_the_same_entity() -> None:
    with_id = Entity(label="Rome", aliases=("rome",), id="Q220")
    assert found(with_gold(Gold(entities=(with_id,))), OTHER) == []


@pytest.mark.parametrize(("texts", "wrong"), [((" Rome",), 0), ((" Rome", " Paris"), 1)])
def test_rolling_log_likelihood_has_no_gold_answer_and_a_choice_has_one(texts: tuple[str, ...], wrong: int) -> None:
    query = evolve(CASE.probes[0].queries[0], gold=Gold(), pre_edit=None, continuations=texts)
    case = evolve(CASE, probes=(evolve(CASE.probes[0], queries=(query,)),))
    assert len(found(case)) == wrong


def test_name_shared_by_old_and_new_answer_is_a_warning() -> None:
    case = with_gold(
        Gold(entities=(Entity(label="Great Britain", aliases=("Britain",)),)),
        Gold(entities=(Entity(label="United Kingdom", aliases=("britain",)),)),
    )
    assert found(case) == [("warning", "answer", "'britain' names both the old and the new answer of a question")]


def test_one_edit_id_for_two_statements() -> None:
    other = evolve(OTHER, edits=(*OTHER.edits, evolve(CASE.edits[0], statement="something else")))
    assert ("error", "id", "edit 'eiffel-tower-rome' has two statements") in found(CASE, other)


def test_errors_come_before_warnings() -> None:
    levels = [problem.level for problem in problems((evolve(CASE, probes=CASE.probes[1:]), CASE))]
    assert levels == sorted(levels)


def test_an_edit_without_facts_is_allowed_but_weight_editors_refuse_it() -> None:
    bare: Callable[[Edit], Edit] = lambda edit: evolve(edit, before=None, after=None)
    refused = [("warning", "edit", f'edit {edit.id!r} has no "after": weight editors refuse it') for edit in CASE.edits]
    assert found(evolve(CASE, edits=tuple(map(bare, CASE.edits)))) == refused


def test_a_probe_that_tests_an_unknown_edit() -> None:
    probes = (evolve(CASE.probes[0], edits=("nobody",)), *CASE.probes[1:])
    assert ("error", "id", "probe 'efficacy-1' tests edit 'nobody', which the case does not contain") in found(
        evolve(CASE, probes=probes)
    )


def test_a_query_id_that_stands_for_two_questions() -> None:
    query = evolve(CASE.probes[0].queries[0], texts=("Something else?",))
    probes = (*CASE.probes, Probe(id="more", aspect="instance", queries=(query,)))
    assert ("error", "id", "query 'hop-1' has two questions") in found(evolve(CASE, probes=probes))


def test_errors_of_known_flaws_become_warnings() -> None:
    check = Soundness(known_flaws=frozenset({"answer"}))
    check.add(with_gold(Gold(entities=())))
    check.add(with_gold(Gold(entities=())))
    assert {(problem.level, problem.rule) for problem in check.problems()} == {("warning", "answer"), ("error", "id")}


def test_free_form_edit_with_equal_old_and_new_text_is_an_error() -> None:
    changes = {"before": None, "after": None, "cloze": None}
    fine = with_edit(**changes, free_form=FreeForm(prompt="Who?", target="me\nand you", old="you"))
    assert not [one for one in found(fine) if one[1] == "edit"]
    same = with_edit(**changes, free_form=FreeForm(prompt="Who?", target="me", old="me"))
    assert ("error", "edit", "the new text of edit 'eiffel-tower-rome' is the old one") in found(same)
