"""``ke compare``: two or more runs, and runs that cannot be compared."""

import json
import re
from weakref import finalize

import pytest

RUN = ("eval", "--dataset", "toy", "--model", "echo:1")


@pytest.fixture
def two(ke):
    """Run ``a`` always answers Rome, which is right for the edit of case 1; ``b`` always Italy (multi-hop question)."""
    for name, word in (("a", "Rome"), ("b", "Italy")):
        assert ke(*RUN, "--editor", "sayer", "-o", f"sayer.word={word}", "--out", name)[0] == 0


def found(ke, *arguments):
    status, out, err = ke("compare", *arguments, "--json")
    assert (status, err) == (0, "")
    return json.loads(out)


@pytest.mark.usefixtures("two")
def test_two_runs_are_paired_query_by_query(ke):
    (other,) = found(ke, "a", "b")["against_first"]
    rows = {
        (row["metric"], row["aspect"], *row["styles"]): row for row in other["differences"] if row["phase"] == "after"
    }
    # of two cases, Rome is right once to where the first thing stands; Italy once in which country that is
    assert {key: (row["first"], row["second"], row["n"], row["lost"], row["gained"]) for key, row in rows.items()} == {
        ("accuracy", "efficacy", "direct", "direct"): (0.5, 0.0, 2, 1, 0),
        ("accuracy", "other", "direct", "direct"): (0.0, 0.5, 6, 0, 3),
        ("accuracy", "other", "cot", "cot"): (0.0, 0.5, 4, 0, 2),
        ("verdicts", "efficacy", "direct", "direct"): (0.5, 0.0, 2, 1, 0),
        ("verdicts", "instance", "direct", "direct"): (0.25, 0.25, 4, 1, 1),
        ("verdicts", "multi-hop", "direct", "direct"): (0.0, 0.5, 4, 0, 2),
        ("verdicts", "multi-hop", "cot", "cot"): (0.0, 0.5, 4, 0, 2),
    }
    assert rows["verdicts", "multi-hop", "cot", "cot"]["p"] == 0.5


@pytest.mark.usefixtures("two")
def test_changed_answers_are_listed_with_both_texts(ke):
    (other,) = found(ke, "a", "b")["against_first"]
    lost = [one for one in other["changed"] if one["verdicts"][0] == "right"]
    assert [(one["case"], one["query"], one["answers"]) for one in lost] == [("1", "hop-1", ["Rome", "Italy"])]
    out = " ".join(ke("compare", "a", "b", "--cases")[1].split())
    assert "B against A: 1 answer in 1 case right only in A; 5 answers in 1 case right only in B" in out
    assert "case 1, hop-1 (after, direct): right -> wrong: 'Rome' -> 'Italy'" in out
    assert "--cases lists them" in ke("compare", "a", "b")[1]


@pytest.mark.usefixtures("two")
def test_a_comparison_has_a_legend_and_notes(ke):
    status, out, _err = ke("compare", "a", "b")
    assert status == 0
    assert "A  sayer on 1" in out
    assert "2 cases of toy in all runs" in out
    assert "edits made" in out  # the metric's own heading
    assert "-50.0" in out
    assert "Holm" not in out


@pytest.mark.usefixtures("two")
def test_p_values_of_three_runs_are_corrected(ke):
    ke(*RUN, "--editor", "other", "-o", "other.word=Italy", "--out", "c")
    raw = found(ke, "a", "b", "c")
    rows = [
        next(
            row
            for row in one["differences"]
            if (row["metric"], row["aspect"], row["phase"], row["styles"][0])
            == ("verdicts", "multi-hop", "after", "cot")
        )
        for one in raw["against_first"]
    ]
    assert [(row["p"], row["adjusted"]) for row in rows] == [(0.5, 1.0), (0.5, 1.0)]
    assert "corrected for 2 comparisons with A (Holm)" in ke("compare", "a", "b", "c")[1]


def test_a_metric_with_conditions_is_shown_over_the_queries_that_all_runs_have(ke, two, plugins):
    """Of four queries a case, b's metric takes none for the edit's own: 2 x 3 are in both, of which Italy is three."""
    from ke_core.plugin import QUERY_TAG, MetricSpec, Value, hookimpl
    from ke_testing.toy import ToyConfig

    class Picky:
        def values(self, record):
            for (phase, style, query), outcome in record.outcomes.items():
                odd = query == "hop-1" and outcome.reply.text == "Italy"
                yield Value(
                    aspect="each",
                    value=None if odd else float(outcome.judgment.verdict.value == "right"),
                    phase=phase,
                    style=style,
                    tags={QUERY_TAG: query},
                    skipped_because="not executed" if odd else "",
                )

    class More:
        @hookimpl
        def ke_metrics(self):
            return [
                MetricSpec(
                    name="picky", summary="s", config=ToyConfig, build=lambda config: Picky(),
                    columns={"mean": "mean of cases"}, shared={"each": "mean"},
                )
            ]  # fmt: skip

    plugins.register(More(), "more")
    direct, _cot = found(ke, "a", "b", "--metric", "picky")["on_queries_of_all"]
    assert (direct["metric"], direct["styles"], direct["queries"], direct["own"]) == (
        "picky", ["direct", "direct"], {"mean": 6}, [8, 6],
    )  # fmt: skip
    assert [[(one["value"], one["n"]) for one in scores] for scores in direct["scores"]] == [[(0.0, 2)], [(0.5, 2)]]
    out = ke("compare", "a", "b", "--metric", "picky")[1]
    assert "picky on the 6 queries that all runs share: value in %, 95% interval" in out
    assert "queries with a value in every run: mean of cases 6; in each run: A 8, B 6" in out
    assert not found(ke, "a", "b")["on_queries_of_all"]
    assert ke(*RUN, "--editor", "sayer", "--sequential", "--out", "c")[0] == 0
    (row,) = re.findall(r"\n *B +direct .*\n(.*)", ke("compare", "a", "c", "--metric", "picky")[1])
    assert row.strip() == "one batch"


def test_different_cases_are_an_error_without_shared(ke, two):
    ke(*RUN, "--editor", "sayer", "--limit", "1", "--out", "one")
    status, _out, err = ke("compare", "a", "one")
    assert status == 2
    assert "a and one have different cases: 2 cases and 1 case, of which 1 is in both; case '" in err
    assert "' is only in a\n" in err
    assert "ke compare --shared, on the command line, compares the common cases" in err
    assert found(ke, "a", "one", "--shared")["cases"] == 1


def test_different_datasets_are_an_error(ke, two, plugins):
    from attrs import evolve

    from ke_core.plugin import hookimpl
    from ke_testing.toy import toy_spec

    class More:
        @hookimpl
        def ke_datasets(self):
            return [evolve(toy_spec(metrics=("accuracy",), judge="exact"), name="toy-two")]

    plugins.register(More(), "more")
    ke("eval", "--dataset", "toy-two", "--model", "echo:1", "--editor", "sayer", "--out", "other")
    status, _out, err = ke("compare", "a", "other")
    assert (status, "a and other have different datasets: toy and toy-two" in err) == (2, True)
    assert err.count("\n") == 2


def test_different_judges_are_an_error(ke, two, tmp_path):
    file = tmp_path / "b" / "records.jsonl"
    file.write_text(file.read_text().replace('"version":""', '"version":"2"'))
    status, _out, err = ke("compare", "a", "b")
    assert status == 2
    assert "a and b were judged differently" in err
    assert "ke judge b" in err


def test_an_unfinished_run_is_compared_on_the_common_cases_with_a_note(ke, two, tmp_path):
    """Remove the records of the second case's batch and everything after it."""
    file = tmp_path / "b" / "records.jsonl"
    lines = file.read_text().splitlines(keepends=True)
    kept = [line for line in lines if '"batch":"batch-2"' not in line]
    assert len(kept) < len(lines)
    file.write_text("".join(kept))
    status, out, _err = ke("compare", "a", "b")
    assert status == 0
    assert "B is not finished: 1 of 2 cases have no answers yet; the common cases are compared" in out
    (other,) = found(ke, "a", "b")["against_first"]
    assert {row["n"] for row in other["differences"] if row["aspect"] == "efficacy"} == {1}


def test_a_folder_of_runs_is_compared_like_its_runs(ke, two, tmp_path):
    def rows(*paths):
        return [one["differences"] for one in found(ke, *paths)["against_first"]]

    assert rows(".") == rows("a", "b")
    assert rows("b", ".") == rows("b", "a")
    (tmp_path / "a" / "scores.json").unlink()
    status, _out, err = ke("compare", ".")
    assert status == 2
    assert "skipped: a has not been scored" in err
    assert "ke compare needs two or more runs: . has 1" in err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("a",), "ke compare needs two or more runs\n"),
        (("a", "a"), "needs two or more runs"),
        (("a", "nowhere"), "does not exist"),
    ],
)
def test_invalid_run_arguments_are_one_line_errors(ke, two, arguments, says):
    status, _out, err = ke("compare", *arguments)
    assert (status, says in err) == (2, True)


def test_a_case_that_only_one_run_edited_is_not_paired(ke, plugins):
    from attrs import evolve

    from ke_core.plugin import hookimpl
    from ke_testing.toy import Toy, toy_spec

    class Many(Toy):
        def cases(self):
            return [evolve(case, id=f"{case.id}-{copy}") for copy in range(3) for case in super(Many, self).cases()]

    class More:
        @hookimpl
        def ke_datasets(self):
            spec = toy_spec(metrics=("accuracy",), judge="exact")
            return [evolve(spec, name="many", build=lambda config: Many(config=config))]

    plugins.register(More(), "more")
    many = ("eval", "--dataset", "many", "--model", "echo:1", "--editor", "sayer", "--protocol", "sample")
    for name, edited, word in (("a", "2", "Rome"), ("b", "4", "Italy")):
        assert ke(*many, "--num-edited", edited, "-o", f"sayer.word={word}", "--out", name)[0] == 0
    (other,) = found(ke, "a", "b")["against_first"]
    alike = 6 - other["unpaired_cases"]
    assert 0 < alike < 6
    assert {row["n"] for row in other["differences"] if row["aspect"] == "efficacy"} == {alike}
    out = ke("compare", "a", "b")[1]
    assert f"B against A: {6 - alike} cases left out: edited in one run, control in the other" in out


def records(texts, alive, controls=()):
    """Yield a record for each case with the text that answers its first query; gold is ``x``.

    ``alive``: the cases whose records are in memory. ``controls``: the cases that are not edited.
    """
    from attrs import evolve

    from ke_core.plugin import Answer, CaseRecord, Judgment, Outcome, Verdict
    from ke_testing.toy import Toy

    case = next(Toy().cases())
    query = next(query for probe in case.probes if probe.asked("after") for query in probe.queries)
    for name, text in texts.items():
        verdict = Verdict.RIGHT if text == "x" else Verdict.WRONG
        outcome = Outcome(reply=Answer(text=text, raw=text), judgment=Judgment(verdict=verdict))
        made = CaseRecord(
            case=evolve(case, id=name), batch=name, edited=name not in controls,
            outcomes={("after", "direct", query.id): outcome},
        )  # fmt: skip
        alive.add(name)
        finalize(made, alive.discard, name)
        assert len(alive) <= 2  # one is compared, and one is read ahead
        yield made
        del made


def test_records_are_compared_one_case_at_a_time():
    from ke_plugin_analysis.comparing import compare_records
    from ke_plugin_analysis.observations import VERDICTS_SPEC, Verdicts

    order = {str(number): number for number in range(200)}
    first = {name: "x" if place % 2 else "y" for name, place in order.items()}
    second = {name: "x" if place % 4 else "y" for name, place in order.items() if place != 3}  # case 3 has no record
    runs = [records(texts, set()) for texts in (first, second)]
    made = compare_records(runs, [(Verdicts(), VERDICTS_SPEC)], order, seed=0)
    ((row, *_others),) = made.differences
    assert (row.n, row.unpaired, row.lost, row.gained) == (199, 1, 0, 50)
    (changed,) = made.changed
    assert (changed.lost, changed.gained, changed.listed) == ((0, 0), (50, 50), [])


def test_changed_answers_are_of_cases_that_both_or_neither_run_edited():
    from ke_plugin_analysis.comparing import compare_records
    from ke_plugin_analysis.observations import VERDICTS_SPEC, Verdicts

    order = {name: place for place, name in enumerate("abcd")}
    runs = [records(dict.fromkeys(order, text), set(), edited) for text, edited in (("x", "ab"), ("y", "bc"))]
    made = compare_records(runs, [(Verdicts(), VERDICTS_SPEC)], order, seed=0)
    ((row, *_others),) = made.differences
    assert (row.n, row.unpaired, row.lost, made.unpaired) == (2, 4, 2, (2,))
    assert made.changed[0].lost == (2, 2)
