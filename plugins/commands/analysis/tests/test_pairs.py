"""Pairs, differences and tests of two runs, against numbers computed manually."""

import math

import pytest

from ke_core.app import no_interval
from ke_core.plugin import CaseRecord, MetricSpec, Value
from ke_plugin_analysis.observations import Observations
from ke_plugin_analysis.pairs import corrected, differences, holm, mcnemar, paired_styles
from ke_testing.toy import Toy, ToyConfig

CASE = next(Toy().cases())


class Given:
    """Return the values case by case."""

    def __init__(self, values):
        self._values = iter(values)

    def values(self, record):
        return next(self._values)


def spec(**more):
    return MetricSpec(name="m", summary="s", config=ToyConfig, build=lambda _config: None, **more)


def seen(values, batch="", **options):
    """Return the observations; ``batch``: all cases shared one model."""
    from attrs import evolve

    records = [CaseRecord(case=evolve(CASE, id=name), batch=batch or name) for name in values]
    made, metric = Observations(**options), Given(values.values())
    for record in records:
        made.add(metric, "m", record)
    return made


def one(*values, aspect="a", style="direct", **more):
    return [
        Value(aspect=aspect, value=value, style=style, skipped_because="" if value is not None else "no", **more)
        for value in values
    ]


def found(first, second, **more):
    return {(d.aspect, d.styles): d for d in differences(spec(**more), first, second, seed=0)}


@pytest.mark.parametrize(
    ("lost", "gained", "p"),
    [
        (0, 0, 1.0),
        (0, 1, 1.0),  # 2 * 1/2
        (0, 5, 2 / 32),
        (1, 4, 2 * (1 + 5) / 32),
        (2, 8, 2 * (1 + 10 + 45) / 1024),
        (3, 3, 1.0),  # 2 * 42/64, at most 1
        (0, 2000, 0.0),
    ],
)
def test_mcnemar_is_twice_the_smaller_binomial_tail(lost, gained, p):
    assert mcnemar(lost, gained) == mcnemar(gained, lost) == pytest.approx(p, abs=1e-300)


def test_holm_corrected_p_values_are_monotone():
    assert holm([0.04, 0.01, 0.03]) == pytest.approx([0.06, 0.03, 0.06])
    assert holm([0.6, 0.9]) == [1.0, 1.0]
    assert holm([0.02]) == [0.02]
    assert holm([]) == []


def test_a_difference_uses_only_complete_pairs():
    first = seen({"1": one(1.0), "2": one(0.0), "3": one(1.0), "4": one(None)})
    second = seen({"1": one(1.0), "2": one(1.0), "3": one(None), "4": one(1.0), "5": one(1.0)})
    (made,) = found(first, second).values()
    assert (made.n, made.first, made.second, made.difference) == (2, 0.5, 1.0, 0.5)
    assert made.unpaired == 3  # case 3 in the first alone, 4 and 5 in the second alone
    assert (made.lost, made.gained, made.p) == (0, 1, 1.0)


def test_pairing_narrows_the_interval():
    """If both runs fail at the same cases, only the differing cases add variance."""
    from ke_core.app import bootstrap

    hard = {str(n): float(n % 2) for n in range(200)}
    better = {name: 1.0 if int(name) < 10 else value for name, value in hard.items()}
    (made,) = found(seen({n: one(v) for n, v in hard.items()}), seen({n: one(v) for n, v in better.items()})).values()
    assert made.difference == pytest.approx(5 / 200)
    alone = bootstrap(list(better.values()), list(better), seed=0)
    assert made.interval.high - made.interval.low < 0.5 * (alone.high - alone.low)
    assert 0 < made.interval.low < made.difference < made.interval.high


def test_the_order_of_cases_has_no_effect():
    values = {str(n): one(float(n % 3 == 0)) for n in range(30)}
    other = {str(n): one(float(n % 2 == 0)) for n in range(30)}
    back = seen(dict(reversed(other.items())))
    assert differences(spec(), seen(values), seen(other), seed=0) == differences(spec(), seen(values), back, seed=0)


def test_questions_of_one_case_are_one_resampling_unit():
    """40 cases with ten equal questions count as 40 observations, not 400."""
    each = {str(n): one(*[float(n % 2)] * 10) for n in range(40)}
    none = {str(n): one(*[0.0] * 10) for n in range(40)}
    (made,) = found(seen(none), seen(each)).values()
    assert made.n == 400
    assert made.interval.high - made.interval.low == pytest.approx(2 * 1.96 * math.sqrt(0.25 / 40), rel=0.15)


def test_the_metric_can_set_the_resampling_unit():
    """One edit in two cases is one resampling unit, which has no interval."""
    same = {"1": one(0.0, unit="e"), "2": one(0.0, unit="e")}
    better = {"1": one(1.0, unit="e"), "2": one(1.0, unit="e")}
    (made,) = found(seen(same), seen(better)).values()
    assert (made.n, made.interval, made.note) == (2, None, "one unit, no interval")


def test_a_batch_in_either_run_is_one_resampling_unit():
    """The first run edits case by case, the second all cases at once in one model."""
    values = {str(n): one(float(n % 2)) for n in range(8)}
    alone = {str(n): one(0.0) for n in range(8)}
    (made,) = found(seen(alone), seen(values, batch="all")).values()
    assert (made.interval, made.note) == (None, "one batch, no interval")
    (other,) = found(seen(values, batch="all"), seen(alone)).values()
    assert other.interval is None
    (both,) = found(seen(alone), seen(values)).values()
    assert both.interval is not None


def test_the_batches_of_a_sequential_run_are_one_resampling_unit():
    values = {name: one(float(number % 2)) for number, name in enumerate("abcdef")}
    alone = {name: one(0.0) for name in "abcdef"}
    (made,) = found(seen(alone), seen(values, sequential=True)).values()
    assert (made.interval, made.note) == (None, "one batch, no interval")


def test_repeated_observations_are_paired_by_query():
    def named(**by_query):
        return [value for query, x in by_query.items() for value in one(x, tags={"query": query})]

    first = seen({"1": named(p=1.0, q=0.0)})
    second = seen({"1": named(q=0.0, p=1.0)})
    (made,) = found(first, second).values()
    assert (made.n, made.lost, made.gained) == (2, 0, 0)


def test_unequal_numbers_of_observations_are_not_paired():
    (made,) = found(seen({"1": one(1.0, 0.0), "2": one(1.0)}), seen({"1": one(1.0), "2": one(0.0)})).values()
    assert (made.n, made.unpaired, made.difference) == (1, 3, -1.0)


def test_values_other_than_0_and_1_have_no_mcnemar_test():
    (made,) = found(seen({"1": one(0.3), "2": one(2.0)}), seen({"1": one(0.5), "2": one(1.0)})).values()
    assert (made.p, made.lost, made.gained) == (None, None, None)
    assert made.difference == pytest.approx(-0.4)


def test_common_styles_are_paired_otherwise_all_combinations():
    assert paired_styles(["direct", "cot"], ["cot", "direct", "own"]) == [("direct", "direct"), ("cot", "cot")]
    assert paired_styles(["direct", "cot"], ["own"]) == [("direct", "own"), ("cot", "own")]
    first = seen({"1": [*one(1.0), *one(0.0, style="cot")], "2": one(0.0)})
    second = seen({"1": one(1.0, style="own"), "2": one(1.0, style="own")})
    made = found(first, second)
    assert {key[1]: d.n for key, d in made.items()} == {("direct", "own"): 2, ("cot", "own"): 1}


def test_an_average_weights_its_parts_equally():
    """Aspect a has four pairs, b one: the difference is the mean of 1/4 and -1."""
    first = seen({**{str(n): one(0.0) for n in range(4)}, "b": one(1.0, aspect="b")})
    second = seen({"0": one(1.0), **{str(n): one(0.0) for n in range(1, 4)}, "b": one(0.0, aspect="b")})
    made = found(first, second, averages={"all": ("a", "b", "c")})["all", ("direct", "direct")]
    assert made.difference == pytest.approx((1 / 4 - 1) / 2)
    assert (made.n, made.p) == (5, None)
    assert made.note == "2 of 3 were observed"


@pytest.mark.parametrize("options", [{"batch": "all"}, {"sequential": True}])
def test_n_of_an_average_counts_units_and_not_batches(options):
    values = {str(n): [*one(float(n % 2)), *one(0.0, aspect="b")] for n in range(8)}
    averages = {"all": ("a", "b", "c")}
    made = found(seen(values), seen(values, **options), averages=averages)["all", ("direct", "direct")]
    assert (made.n, made.note) == (8, "2 of 3 were observed; one batch, no interval")
    assert no_interval(made.note) == "one batch"


def test_p_values_are_corrected_over_runs_and_not_over_aspects():
    def table(gained):
        return differences(
            spec(),
            seen({str(n): [*one(0.0), *one(0.0, aspect="b")] for n in range(10)}),
            seen({str(n): [*one(float(n < gained)), *one(0.0, aspect="b")] for n in range(10)}),
            seed=0,
        )

    (alone,) = corrected([table(6)])
    assert [one.adjusted for one in alone] == [one.p for one in alone] == [2 / 64, 1.0]
    first, second = corrected([table(6), table(8)])
    assert (first[0].adjusted, second[0].adjusted) == (2 / 64, 2 * 2 / 256)
    assert first[1].adjusted == 1.0


@pytest.mark.parametrize("gap", [0.0, 1.0])
def test_identical_pairs_have_no_interval(gap):
    """All resamples are equal, but twenty unchanged cases do not prove that nothing changes."""
    before = {str(n): one(0.0) for n in range(20)}
    after = {str(n): one(gap) for n in range(20)}
    (made,) = found(seen(before), seen(after)).values()
    assert (made.n, made.interval, made.note) == (20, None, "all pairs alike, no interval")
