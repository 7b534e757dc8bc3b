"""A metric over the queries that have a value in every run."""

from attrs import evolve, frozen

from ke_core.plugin import QUERY_TAG, CaseRecord, MetricSpec, Value
from ke_plugin_analysis.common import shared_scores
from ke_testing.toy import Toy, ToyConfig

CASE = next(Toy().cases())
SPEC = MetricSpec(
    name="m", summary="s", config=ToyConfig, build=lambda _config: None, shared={"kept-each": "kept"}
)  # fmt: skip


@frozen
class Said:
    """Values with ``style``, or else the batch as style; a skipped case has a value without a style."""

    style: str = ""

    def values(self, record):
        if record.skipped:
            yield Value(aspect="kept-each", value=None, skipped_because=record.skipped, tags={QUERY_TAG: "q"})
            return
        for query in ("q", "r"):
            yield Value(aspect="kept-each", value=1.0, style=self.style or record.batch, tags={QUERY_TAG: query})


def case(style, skipped=None):
    return CaseRecord(case=CASE, batch=style, edited=True, skipped=skipped)


def test_a_skipped_case_adds_no_style():
    runs = [[case("direct"), case("direct", "the edit was refused")], [case("own"), case("own", "it was refused")]]
    (made,) = shared_scores(Said(), SPEC, runs, seed=0)
    assert (made.styles, dict(made.queries), made.own) == (("direct", "own"), {"kept": 2}, (2, 2))


def test_a_sequential_run_has_no_interval():
    runs = [[evolve(case(name), case=evolve(CASE, id=name)) for name in "abc"] for _run in range(2)]
    (made,) = shared_scores(Said("direct"), SPEC, runs, seed=0, sequential=[False, True])
    ((one,), (other,)) = made.scores
    assert one.interval is not None
    assert (other.n, other.interval, other.note) == (3, None, "one batch, no interval")


def test_a_case_that_only_one_run_edited_shares_no_query():
    control = evolve(case("direct"), edited=False)
    (made,) = shared_scores(Said(), SPEC, [[case("direct")], [control]], seed=0)
    assert (dict(made.queries), made.own) == ({}, (2, 2))


def test_runs_with_only_skipped_cases_share_no_query():
    (made,) = shared_scores(Said(), SPEC, [[case("direct", "refused")], [case("direct", "refused")]], seed=0)
    assert dict(made.queries) == {}
