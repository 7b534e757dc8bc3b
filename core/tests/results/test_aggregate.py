import math

import pytest

from ke_core.results.aggregate import aggregate
from ke_core.results.intervals import bootstrap, bootstrap_average
from ke_core.spec.errors import PluginBroken
from ke_core.spec.queries import Case, Gold, Probe, Query
from ke_core.spec.results import QUERY_TAG, CaseRecord, Value
from ke_core.spec.specs import MetricSpec
from ke_testing.toy import Toy, ToyConfig

CASE = next(Toy().cases())


class Given:
    """The values of one case after another."""

    def __init__(self, values):
        self._values = iter(values)

    def values(self, record):
        return next(self._values)


def scores(values, *, by=(), batches=None, controls=(), **more):
    """Scores of one case for each list of values; each is a batch of its own unless ``batches`` says otherwise."""
    spec = MetricSpec(name="m", summary="s", config=ToyConfig, build=lambda _config: None, by=by, **more)
    records = [
        CaseRecord(case=CASE, batch=(batches or {}).get(name, name), edited=name not in controls) for name in values
    ]
    return aggregate(Given(values.values()), spec, records, seed=0)


def one(value, **more):
    return [Value(aspect="a", value=value, **more)]


def test_mean_n_and_reasons():
    (score,) = scores({
        "1": one(1.0, unit="1"), "2": one(0.0, unit="2"), "3": one(None, skipped_because="no base answer"),
    })  # fmt: skip
    assert (score.value, score.n, score.skipped) == (0.5, 2, 1)
    assert score.skipped_because == {"no base answer": 1}


@pytest.mark.parametrize(("second", "binary"), [(0.0, True), (0.5, False)])
def test_score_is_binary_if_each_observation_is_0_or_1(second, binary):
    (score,) = scores({"1": one(1.0), "2": one(second)})
    assert score.binary is binary


def test_score_without_observations_has_no_value():
    (score,) = scores({"1": one(None, skipped_because="refused")})
    assert (score.value, score.n, score.interval, score.note) == (None, 0, None, "")


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_value_of_nan_is_an_error(bad):
    with pytest.raises(PluginBroken, match=f"the value is {bad}"):
        scores({"1": one(bad)})


def test_slices_by_tag_in_natural_order():
    values = {str(n): one(float(n % 2), tags={"edits": str(n)}, unit=str(n)) for n in (10, 2, 1)}
    found = scores(values, by=("edits",))
    assert [dict(score.tags) for score in found] == [{}, {"edits": "1"}, {"edits": "2"}, {"edits": "10"}]


def test_tags_of_values_override_tags_of_cases():
    found = scores({"1": one(1.0), "2": one(1.0, tags={"hops": "9"})}, by=("hops",))
    assert [(dict(score.tags), score.n) for score in found] == [({}, 2), ({"hops": "2"}, 1), ({"hops": "9"}, 1)]


def test_scores_are_broken_down_by_controls():
    found = scores({"1": one(1.0), "2": one(0.0)}, controls=("2",))
    assert [(dict(s.tags), s.value) for s in found] == [
        ({}, 0.5),
        ({"part": "control"}, 0.0),
        ({"part": "edited"}, 1.0),
    ]


def test_one_unit_has_no_interval():
    (score,) = scores({"1": [*one(1.0, unit="x"), *one(0.0, unit="x")]})
    assert (score.interval, score.note) == (None, "one unit, no interval")


def test_bootstrap_samples_batches_with_several_cases():
    values = {str(n): one(float(n < 4), unit=str(n)) for n in range(8)}
    (score,) = scores(values, batches={str(n): "b" for n in range(8)})
    assert (score.interval, score.note) == (None, "one batch, no interval")
    (two,) = scores(values, batches={str(n): "b" if n < 4 else "c" for n in range(8)})
    assert (two.interval.low, two.interval.high) == (0.0, 1.0)
    (before,) = scores(
        {name: one(v[0].value, unit=name, phase="before") for name, v in values.items()},
        batches={str(n): "b" for n in range(8)},
    )
    assert before.interval is not None  # before editing cases share nothing


def test_interval_contains_the_mean_and_shrinks_with_n():
    few = bootstrap([1.0, 0.0] * 20, [str(n) for n in range(40)], seed=0)
    many = bootstrap([1.0, 0.0] * 2000, [str(n) for n in range(4000)], seed=0)
    assert few.low < 0.5 < few.high
    assert many.high - many.low < few.high - few.low
    # 1.96 * sqrt(0.25 / 4000) on either side
    assert many.high - 0.5 == pytest.approx(1.96 * math.sqrt(0.25 / 4000), rel=0.1)


def test_clusters_widen_the_interval():
    values = [float(n // 10 % 2) for n in range(400)]
    alone = bootstrap(values, [str(n) for n in range(400)], seed=0)
    together = bootstrap(values, [str(n // 10) for n in range(400)], seed=0)
    assert together.high - together.low > 2 * (alone.high - alone.low)


def test_intervals_depend_only_on_the_seed():
    values, units = [float(n % 3 == 0) for n in range(90)], [str(n) for n in range(90)]
    assert bootstrap(values, units, seed=1) == bootstrap(values, units, seed=1)
    assert bootstrap(values, units, seed=1) != bootstrap(values, units, seed=2)
    assert bootstrap(values[::-1], units[::-1], seed=1) == bootstrap(values, units, seed=1)


@pytest.mark.parametrize(("value", "ends"), [(0.0, (0.0, 0.459258)), (1.0, (0.540742, 1.0))])
def test_fractions_of_0_and_1_have_the_exact_interval(value, ends):
    (score,) = scores({str(n): one(value, unit=str(n)) for n in range(6)})  # 0.025 ** (1 / 6) is 0.540742
    assert (score.interval.low, score.interval.high, score.interval.level) == (*ends, 0.95)


@pytest.mark.parametrize(
    ("value", "ends"), [(-1.0, (-1.0, -0.081484)), (0.0, (-0.459258, 0.459258)), (1.0, (0.081484, 1.0))]
)
def test_the_exact_interval_of_differences_extends_in_both_directions(value, ends):
    """At most 0.459258 of the units differ, and each of them by at most 2."""
    (score,) = scores({str(n): one(value, unit=str(n)) for n in range(6)}, signed=frozenset({"a"}))
    assert (score.interval.low, score.interval.high) == ends
    average = bootstrap_average([([value] * 6, list("abcdef"))], seed=0, lowest=-1.0)
    assert (average.low, average.high) == ends


def test_the_exact_interval_counts_units_and_not_observations():
    found = bootstrap([0.0] * 3_000, [f"batch-{n // 100}" for n in range(3_000)], seed=0, lowest=0.0)
    assert (found.low, found.high) == (0.0, pytest.approx(1 - 0.025 ** (1 / 30), abs=1e-6))


def test_other_measures_have_no_exact_interval():
    (score,) = scores({str(n): one(1.0, unit=str(n)) for n in range(6)}, measures={"a": "s"})
    assert (score.interval.low, score.interval.high) == (1.0, 1.0)


def test_the_exact_interval_extends_from_any_common_value():
    """At most 0.459258 of the units differ from 0.5, each of them by at most 0.5."""
    found = bootstrap([0.5] * 6, list("abcdef"), seed=0, lowest=0.0)
    assert (found.low, found.high) == (0.270371, 0.729629)


def test_the_exact_interval_of_an_average_is_the_mean_of_its_parts():
    ten, two = ([0.0] * 10, [str(n) for n in range(10)]), ([0.0] * 2, ["0", "1"])
    bounds = [1 - 0.025 ** (1 / n) for n in (10, 2)]
    assert bootstrap_average([ten, ten], seed=0, lowest=0.0).high == pytest.approx(bounds[0], abs=1e-6)
    assert bootstrap_average([ten, two], seed=0, lowest=0.0).high == pytest.approx(sum(bounds) / 2, abs=1e-6)
    assert averaged({"a": 1.0, "b": 1.0}, {"a": 1.0, "b": 1.0})["all"].interval.low == pytest.approx(
        0.025**0.5, abs=1e-6
    )


def averaged(*cases, batch=""):
    """Scores of a metric whose ``all`` is the plain mean of aspects a and b; each case's values by aspect.

    Each case is a batch of its own, unless all are of the one ``batch``.
    """
    spec = MetricSpec(name="m", summary="s", config=ToyConfig, build=lambda _config: None, averages={"all": ("a", "b")})
    made = {
        str(n): [Value(aspect=aspect, value=value, unit=str(n)) for aspect, value in case.items()]
        for n, case in enumerate(cases)
    }
    records = [CaseRecord(case=CASE, batch=batch or name) for name in made]
    return {score.aspect: score for score in aggregate(Given(made.values()), spec, records, seed=0)}


def test_average_of_aspects_is_a_mean_of_means():
    score = averaged({"a": 1.0, "b": 0.0}, {"a": 1.0}, {"a": 0.0})["all"]
    assert score.value == pytest.approx((2 / 3 + 0) / 2)
    assert score.n == 3
    assert score.interval.low <= score.value <= score.interval.high
    assert score.interval == averaged({"a": 1.0, "b": 0.0}, {"a": 1.0}, {"a": 0.0})["all"].interval


def test_n_of_an_average_counts_units_also_if_batches_are_sampled():
    """All cases edited at once are one draw, and still three cases."""
    score = averaged({"a": 1.0, "b": 0.0}, {"a": 1.0}, {"a": 0.0}, batch="all")["all"]
    assert (score.n, score.interval, score.note) == (3, None, "one batch, no interval")


def test_note_of_an_average_counts_missing_aspects():
    found = averaged({"a": 1.0}, {"a": 0.5})["all"]
    assert (found.value, found.note) == (0.75, "1 of 2 were observed")
    assert "all" not in averaged()
    assert averaged({"a": 1.0})["all"].note == "1 of 2 were observed; one unit, no interval"


class EachQuery:
    """A value for each query of a case, and one for its probe, which is as large as the number of its queries."""

    def values(self, record):
        for probe in record.case.probes:
            yield Value(aspect="probe", value=float(len(probe.queries) > 1), tags=probe.tags)
            for query in probe.queries:
                yield Value(aspect="query", value=float(query.id == "en"), tags={QUERY_TAG: query.id})


def tagged_case(name, *languages, hop="2"):
    queries = tuple(
        Query(id=language, texts=("?",), gold=Gold(), tags={"language": language, "hop": hop}) for language in languages
    )
    return Case(id=name, probes=(Probe(id="p", aspect="a", queries=queries),), tags={"language": "mixed"})


def test_scores_of_all_metrics_are_broken_down_by_tags_of_queries():
    spec = MetricSpec(name="m", summary="s", config=ToyConfig, build=lambda _config: None)
    cases = (tagged_case("1", "en", "de"), tagged_case("2", "en"), tagged_case("3", "de", hop="3"))
    found = aggregate(EachQuery(), spec, [CaseRecord(case=case, batch=case.id) for case in cases], seed=0)
    assert {(s.aspect, *s.tags.items()): (s.value, s.n) for s in found} == {
        ("query",): (0.5, 4),
        ("query", ("language", "de")): (0.0, 2),
        ("query", ("language", "en")): (1.0, 2),
        ("query", ("hop", "2")): (pytest.approx(2 / 3), 3),
        ("query", ("hop", "3")): (0.0, 1),
        ("probe",): (pytest.approx(1 / 3), 3),
        # The queries of the first case's probe differ in their language, so the case's own tag is what is left.
        ("probe", ("language", "mixed")): (1.0, 1),
        ("probe", ("language", "en")): (0.0, 1),
        ("probe", ("language", "de")): (0.0, 1),
        ("probe", ("hop", "2")): (0.5, 2),
        ("probe", ("hop", "3")): (0.0, 1),
    }


def test_cases_without_query_tags_are_not_broken_down():
    spec = MetricSpec(name="m", summary="s", config=ToyConfig, build=lambda _config: None)
    found = aggregate(EachQuery(), spec, [CaseRecord(case=CASE, batch="1")], seed=0)
    assert [score.tags for score in found] == [{}, {}]
