"""The short report: one table, one sentence and a line for each warning, in 80 columns."""

import io
from collections import Counter

from attrs import evolve
from core.tests.report.test_report import JUDGE, reported, score
from rich.console import Console

from ke_core.engine.models import NO_MODEL
from ke_core.results.footer import alike
from ke_core.results.short import short_page, summary, warnings
from ke_core.results.tally import Tally
from ke_core.spec.observed import JUDGE_UNSURE
from ke_core.spec.results import Interval
from ke_core.spec.runspec import Component, ModelRef

COUNTS = {("multi", "efficacy"): "edits succeeded", ("multi", "multi-hop"): "questions answered"}


def run(efficacy, hops, editor="memit", **changes):
    found = reported(score(efficacy, 6, "efficacy", binary=True), score(hops, 6, binary=True), editor=editor, **changes)
    return evolve(found, counts=COUNTS)


def page(runs):
    console = Console(file=io.StringIO(), width=80, color_system=None)
    console.print(short_page(runs))
    return console.file.getvalue()


def test_a_row_has_the_value_and_the_interval_in_whole_percent():
    lines = page([run(5 / 6, 1 / 6)]).splitlines()
    assert lines[1].split() == ["edit-wise", "multi-hop"]
    assert lines[2].split() == ["editor", "prompt", "n", "6", "n", "6"]
    assert lines[4].split() == ["memit", "direct", "83", "(73-93)", "17", "(7-27)"]


def test_an_interval_with_a_negative_end_has_no_dash():
    low = score(-0.03, 10, interval=Interval(low=-0.05, high=-0.01))
    assert "-3 (-5 to -1)" in page([reported(low)])


def test_large_samples_have_a_decimal():
    assert "41.2 (31.2-51.2)" in page([reported(score(0.412, 3000))])


def test_columns_that_do_not_fit_are_omitted_and_no_word_is_broken():
    names = {name: f"long-heading-{name} of many words" for name in "abcdefgh"}
    wide = evolve(reported(*(score(0.5, 10, name) for name in names)), columns={"multi": names}, counts={})
    text = page([wide])
    assert max(map(len, text.splitlines())) <= 80
    assert "long-heading-a" in text
    table, _, others = text.partition("not shown here: ")
    assert "long-heading-h" not in table
    assert "long-heading-h of many words" in others.replace("\n", " ")


def test_abbreviated_headings_are_explained():
    own = {"logical-generalization": "LG", "edits": "edits"}
    some = evolve(reported(*(score(0.5, 10, name) for name in own)), columns={"multi": own}, counts={})
    assert page([some]).splitlines()[5] == "LG: logical generalization"


def test_other_metrics_are_named():
    own = evolve(score(0.5, 10, "perplexity"), metric="drift")
    both = evolve(
        reported(score(0.5, 10), own), columns={"multi": {"multi-hop": "multi-hop"}, "drift": {"perplexity": "p"}}
    )
    found = page([both])
    assert "other metrics, with --full: drift" in found


def test_many_rows_become_one_for_each_run():
    runs = [reported(score(0.5, 6), score(0.1, 6, style="cot"), editor=f"editor{number}") for number in range(6)]
    text = page(runs)
    assert [line.split()[0] for line in text.splitlines() if "direct" in line] == [f"editor{n}" for n in range(6)]
    assert not [line for line in text.splitlines() if line.strip().startswith("cot")]
    assert "not shown here: prompt cot" in text
    assert "and 3 more." in " ".join(text.split())


def test_summary_counts_successes_and_compares_with_the_baselines():
    runs = [
        run(5 / 6, 1 / 6), run(0.5, 0.0, "mello"), run(1.0, 2 / 6, "parrot", model=NO_MODEL),
        run(1.0, 1.0, "oracle", model=NO_MODEL, oracle=("answers",)),
    ]  # fmt: skip
    assert summary(runs) == (
        "memit: 5 of 6 edits succeeded, 1 of 6 questions answered; mello: 3 of 6, 0 of 6; "
        "parrot, a baseline without a model: 6 of 6, 2 of 6; oracle, the upper bound: 6 of 6, 6 of 6."
    )


def test_summary_names_a_second_prompt_and_shows_means_as_values():
    both = reported(score(0.5, 6), score(1 / 6, 6, style="cot"), score(0.415, 7, "efficacy"))
    assert summary([both]) == ("memit: 41.5% (n 7) edit-wise, 50.0% (n 6) multi-hop (cot: 16.7% (n 6)).")
    assert summary([reported()]) == ""


def test_summary_does_not_count_observations_between_0_and_1():
    half = evolve(run(0.5, 1 / 6), scores=(score(0.5, 6, "efficacy"), score(1 / 6, 6, binary=True)))
    assert summary([half]) == "memit: 50.0% (n 6) edits succeeded, 1 of 6 questions answered."


def test_runs_with_different_judges_have_a_warning():
    """Different options count as different judges, other code of the same judge does not."""
    lenient = Tally(judge=evolve(JUDGE, options={"match": "contains", "fold": False}))
    newer = Tally(judge=evolve(JUDGE, version="0.2.0", code="1"))
    runs = [run(1.0, 0.0), run(1.0, 0.0, "mello", tally=newer), run(1.0, 0.0, "ice", tally=lenient)]
    words = "runs on atlas were judged differently: memit, mello against ice; see ke judge"
    assert list(warnings(runs)) == [f"warning: {words}"]
    assert list(warnings(runs[:2])) == []


def test_runs_judged_by_different_models_have_a_warning():
    small, large = (Tally(judge=evolve(JUDGE, model=ModelRef(source="hub", id=name))) for name in ("1b", "70b"))
    words, *_agreement = warnings([run(1.0, 0.0, tally=small), run(1.0, 0.0, "mello", tally=large)])
    assert words == "warning: runs on atlas were judged differently: memit against mello; see ke judge"


def test_runs_with_different_options_of_a_metric_have_a_warning():
    sets = Component(name="sets", distribution="d", version="1", options={"empty": "skip"})
    other = evolve(sets, options={"empty": "zero"})
    runs = [evolve(run(1.0, 0.0, name), metrics=(made,)) for name, made in (("memit", sets), ("ice", other))]
    assert list(warnings(runs)) == ["warning: the options of sets on atlas differ: memit against ice; see ke score"]


def test_run_with_answers_to_each_case_may_be_unfinished():
    """A sequential run that was stopped before its last step, or a run without an unedited model."""
    (words,) = warnings([evolve(run(1.0, 0.0, tally=Tally(done=5, total=5)), complete=False)])
    assert words == "warning: memit: not finished: some of its planned requests have no answer yet"


def test_reasons_that_differ_in_numbers_are_merged():
    assert alike({"x 1 to 3": 5, "x 1": 2, "x 3": 3}) == {"x 1 to 3": 10}


def test_metric_whose_values_are_all_missing_has_a_warning_with_the_reason():
    """``drift`` yields no values, not even missing ones: it does not apply."""
    multi = Component(name="multi", distribution="d", version="1")
    drift = evolve(multi, name="drift")
    why = {"the edit has no old fact": 2, "no score": 1}
    empty = evolve(reported(score(None, 0, skipped=3, skipped_because=why)), metrics=(multi, drift))
    other = evolve(reported(score(0.5), editor="ice"), metrics=(multi, drift))
    assert list(warnings([empty, other])) == [
        "warning: multi has no values (memit): most often: the edit has no old fact"
    ]
    stopped = evolve(empty, complete=False)
    assert list(warnings([stopped])) == [
        "warning: memit: not finished: some of its planned requests have no answer yet"
    ]


def test_each_kind_of_loss_is_one_line():
    lost = Tally(done=2, total=5, failures=Counter({"ServerGone: a": 3, "b": 1}), skipped=Counter({"x": 2}))
    unsure = score(0.5, 6, skipped_because={JUDGE_UNSURE: 2})
    assert list(warnings([reported(unsure, tally=lost), reported(score(0.1), editor="mello", tally=lost)])) == [
        "warning: memit: not finished: 3 of 5 cases have no answers of the edited model yet",
        "warning: mello: not finished: 3 of 5 cases have no answers of the edited model yet",
        "warning: 8 failed replies, counted as wrong (memit 4, mello 4): most often: ServerGone: a",
        "warning: 4 cases skipped (memit 2, mello 2): x",
        "warning: 2 values missing (memit 2): the judge is unsure",
    ]
