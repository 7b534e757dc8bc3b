from collections import Counter

import pytest

from ke_core.runner.plan import groups, select
from ke_core.spec.errors import BadConfig
from ke_core.spec.runspec import Plan
from ke_testing.process import under_hash_seeds


def no_split(_k, _seed):
    return None


@pytest.fixture(scope="module")
def cases(fakes):
    return [fakes.tower(n) for n in range(1, 3001)]


def test_partition_of_3000_cases_by_100_makes_30_groups_and_each_case_once(cases):
    found = groups(cases, Plan(size=100), 0, no_split)
    assert len(found) == 30
    assert {len(group.edited) for group in found} == {100}
    times = Counter(case.id for group in found for case in group.cases)
    assert len(times) == 3000
    assert set(times.values()) == {1}
    assert len({group.id for group in found}) == 30


def test_a_short_last_group_is_kept(cases):
    sizes = [len(group.cases) for group in groups(cases[:1868], Plan(size=500), 0, no_split)]
    assert sizes == [500, 500, 500, 368]


def test_groups_depend_on_the_seed(cases):
    first = [[case.id for case in group.edited] for group in groups(cases, Plan(size=100), 0, no_split)]
    same = [[case.id for case in group.edited] for group in groups(cases, Plan(size=100), 0, no_split)]
    other = [[case.id for case in group.edited] for group in groups(cases, Plan(size=100), 1, no_split)]
    assert first == same != other
    assert first[0] != [case.id for case in cases[:100]]
    assert all(members == sorted(members, key=int) for members in first)


def test_groups_of_one_case_and_of_all_cases(cases):
    assert [group.edited[0].id for group in groups(cases[:5], Plan(size=1), 0, no_split)] == ["1", "2", "3", "4", "5"]
    (everyone,) = groups(cases, Plan(size=None), 0, no_split)
    assert len(everyone.edited) == 3000


def test_limit_is_a_random_sample_in_file_order_and_smaller_ones_are_part_of_larger_ones(cases):
    fifty = [case.id for case in select(cases, Plan(limit=50), 0)]
    hundred = [case.id for case in select(cases, Plan(limit=100), 0)]
    assert len(fifty) == 50
    assert fifty == sorted(fifty, key=int) != [str(n) for n in range(1, 51)]
    assert set(fifty) < set(hundred)
    assert [case.id for case in select(cases, Plan(limit=50), 1)] != fifty
    assert select(cases, Plan(limit=5000), 0) == tuple(cases)


def test_samples_do_not_depend_on_the_python_hash_seed(cases):
    code = (
        "from attrs import frozen\n"
        "from ke_core.spec.runspec import Plan\n"
        "from ke_core.runner.plan import groups, select\n"
        "@frozen\n"
        "class Case:\n    id: str\n"
        "cases = [Case(str(n)) for n in range(1, 3001)]\n"
        "chosen = select(cases, Plan(limit=200), 7)\n"
        "plan = Plan(size=30, eval_limit=90)\n"
        "print([[c.id for c in g.edited] for g in groups(chosen, plan, 7, lambda k, s: None)])\n"
    )
    said = under_hash_seeds(code)
    assert said[0] == said[1]
    here = groups(select(cases, Plan(limit=200), 7), Plan(size=30, eval_limit=90), 7, no_split)
    assert said[0].strip() == str([[case.id for case in group.edited] for group in here])


def test_sample_edits_k_cases_and_asks_all(cases):
    (group,) = groups(cases, Plan(protocol="sample", size=100), 0, no_split)
    assert (len(group.edited), len(group.controls), len(group.cases)) == (100, 2900, 3000)
    assert not {case.id for case in group.edited} & {case.id for case in group.controls}


def test_sample_uses_the_split_of_the_dataset(cases):
    parts = {"2": "edited", "4": "edited", "5": "unedited"}
    (group,) = groups(cases[:10], Plan(protocol="sample", size=2), 0, lambda k, seed: parts)
    assert [case.id for case in group.edited] == ["2", "4"]
    assert [case.id for case in group.controls] == ["5"]


def test_eval_limit_asks_a_sample_of_the_edited_cases(cases):
    found = groups(cases, Plan(size=None, eval_limit=10), 0, no_split)
    assert [len(group.edited) for group in found] == [3000]
    assert len(found[0].cases) == 10
    assert sum(len(group.cases) for group in groups(cases, Plan(size=100, eval_limit=10), 0, no_split)) == 10


def test_plans_that_do_not_fit_the_dataset_are_refused(cases):
    with pytest.raises(BadConfig, match="20 cases cannot be edited: there are 10"):
        groups(cases[:10], Plan(protocol="sample", size=20), 0, no_split)
    with pytest.raises(BadConfig, match="edits none of the selected"):
        groups(cases[:10], Plan(protocol="sample", size=2), 0, lambda k, seed: {"99": "edited"})
    with pytest.raises(BadConfig, match="no case"):
        groups([], Plan(), 0, no_split)


def test_a_split_of_the_dataset_leaves_as_many_cases_to_ask_as_the_limit_says(cases):
    cases = cases[:20]
    parts = {one.id: "edited" if n % 4 == 0 else "control" for n, one in enumerate(cases) if n % 2 == 0}
    (group,) = groups(cases, Plan(protocol="sample", size=5, eval_limit=6), 0, lambda _size, _seed: parts)
    assert len(group.asked) == 6
    assert group.asked <= parts.keys()


@pytest.mark.parametrize(
    "given", [{"eval_every": 2}, {"eval_set": "new"}, {"eval_set": "sen"}, {"protocol": "sample", "sequential": True}]
)
def test_settings_without_effect_are_refused(given):
    with pytest.raises(ValueError, match=r"sequential|eval_set"):
        Plan(**given)
