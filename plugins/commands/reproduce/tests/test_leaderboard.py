"""The order of a leaderboard: direction of the score, and the cases of published scores."""

import csv
import io
import json
from pathlib import Path

import pytest
from attrs import evolve, frozen

from ke_core.app import Component, DataRef, ModelRef, Plan, Reported, RunSpec
from ke_core.plugin import MetricScore, MetricSpec, hookimpl
from ke_plugin_reproduce.leaderboard import Leaderboard, ranked, table_title, with_settings
from ke_plugin_reproduce.leaderboard_files import leaderboard_csv, leaderboard_html
from ke_plugin_reproduce.leaderboard_page import OWN_EDITS_NOTE, SKIPPED_NOTE, notes


@frozen(kw_only=True)
class NoOptions:
    pass


class Empty:
    def values(self, record):
        return ()


CF = DataRef(component=Component(name="cf", distribution="d", version="1"), sha256="0")


def run(editor, values, less=()):
    spec = RunSpec(
        ke="0.1.0", model=ModelRef(source="hf", id="tiny"), dataset=CF, styles=("direct",), plan=Plan(size=1),
        editor=Component(name=editor, distribution="d", version="1"), edited_form="question",
    )  # fmt: skip
    scores = [
        MetricScore(metric="m", aspect=aspect, value=value, n=10, style="direct") for aspect, value in values.items()
    ]
    return Reported(path=editor, spec=spec, scores=tuple(scores), columns={"m": {name: name for name in values}},
                    less=frozenset(("m", name) for name in less))  # fmt: skip


@pytest.mark.parametrize(("aspect", "first"), [("right", "mello"), ("pre-edit", "memit")])
def test_an_aspect_can_reverse_the_direction_of_its_metric(aspect, first):
    runs = [
        run(name, {"right": value, "pre-edit": value}, ["pre-edit"]) for name, value in (("memit", 0.2), ("mello", 0.7))
    ]
    table = ranked(CF, runs[0].spec.model, runs, by=aspect)
    assert table.places[0].name == first
    assert table.less == (aspect == "pre-edit")


def test_a_run_is_named_by_its_distinguishing_options():
    def made(options, **plan):
        one = run("ice", {"right": 0.5})
        spec = evolve(one.spec, plan=Plan(**plan), editor=evolve(one.spec.editor, options=options))
        return evolve(one, spec=spec)

    usual = {"k": 4, "facts": "all", "layers": None, "loud": False}
    runs = [
        made(usual, size=None, limit=3),
        made(usual | {"k": 8}, size=1, limit=3, eval_limit=2),
        made(usual | {"layers": [4, 5], "loud": True}, size=1),
        made(usual, protocol="sample", size=7),
    ]
    places = ranked(CF, runs[0].spec.model, runs, by="").places
    assert sorted(place.name for place in places) == [
        "ice, partition, all cases edited together, limit 3, k=4, loud=false",
        "ice, partition, each case edited alone, k=4, layers=4,5, loud=true",
        "ice, partition, each case edited alone, limit 3, 2 asked, k=8, loud=false",
        "ice, sample, 7 edited, k=4, loud=false",
    ]


def test_a_run_whose_editor_was_given_own_edits_is_marked():
    given = run("parrot", {"right": 0.5})
    runs = [evolve(given, spec=evolve(given.spec, own_edits=True)), run("memit", {"right": 0.4})]
    assert [place.name for place in ranked(CF, given.spec.model, runs, by="").places] == [
        "parrot (given own edits)",
        "memit",
    ]


def test_notes_explain_own_edits_and_skipped_values_only_if_they_occur():
    plain = run("memit", {"right": 0.4})
    given = evolve(plain, spec=evolve(plain.spec, own_edits=True))
    partial = evolve(plain, scores=tuple(evolve(score, skipped=2) for score in plain.scores))

    def noted(one):
        return [words for words, _kind in notes(Leaderboard(tables=(ranked(CF, one.spec.model, [one], by=""),)))]

    assert noted(plain) == []
    assert noted(given) == [OWN_EDITS_NOTE]
    assert noted(partial) == [SKIPPED_NOTE]


def test_training_cases_do_not_count_in_ranks():
    one = run("pokemqa", {"right": 0.9})
    counted = MetricScore(
        metric="m", aspect="right", value=0.3, n=5, style="direct", tags={"in the published score": "yes"}
    )
    runs = [evolve(one, scores=(*one.scores, counted)), run("memit", {"right": 0.4})]
    assert [place.score.value for place in ranked(CF, one.spec.model, runs, by="").places] == [0.4, 0.3]


def test_contrary_aspects_reverse_the_direction_of_the_metric():
    spec = MetricSpec(name="m", summary="s", config=Component, build=run, contrary=frozenset({"pre-edit"}))
    assert [spec.less_is_better(aspect) for aspect in ("right", "pre-edit")] == [False, True]
    lower = evolve(spec, higher_is_better=False)
    assert [lower.less_is_better(aspect) for aspect in ("right", "pre-edit")] == [True, False]


def test_published_parts_of_different_sizes_are_different_cases():
    counted = MetricScore(metric="m", aspect="right", value=0.3, n=5, tags={"in the published score": "yes"})

    def alike(*sizes, tagged):
        plans = [Plan(protocol="sample", size=size) for size in sizes]
        one = run("memit", {"right": 0.5})
        one = evolve(one, scores=(*one.scores, counted)) if tagged else one
        runs = [evolve(one, spec=evolve(one.spec, plan=plan)) for plan in plans]
        return ranked(CF, one.spec.model, runs, by="").alike

    assert not alike(100, 1000, tagged=True)
    assert alike(100, 100, tagged=True)
    assert alike(100, 1000, tagged=False)  # all cases are asked, edited or not


def test_tables_with_the_same_title_name_the_settings_in_which_they_differ():
    one = run("memit", {"right": 0.5})
    tiny, component = one.spec.model, CF.component
    edits = evolve(CF, component=evolve(component, options={"view": "edits", "mask": True}))
    chains = evolve(CF, component=evolve(component, options={"view": "chains", "mask": True}), sha256="1")
    tables = [
        ranked(dataset, model, [one], by="")
        for dataset, model in (
            (edits, tiny), (chains, tiny), (evolve(chains, sha256="2"), tiny), (CF, evolve(tiny, id="other"))
        )
    ]  # fmt: skip
    assert [table_title(table) for table in with_settings(tables)] == [
        "cf on tiny: right, value in % (view=edits)",
        "cf on tiny: right, value in % (view=chains, data=1)",
        "cf on tiny: right, value in % (view=chains, data=2)",
        "cf on other: right, value in %",
    ]


def test_a_column_without_a_value_after_editing_has_no_table():
    one = run("memit", {"right": 0.5})
    one = evolve(one, scores=tuple(evolve(score, phase="before") for score in one.scores))
    assert ranked(CF, one.spec.model, [one], by="") is None


def test_a_finished_run_without_the_score_is_listed(ke, evaluated, plugins):
    class More:
        @hookimpl
        def ke_metrics(self):
            return [MetricSpec(name="empty", summary="s", config=NoOptions, build=lambda _config: Empty())]

    plugins.register(More(), "more")
    one = ("eval", "--editor", "sayer", "--dataset", "toy", "--model", "echo:1", "--metric", "empty", "--out", "other")
    assert ke(*one)[0] == 0
    said = "no score for edits made"
    status, out, _err = ke("leaderboard", ".")
    assert status == 0
    assert f"not ranked: other: {said}" in out
    assert json.loads(ke("leaderboard", ".", "--json")[1])["not_ranked"] == {"other": said}
    assert ke("leaderboard", ".", "--html", "ranks.html")[0] == 0
    assert f'<p class="warning">not ranked: other: {said}</p>' in Path("ranks.html").read_text(encoding="utf-8")


def board(*names):
    runs = [run(name, {"right": 0.2 * number}) for number, name in enumerate(names, start=1)]
    return Leaderboard(
        tables=(ranked(CF, runs[0].spec.model, runs, by=""),), open=("late",), failed={"cell": "<b>no memory</b>"}
    )


def test_csv_has_one_row_per_place_best_first():
    rows = list(csv.DictReader(io.StringIO(leaderboard_csv(board("memit", "mello")))))
    assert [(row["run"], row["value"], row["n"], row["rank_best"], row["rank_worst"]) for row in rows] == [
        ("mello", "0.4", "10", "1", "2"),
        ("memit", "0.2", "10", "1", "2"),
    ]
    assert {(row["dataset"], row["model"], row["metric"], row["aspect"]) for row in rows} == {
        ("cf", "tiny", "m", "right")
    }


def test_csv_escapes_formulas():
    (row,) = csv.DictReader(io.StringIO(leaderboard_csv(board('=HYPERLINK("x")'))))
    assert row["run"] == '\'=HYPERLINK("x")'


def test_the_html_page_has_the_tables_and_notes_and_escapes_all_texts():
    page = leaderboard_html(board("memit", "<script>"), "Leaderboard of runs")
    assert "<h2>cf on tiny: right, value in %</h2>" in page
    assert "&lt;script&gt;" in page
    assert "<script>" not in page
    assert '<p class="warning">not finished: late</p>' in page
    assert "skipped" not in page
    assert '<p class="error">failed: cell: &lt;b&gt;no memory&lt;/b&gt;</p>' in page


def test_the_html_page_has_the_number_of_skipped_values():
    one = run("memit", {"right": 0.5})
    one = evolve(one, scores=tuple(evolve(score, skipped=2) for score in one.scores))
    table = ranked(CF, one.spec.model, [one], by="")
    assert ">10 (2 skipped)<" in leaderboard_html(Leaderboard(tables=(table,)), "Leaderboard of runs")


def test_leaderboard_writes_files_instead_of_printing(ke, evaluated, tmp_path):
    status, out, err = ke("leaderboard", ".", "--html", "ranks.html", "--csv", "ranks.csv")
    assert (status, out) == (0, "")
    assert "written: ranks.html" in err
    assert "<h1>Leaderboard of .</h1>" in (tmp_path / "ranks.html").read_text(encoding="utf-8")
    assert (tmp_path / "ranks.csv").read_text(encoding="utf-8").startswith("dataset,model,metric,aspect,")
