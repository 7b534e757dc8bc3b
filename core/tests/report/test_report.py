"""Tables and footers from data: no number without its n, nothing dropped in silence, nothing obeyed."""

import io
from collections import Counter

import pytest
from attrs import evolve
from rich.console import Console

from ke_core.engine.models import NO_MODEL
from ke_core.results.footer import spent_words
from ke_core.results.formatting import count_noun, duration, format_interval, format_score, literal
from ke_core.results.reported import Reported, metric_columns, plan_words, run_labels
from ke_core.results.sanitize import one_line, sanitize
from ke_core.results.tally import Effort, Tally, effort_scores, tally
from ke_core.spec.records import Batch, Judged, Replied, Usage
from ke_core.spec.results import Answer, Cost, Failure, Interval, MetricScore
from ke_core.spec.runspec import Component, ModelRef, Plan
from ke_plugin_analysis.footer import footer
from ke_plugin_analysis.tables import report_page, score_tables, slice_tables
from ke_testing.records import make_run_spec

JUDGE = Component(name="alias", distribution="d", version="0.1.0", options={"match": "exact", "fold": False})
COLUMNS = {"multi": {"efficacy": "edit-wise", "multi-hop": "multi-hop", "never": "never measured"}}


def spec(editor="memit", **changes):
    made = Component(name=editor, distribution="d", version="1.0", options={"layers": [4, 5], "corpus": None})
    return make_run_spec(**{"editor": made, "styles": ("direct", "cot"), **changes})


def score(value, n=10, aspect="multi-hop", *, phase="after", style="direct", **more):
    bounds = None if value is None else Interval(low=max(0.0, value - 0.1), high=min(1.0, value + 0.1))
    return MetricScore(
        metric="multi", aspect=aspect, value=value, n=n, phase=phase, style=style, **{"interval": bounds, **more}
    )


def reported(*scores, editor="memit", **changes):
    tallied = changes.pop("tally", Tally(judge=JUDGE))
    return Reported(path=f"runs/{editor}", spec=spec(editor, **changes), scores=scores, columns=COLUMNS, tally=tallied)


def drawn(renderable, width=100):
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(renderable)
    lines = [line.rstrip() for line in console.file.getvalue().splitlines()]
    assert max(map(len, lines)) <= width
    return "\n".join(lines)


def flat(renderable):
    return " ".join(drawn(renderable).split())


def test_cell_has_value_and_interval_and_heading_has_the_shared_n():
    text = flat(score_tables([reported(score(0.412))])[0])
    assert "multi-hop editor prompt n 10" in text
    assert "memit direct 41.2 31.2-51.2" in text


def test_an_n_that_differs_stands_in_every_cell():
    text = drawn(score_tables([reported(score(0.5, 10)), reported(score(0.5, 12), editor="mello")])[0])
    assert [line.split()[-2:] for line in text.splitlines() if " n 1" in line] == [["n", "10"], ["n", "12"]]


def test_each_metric_has_a_table_and_quantities_their_measure():
    seconds = evolve(score(12.3456, 3, aspect="seconds"), metric="cost", measure="s", style="", interval=None)
    run = evolve(
        reported(score(0.5), seconds),
        columns={**COLUMNS, "cost": {"seconds": "time per edit"}},
        less=frozenset({("cost", "seconds")}),
    )
    shares, quantities = (drawn(table) for table in score_tables([run]))
    assert "multi: atlas on tiny: value in %, 95% interval" in shares
    assert "prompt" in shares
    assert "cost: atlas on tiny: less is better\n" in quantities
    assert "prompt" not in quantities
    assert "[s] editor n 3" in " ".join(quantities.split())
    assert "12.35" in quantities


def test_title_says_which_intervals_are_unreliable_and_why_others_are_missing():
    few, missing = score(0.5, 9), evolve(score(0.5), interval=None, note="1 of 2 were observed; one batch, no interval")
    assert "value in %, 95% interval (unreliable for n below 10)\n" in drawn(score_tables([reported(few)])[0])
    assert "value in %, no interval for one batch\n" in drawn(score_tables([reported(missing)])[0])


def test_columns_follow_the_metric_order_without_unmeasured_ones():
    run = reported(score(0.1), score(0.2, aspect="efficacy"), score(None, 0, aspect="never"))
    assert [column.heading for column in metric_columns([run])] == ["edit-wise", "multi-hop"]


def test_metric_that_is_not_installed_shows_all_its_aspects():
    run = evolve(reported(score(0.1), score(0.2, aspect="efficacy")), columns={"multi": {}})
    assert [column.heading for column in metric_columns([run])] == ["multi-hop", "efficacy"]


def test_rows_of_styles_follow_the_specification():
    text = flat(score_tables([reported(score(0.1, style="cot"), score(0.2), score(0.3, style="own"))])[0])
    assert "memit direct 20.0 10.0-30.0 cot 10.0 0-20.0 method's own 30.0 20.0-40.0" in text


def test_unedited_model_has_one_row_if_the_runs_agree():
    before = score(0.7, phase="before")
    text = drawn(score_tables([reported(before, score(0.1)), reported(before, score(0.2), editor="mello")])[0])
    assert text.count("unedited") == 1
    assert text.count("70.0") == 1


def test_runs_with_different_numbers_of_unedited_answers_agree():
    one, other = score(0.7, phase="before"), score(0.4, phase="before", style="cot")
    more = score(0.5, phase="before", aspect="old answer")
    runs = [reported(other, score(0.1)), reported(one, more, other, score(0.2), editor="mello")]
    text = flat(score_tables(runs)[0])
    assert "before" not in text
    assert text.count("unedited") == 1
    assert "unedited direct 70.0" in text


def test_unedited_model_has_one_row_per_run_if_they_differ():
    runs = [
        reported(score(0.7, phase="before"), score(0.1)),
        reported(score(0.6, phase="before"), score(0.2), editor="mello"),
        reported(score(0.2), editor="parrot"),
    ]
    text = drawn(score_tables(runs)[0])
    assert "before memit" in text
    assert "before mello" in text
    assert "before parrot" not in text
    assert "unedited" not in text


def test_breakdowns_go_by_tag_with_an_n_in_every_cell():
    tagged = [score(0.5, n, tags={"hops": hops}) for hops, n in (("10", 1), ("2", 7))]
    (table,) = slice_tables([reported(score(0.5), *tagged)])
    text = drawn(table)
    assert "by hops, after editing: value in % (n)" in text
    assert text.index("50.0 (7)") < text.index("50.0 (1)")


def test_runs_of_one_editor_are_labeled_by_their_differences():
    other = ModelRef(source="hf", id="large", digest="b")
    assert run_labels([reported(), reported(editor="none")]) == ["memit", "none"]
    assert run_labels([reported(), reported(model=other)]) == ["memit, tiny", "memit, large"]
    assert run_labels([reported(plan=Plan(limit=9)), reported(plan=Plan(size=None, limit=9))]) == [
        "memit, each case edited alone", "memit, all cases edited together",
    ]  # fmt: skip
    plans = [Plan(eval_limit=9), Plan(protocol="sample", size=5, eval_limit=9)]
    assert run_labels([reported(plan=plan) for plan in plans]) == [
        "memit, partition, each case edited alone", "memit, sample, 5 edited",
    ]  # fmt: skip
    assert run_labels([reported(), reported(editor="parrot", model=NO_MODEL)]) == ["memit", "parrot"]
    assert run_labels([reported(), reported(seed=1)]) == ["memit, seed=0", "memit, seed=1"]
    alike = [reported(), reported(styles=("cot",))]
    assert run_labels(alike) == [f"memit {run.spec.id[:8]}" for run in alike]


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        (Plan(size=100, limit=300), "partition, 100 cases edited together, limit 300"),
        (Plan(protocol="sample", size=5, eval_limit=9), "sample, 5 edited, 9 asked"),
        (Plan(protocol="sample", size=None), "sample, all edited"),
    ],
)
def test_a_plan_is_told_in_words(plan, words):
    assert plan_words(spec(plan=plan)) == words


@pytest.mark.parametrize(
    ("plan", "how", "who"),
    [
        (Plan(size=10, sequential=True), "10 cases at a time", "seen cases asked at the end"),
        (Plan(sequential=True, eval_every=1, eval_set="all"), "case by case", "all cases asked after each batch"),
        (Plan(size=2, sequential=True, eval_every=5), "2 cases at a time", "seen cases asked after every 5 batches"),
    ],
)  # fmt: skip
def test_a_sequential_plan_is_told_in_words(plan, how, who):
    assert plan_words(spec(plan=plan)) == f"sequential, {how} on top of one another, {who}"


def test_footer_names_editors_that_received_the_edits_of_their_case():
    joined = " ".join(drawn(footer([reported(), reported(editor="parrot", own_edits=True)])).split())
    words = "the editor gets each question's own edits"
    assert f"{words}: no (memit); yes (no retrieval needed) (parrot)" in joined


def test_footer_shows_a_shared_specification_once():
    text = drawn(footer([reported(), reported(editor="oracle", oracle=("answers",), joint=False)]))
    assert text.count("protocol: partition, each case edited alone, seed 0") == 1
    assert "gold material given to the editor: nothing (memit); answers (oracle)" in text
    joined = " ".join(text.split())
    assert (
        "form of the edited fact: cloze (memit); cloze, edits applied one by one without restoring (oracle)" in joined
    )
    assert "judge: alias 0.1.0 (match=exact, fold=false)" in text
    assert "model: tiny, float32, weights abcdef012345" in text
    assert "dataset: atlas 2.0, content 000000000000" in text
    assert "memit: memit 1.0 (layers=4,5)" in text


def test_footer_counts_missing_answers_by_reason():
    lost = Tally(
        cases=3, controls=2, edits=4, edit_seconds=[1.5, 1.0, 9.0],
        answers=10,
        failures=Counter({f"ServerGone: {place}": 7 - n for n, place in enumerate("abcdefg")}),
        skipped=Counter({"edit e1 refused: no subject": 1}),
        refused=Counter({"no subject": 2}),
        unfinished=Counter({"hop-cap": 3}),
    )  # fmt: skip
    run = reported(score(0.5, skipped=2, skipped_because={"the judge could not decide": 2}), tally=lost)
    text = drawn(footer([run]))
    assert "3 cases and 2 controls, 4 edits at 1.5 s each" in text
    assert "10 answers" in text
    assert "28 failed replies, counted as wrong:" in text
    assert "7 x ServerGone: a" in text
    assert "3 for 2 other reasons" in text
    assert "1 case skipped:\n    1 x edit e1 refused: no subject" in text
    assert "2 edits refused by the editor:\n    2 x no subject" in text
    assert "3 incomplete answers, counted as wrong:\n    3 x too many steps" in text
    assert "2 missing observations:\n    2 x multi-hop, after: the judge could not decide" in text


def test_missing_observations_are_named_like_their_columns():
    why = {"the model was not asked": 2}
    asked = {"n": 0, "skipped": 2, "skipped_because": why}
    aspects = ("used-if-retrieved", "multi-hop-recalled", "efficacy", "bare")
    run = evolve(
        reported(*(score(None, aspect=aspect, **asked) for aspect in aspects)),
        tables={"multi": {"recalled": {"used-if-retrieved": "kept", "multi-hop-recalled": "multi-hop"}}},
    )
    text = flat(footer([run]))
    for title in ("kept", "recalled: multi-hop", "edit-wise", "bare"):
        assert f"2 x {title}, after: the model was not asked" in text


def test_short_times_have_no_powers_of_ten():
    short = score(1.176e-05, measure="s", interval=Interval(low=1e-7, high=0.00123))
    assert (format_score(short), format_interval(short)) == ("0.000", "0.000-0.001230")
    assert format_score(score(1.176e-05, measure="nats")) == "1.176e-05"


def test_prompts_over_the_limit_are_listed_with_their_lengths():
    long = "ContextOverflow: a prompt of {} tokens and 24 more exceed the model's context of 8192"
    lost = Tally(failures=Counter({long.format(9_000): 2, long.format(12_345): 1, "ServerGone: at 10": 1}))
    text = flat(footer([reported(tally=lost)]))
    assert (
        "3 x ContextOverflow: a prompt of 9000 to 12345 tokens and 24 more exceed the model's context of 8192" in text
    )
    assert "1 x ServerGone: at 10" in text


def test_a_control_without_a_model_is_no_other_model():
    runs = [reported(score(0.1)), reported(score(0.2), editor="parrot", model=NO_MODEL)]
    assert "atlas on tiny: value in %" in drawn(report_page(runs))
    assert "model: tiny, float32, weights abcdef012345 (memit); none (parrot)" in flat(footer(runs))
    assert "atlas on no model" in drawn(report_page(runs[1:]))


def test_a_run_that_is_not_judged_says_so():
    assert "judge: none yet" in drawn(footer([reported(tally=Tally())]))


def test_words_of_a_model_are_shown_and_not_obeyed():
    evil = Tally(failures=Counter({"[bold red]x[/] \x1b[2J \u202e": 1}))
    text = drawn(report_page([reported(score(0.1), tally=evil, editor="memit")]))
    assert "[bold red]x[/] \\x1b[2J \\u202e" in text


def test_a_page_of_ten_columns_and_five_runs_fits_100_columns():
    names = {f"aspect-{n}": f"a heading of words {n}" for n in range(7)}
    scores = [score(1.0, 3000, aspect) for aspect in names]
    runs = [evolve(reported(*scores, editor=editor), columns={"multi": names}) for editor in ("none", "memit", "mello")]
    text = drawn(report_page(runs))
    assert text.count("100.0\n") + text.count("100.0 ") >= 21
    assert text.count("90.0-100") == 21


def replied(case, *replies, phase="after", style="direct", batch="batch-1"):
    return Replied(batch=batch, case=case, phase=phase, style=style, replies=dict(enumerate_ids(replies)))


def enumerate_ids(replies):
    return ((f"q{n}", reply) for n, reply in enumerate(replies))


def test_a_tally_counts_what_is_on_record():
    answer = Answer(text="Rome", cost=Cost(calls=2, prompt_tokens=9, tokens=5))
    cut = evolve(answer, outcome="length")
    found = tally(
        [
            replied("1", answer, phase="before", batch="base"),
            replied("2", answer, phase="before", batch="base"),
            Batch(
                batch="batch-1",
                cases=("1",),
                edits=2,
                seconds=3.0,
                refused={"e": "no  subject"},
                details={"warning": "an update exceeds the weight"},
            ),
            replied("1", answer, cut, Failure(error="ServerGone", message="at\n10")),
            Batch(batch="batch-2", cases=(), edits=0, skipped={"2": "edit e refused"}),
            Judged(batch="batch-1", case="1", phase="after", style="direct", judge=JUDGE, judgments={}),
        ]
    )
    assert (found.cases, found.edits, found.edit_seconds) == (1, 2, [1.5])
    assert (found.done, found.total) == (2, 2)
    assert found.answers == 2
    assert found.failures == {"ServerGone: at 10": 1}
    assert found.unfinished == {"length": 1}
    assert (found.refused, found.skipped) == ({"no subject": 1}, {"edit e refused": 1})
    assert found.warned == {"an update exceeds the weight": 1}
    assert found.judge == JUDGE


def test_cost_per_question_is_a_mean_over_edited_answers_by_style():
    answer = Answer(text="Rome", cost=Cost(calls=2, prompt_tokens=9, tokens=5))
    endings = [evolve(answer, outcome=outcome) for outcome in ("unparsed", "hop-cap", "length")]
    none = Failure(error="NoLikelihood", message="")
    found = tally(
        [
            replied("1", answer, phase="before"),
            evolve(replied("1", *endings, Failure(error="ServerGone", message=""), none), seconds=10.0),
            evolve(replied("1", evolve(answer, cost=Cost(calls=1)), style="cot"), seconds=3.0),
            replied("1", none, style="scored"),
        ]
    )
    scores = list(effort_scores(found.efforts))
    assert {(one.aspect, one.style): (one.value, one.n) for one in scores} == {
        ("unparsed", "direct"): (0.25, 4), ("cut-off", "direct"): (0.5, 4), ("calls", "direct"): (2.0, 3),
        ("prompt-tokens", "direct"): (9.0, 3), ("tokens", "direct"): (5.0, 3), ("seconds", "direct"): (2.0, 3),
        ("unparsed", "cot"): (0.0, 1), ("cut-off", "cot"): (0.0, 1), ("calls", "cot"): (1.0, 1),
        ("prompt-tokens", "cot"): (0.0, 1), ("tokens", "cot"): (0.0, 1), ("seconds", "cot"): (3.0, 1),
    }  # fmt: skip
    assert {(one.metric, one.phase) for one in scores} == {("", "after")}


def test_cached_answers_have_no_time():
    answer = Answer(text="Rome", cost=Cost(calls=2))
    slow, fast = evolve(replied("1", answer), seconds=10.0), evolve(replied("2", answer), seconds=0.001, cached=True)
    by_aspect = {one.aspect: one for one in effort_scores(tally([slow, fast]).efforts)}
    assert (by_aspect["seconds"].value, by_aspect["seconds"].n) == (10.0, 1)
    assert (by_aspect["calls"].value, by_aspect["calls"].n) == (2.0, 2)
    assert "seconds" not in {one.aspect for one in effort_scores(tally([fast]).efforts)}


def with_tables(*scores, editor="mello", **efforts):
    """A run of a metric with a further table, and with what its answers took."""
    tables = {"multi": {"retrieval": {"found": "all retrieved", "hops": "hops answered"}}}
    efforts = {
        "direct": Effort(replies=1234, answers=1234, cost=Cost(calls=2468, prompt_tokens=2_000_000), seconds=5e3),
        **efforts,
    }
    run = reported(score(0.5, 1234), *scores, editor=editor)
    return evolve(run, tables=tables, scores=(*run.scores, *effort_scores(efforts)))


def test_further_tables_follow_the_main_one_within_100_columns():
    found = score(0.25, 1234, "found")
    runs = [with_tables(), *(with_tables(found, editor=name) for name in ("mello", "input-aug"))]
    main, retrieval, answers = (drawn(table) for table in score_tables(runs))
    assert main.startswith("atlas on tiny: value in %, 95% interval")
    assert main.count("50.0") == 3
    assert "found" not in main
    assert retrieval.startswith("retrieval: atlas on tiny: value in %, 95% interval")
    assert retrieval.count("25.0") == 2, "a method that retrieves nothing has no row"
    assert "hops" not in retrieval, "what was not measured has no column"
    assert answers.startswith("answers: atlas on tiny: mean per question after editing")
    for words in ("unparsed cut off model tokens tokens time", "2.000 1,621 0.000 4.052"):
        assert all(word in answers for word in words.split())
    assert "[s]" in answers
    assert answers.count("[%]") == 2


def test_breakdowns_go_by_table_and_by_tag():
    tags = {"hops": "2"}
    run = with_tables(score(0.5, 7, tags=tags), score(0.25, 3, "found", tags=tags), score(0.25, aspect="found"))
    main, retrieval = (drawn(table) for table in slice_tables([run]))
    assert main.startswith("by hops, after editing: value in % (n)")
    assert "50.0 (7)" in main
    assert retrieval.startswith("retrieval by hops, after editing: value in % (n)")
    assert "25.0 (3)" in retrieval
    assert "50.0" not in retrieval


def test_each_metric_has_its_own_breakdown_table():
    tags = {"hops": "2"}
    run = with_tables(score(0.5, 7, tags=tags))
    wide = {name: f"a long heading {name}" for name in "abcdefgh"}
    others = tuple(evolve(score(0.25, 3, name, tags=tags), metric="other") for name in wide)
    both = evolve(run, columns={**run.columns, "other": wide}, scores=(*run.scores, *others))
    first, second = (drawn(table) for table in slice_tables([both, with_tables(editor="none")]))
    assert first.startswith("multi by hops, after editing")
    assert second.startswith("other by hops, after editing")
    assert second.count("mello") == 1
    assert "none" not in second, "a run that has nothing there has no row"
    assert max(map(len, second.splitlines())) <= 100


def test_number_of_cases_is_unknown_without_an_unedited_model():
    found = tally([Batch(batch="batch-1", cases=("1",), edits=1), replied("1", Answer(text="x"))])
    assert (found.done, found.total) == (1, 0)


def test_before_the_first_edit_the_number_of_cases_is_not_known():
    found = tally([replied("1", Answer(text="x"), phase="before", batch="base")])
    assert (found.done, found.total) == (0, 0)


def test_numbers_are_written_for_people():
    assert [format_score(score(value)) for value in (0.0, -0.0001, 0.4567, 1.0)] == ["0.0", "0.0", "45.7", "100.0"]
    assert format_score(None) == format_score(score(None, 0)) == "-"
    assert [format_score(score(value, measure="s")) for value in (0.0, 1.0, 12.3456, 1234.5)] == [
        "0.000", "1.000", "12.35", "1,234",
    ]  # fmt: skip
    assert [format_interval(score(value)) for value in (0.5, 0.05, 0.95)] == ["40.0-60.0", "0-15.0", "85.0-100"]
    assert format_interval(score(0.5, interval=None)) == format_interval(None) == ""
    assert format_interval(score(-0.03, interval=Interval(low=-0.05, high=-0.01))) == "-5.0 to -1.0"
    assert format_interval(score(1.4e-5, measure="nats", interval=Interval(low=1e-5, high=2.0))) == "1.000e-05 to 2.000"
    assert [duration(s) for s in (0.034, 4.06, 99.9, 200, 7500)] == [
        "0.03 s",
        "4.1 s",
        "99.9 s",
        "3 min 20 s",
        "2 h 5 min",
    ]
    assert [count_noun(n, "case") for n in (0, 1, 3000)] == ["0 cases", "1 case", "3,000 cases"]
    assert count_noun(2, "failed reply", "failed replies") == "2 failed replies"


def test_text_is_cleaned_of_what_a_terminal_would_obey():
    assert sanitize("a\tb\nc") == "a\tb\nc"
    assert sanitize("\x1b]0;t\x07 \u2066x \ud800 é 中") == "\\x1b]0;t\\x07 \\u2066x \\ud800 é 中"
    assert literal("[link=http://x]y[/link]").plain == "[link=http://x]y[/link]"
    assert one_line("a\n b " + "c" * 100, 10) == "a b ccc..."


def test_usage_counts_answers_without_token_counts_and_requests_without_a_price():
    priced = Usage(requests=2, prompt_tokens=1_000_000, tokens=500_000, price_in=2.0, price_out=10.0)
    free = Usage(requests=3, retries=1, prompt_tokens=7, tokens=1, unmetered=1)
    assert spent_words([priced]) == ("2 requests, 1,000,000 prompt tokens and 500,000 generated, which cost 7.0000")
    assert spent_words([priced, free]) == (
        "5 requests, 1 retried, 1,000,007 prompt tokens and 500,001 generated (plus 1 answer without a token "
        "count), which cost 7.0000 (plus 3 requests without a price)"
    )
    assert "cost" not in spent_words([free])
