"""Contamination, conflicts and duplicates, on small constructed cases."""

import pytest
from attrs import evolve

from ke_benchmarks import question_edit
from ke_benchmarks.audit import RULES, as_rule, conflicts, contamination, draw, duplicates, fix, select, tally
from ke_core.plugin import BadConfig, Entity, Gold, Probe, Query

TOWER = [("Tower", "country", "France"), ("France", "capital", "Paris")]


def moved(make):
    return make("moved", TOWER, [("Tower", "country", "Italy"), ("Italy", "capital", "Rome")], 0)


def capital(make, name="capital", new="Milan"):
    start = [("Boot", "country", "Italy"), ("Italy", "capital", "Rome")]
    return make(name, start, [("Boot", "country", "Italy"), ("Italy", "capital", new)], 1)


@pytest.mark.parametrize("rule", RULES)
def test_edited_case_is_contaminated_on_an_unedited_hop_of_its_new_chain(make, rule):
    found = contamination([moved(make), capital(make)], ["moved", "capital"], rule)
    assert [(hit.case, hit.hop, hit.by) for hit in found.on_edited] == [("moved", 2, ("capital",))]
    assert found.on_unedited == ()


@pytest.mark.parametrize("rule", RULES)
def test_unedited_case_is_contaminated_on_its_old_chain(make, rule):
    cases = [moved(make), make("other", TOWER, TOWER), capital(make)]
    found = contamination(cases, ["moved"], rule)
    assert [(hit.case, hit.hop, hit.by) for hit in found.on_unedited] == [("other", 1, ("moved",))]


def test_hop_rewritten_by_several_edits_counts_once(make):
    cases = [moved(make), capital(make), capital(make, "again", "Turin")]
    found = contamination(cases, [case.id for case in cases])
    assert tally(found.on_edited) == (1, 1)
    assert found.on_edited[0].by == ("capital", "again")


def test_edit_equal_to_the_hop_contaminates_nothing(make):
    assert contamination([moved(make), capital(make, new="Rome")], ["moved", "capital"]).on_edited == ()


def cars(make):
    """Two cars of one name, both rewritten, and the holder of a third."""
    old = [("Ford#1", "country", "USA")]
    return [
        make("one", old, [("Ford#1", "country", "Italy")], 0),
        make("two", [("Ford#2", "country", "USA")], [("Ford#2", "country", "Japan")], 0),
        make("three", [("Ford#3", "country", "USA")], [("Ford#3", "country", "USA")]),
        make("four", old, [("Ford#1", "country", "Italy")], 0),
    ]


@pytest.mark.parametrize(
    ("edited", "hit"),
    [
        (["one"], {"question", "question-drop", "id-first", "majority"}),
        (["one", "two"], {"question"}),  # they disagree: void, not agreed on, a tie
        (["one", "two", "four"], {"question", "majority"}),
    ],
)
def test_rules_differ_for_ambiguous_labels(make, edited, hit):
    cases = cars(make)
    victims = {rule: {one.case for one in contamination(cases, edited, rule).on_unedited} for rule in RULES}
    assert {rule for rule, found in victims.items() if "three" in found} == hit


def test_majority_does_not_merge_unambiguous_labels(make):
    cases = [one for one in cars(make) if one.id != "two"]
    assert contamination(cases, ["one"], "majority").on_unedited == contamination(cases, ["one"], "id").on_unedited


def test_conflict_is_one_question_with_several_targets(make):
    (found,) = conflicts(cars(make))
    assert [cases for _fact, cases in found.targets] == [("one", "four"), ("two",)]
    assert found.majority.objects[0].label == "Italy"
    assert conflicts(cars(make), "id") == ()


def test_duplicates_may_differ_in_wording(make):
    start = [("Boot", "country", "Italy"), ("Italy", "capital", "Rome")]
    after = [("Boot", "country", "Italy"), ("Italy", "capital", "Milan")]
    again = make("again", start, after, 1, asked="Boot's country's capital?")
    one, other = capital(make), make("other", TOWER, TOWER)
    assert duplicates([one, other, again]) == (("capital", "again"),)


def reasoning(make, name, *, text="How many towers are there?", old="2"):
    """A case with a path whose question has no hops."""
    case = capital(make, name)
    query = Query(
        id="question",
        texts=(text,),
        gold=Gold(entities=(Entity(label="3"),)),
        pre_edit=Gold(entities=(Entity(label=old),)),
    )
    return evolve(case, probes=(Probe(id="reasoning", aspect="reasoning", queries=(query,)),))


def test_duplicates_have_equal_questions_and_answers(make):
    one, again = reasoning(make, "one"), reasoning(make, "again")
    others = [reasoning(make, "asks", text="How many bridges are there?"), reasoning(make, "old", old="4")]
    assert duplicates([one, *others, again]) == (("one", "again"),)
    assert [change.case for change in fix([one, *others, again]).changes] == ["again"]


def adding(make, name, *objects):
    """A case that adds objects to one subject and relation, each by an edit without an old object."""
    start = [("Ann", "mayor", "Rome")]
    edits = tuple(edit for new in objects for edit in make(name, start, [("Ann", "mayor", new)], 0).edits)
    case = make(name, start, [("Ann", "mayor", objects[0])], 0)
    return evolve(case, edits=tuple(evolve(edit, before=None) for edit in edits), facts_after=())


def test_several_objects_of_a_multi_valued_relation_are_no_conflict(make):
    cases = [adding(make, "both", "Oslo", "Bergen"), adding(make, "one", "Oslo"), adding(make, "other", "Narvik")]
    for rule in RULES:
        assert conflicts(cases, rule) == ()
    assert fix(cases).changes == ()
    assert len(select(cases).cases) == 3


def test_two_answers_to_one_question_are_a_conflict_without_old_answers(make):
    edits = [question_edit("Who leads Pell?", "Pell", Entity(label=name)) for name in ("Ann", "Bob", "Ann")]
    cases = [evolve(moved(make), id=str(at), edits=(edit,), facts_after=()) for at, edit in enumerate(edits)]
    (found,) = conflicts(cases)
    assert [ids for _fact, ids in found.targets] == [("0", "2"), ("1",)]


def test_replacing_edit_conflicts_with_an_adding_one(make):
    start = [("Ann", "mayor", "Rome")]
    cases = [adding(make, "adds", "Oslo"), make("replaces", start, [("Ann", "mayor", "Bergen")], 0)]
    (found,) = conflicts(cases)
    assert found.cases == ("adds", "replaces")
    assert len(select(cases).cases) == 1


def test_samples_equal_those_of_random_sample(make):
    cases = [make(str(n), TOWER, TOWER) for n in range(1, 3001)]
    assert draw(cases, 3000, 100)[:5] == ("597", "1883", "1864", "716", "2890")
    assert "2999" in draw(cases, 100, 100)
    assert "2999" not in draw(cases, 1000, 100)
    assert draw(cases, 1000, 100) == draw(cases, 3000, 100)[:1000]


@pytest.mark.parametrize("k", [-1, 2])
def test_too_many_edited_cases_are_rejected(make, k):
    with pytest.raises(BadConfig, match=f"cannot edit {k} of 1 cases"):
        draw([moved(make)], k, 100)


def test_unknown_rule_error_lists_the_rules(make):
    with pytest.raises(BadConfig, match="unknown rule 'qid'") as wrong:
        as_rule("qid")
    assert "id-first" in wrong.value.hint
