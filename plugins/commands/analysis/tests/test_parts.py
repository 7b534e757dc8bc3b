"""Totals with their parts in one table, as in published tables."""

import io

import pytest
from rich.console import Console

from ke_core.results.reported import Reported
from ke_core.spec.results import MetricScore
from ke_core.spec.runspec import Plan
from ke_plugin_analysis.slices import slice_grids
from ke_plugin_analysis.tables import slice_tables
from ke_testing.records import make_run_spec

SPEC = make_run_spec("mello", plan=Plan(protocol="sample", size=100), edited_form="question")


def score(value, n, **tags):
    return MetricScore(metric="m", aspect="multi-hop", value=value, n=n, style="direct", tags=tags)


def reported(*scores):
    return Reported(path="r", spec=SPEC, scores=scores, columns={"m": {"multi-hop": "multi-hop"}})


def drawn(run):
    console = Console(file=io.StringIO(), width=100, color_system=None)
    for table in slice_tables([run]):
        console.print(table)
    return " ".join(console.file.getvalue().split())


def test_a_total_is_shown_with_its_edited_and_unedited_parts():
    """reference/mquake_remastered.md, section 8: (54 * 100 + 61.14 * 2900) / 3000 = 60.9."""
    total = (54 * 100 + 61.14 * 2900) / 3000 / 100
    run = reported(score(total, 3000), score(0.54, 100, part="edited"), score(0.6114, 2900, part="control"))
    (grid,) = slice_grids([run])
    assert grid.title == "total (edited, unedited), after editing: value in % (n)"
    (line,) = grid.lines
    assert [(round(100 * one.value, 1), one.n) for one in line.scores] == [(60.9, 3000), (54.0, 100), (61.1, 2900)]
    assert "multi-hop mello direct 60.9 54.0 61.1" in drawn(run)


def test_the_three_buckets_of_cf_6334_recombine():
    """Section 14 (9) of that page: (196 * 29.08 + 804 * 66.17 + 2010 * 63.23) / 3010 = 61.79."""
    parts = {"test only": (0.2908, 196), "shared": (0.6617, 804), "unedited": (0.6323, 2010)}
    total = sum(value * n for value, n in parts.values()) / 3010
    assert round(100 * total, 2) == 61.79
    run = reported(
        score(0.5, 9000),  # with the cases that are trained on alone
        score(total, 3010, **{"in the published score": "yes"}),
        *(score(*found, bucket=name) for name, found in parts.items()),
        score(0.9, 5990, bucket="train only"),
    )
    (grid,) = slice_grids([run])
    assert [head.words for head in grid.heads] == ["total", "test only", "shared", "unedited"]
    assert [one.n for one in grid.lines[0].scores] == [3010, 196, 804, 2010]
    assert "train" not in drawn(run)


def test_a_sequential_run_has_a_row_per_evaluation():
    """Scores are found by key: a search would cost minutes for 3,000 steps."""
    steps = [score(n / 3000, n, **{"edits made": str(n)}) for n in range(1, 3001)]
    (grid,) = slice_grids([reported(score(0.5, 10), *steps)])
    assert [(line.names[0], line.scores[0].n) for line in grid.lines] == [(str(n), n) for n in range(1, 3001)]


def test_a_run_without_parts_has_no_such_table():
    assert slice_grids([reported(score(0.5, 10))]) == []
    assert [grid.by for grid in slice_grids([reported(score(0.5, 10), score(0.5, 5, hops="2"))])] == ["hops"]


def test_a_run_that_edits_everything_has_no_unedited_part():
    run = reported(score(0.5, 10), score(0.5, 10, part="edited"))
    (grid,) = slice_grids([run])
    assert grid.lines[0].scores[2] is None


@pytest.mark.parametrize("key", ["part", "bucket", "in the published score"])
def test_parts_are_no_breakdown_of_their_own(key):
    values = {"part": "control", "bucket": "shared", "in the published score": "yes"}
    found = slice_grids([reported(score(0.5, 10), score(0.5, 5, **{key: values[key]}))])
    assert not any(grid.title.startswith("by ") for grid in found)
