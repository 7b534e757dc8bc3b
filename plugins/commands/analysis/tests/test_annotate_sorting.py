"""``ke annotate`` with metrics that label answers: agreement with manual labels."""

import csv

import pytest
from attrs import field, frozen

from ke_core.plugin import MetricSpec, Value, Verdict, hookimpl

LABELS = ("old", "mute", "noise")
RIGHT = "not an error: the answer is right"


@frozen(kw_only=True)
class Options:
    word: str = field(default="Rome", metadata={"help": "what is called old"})


class Kinds:
    """Labels wrong answers of the edited model: ``old`` for one word, otherwise ``noise``."""

    def __init__(self, config):
        self.word = config.word

    def values(self, record):
        for (phase, style, query), outcome in record.outcomes.items():
            if phase == "before":
                continue
            right = outcome.judgment.verdict is Verdict.RIGHT
            kind = "old" if outcome.reply.text == self.word else "noise"
            for label in LABELS:
                yield Value(
                    aspect=label,
                    value=None if right else float(label == kind),
                    style=style,
                    unit=record.case.id,
                    tags={"query": query},
                    skipped_because=RIGHT if right else "",
                )


class Sorts:
    @hookimpl
    def ke_metrics(self):
        return [MetricSpec(name="kinds", summary="sorts", config=Options, build=Kinds, labels=LABELS)]


@pytest.fixture
def sheet(ke, plugins, evaluated, tmp_path):
    """Rows for all answers of a run that always answers Rome."""
    plugins.register(Sorts(), "sorts")
    assert ke("annotate", "done", "--out", "sheet.csv")[0] == 0
    with (tmp_path / "sheet.csv").open(encoding="utf-8-sig", newline="") as stream:
        return list(csv.DictReader(stream))


@pytest.fixture
def read(ke, tmp_path):
    def read_back(rows, *more):
        with (tmp_path / "back.csv").open("w", encoding="utf-8", newline="") as stream:
            writer = csv.DictWriter(stream, rows[0])
            writer.writeheader()
            writer.writerows(rows)
        status, out, err = ke("annotate", "done", "--read", "back.csv", *more)
        return status, " ".join(out.split()), err

    return read_back


def labeled(rows, kinds):
    """Label all rows like the judge, and the wrong answers after editing with ``kinds`` in turn."""
    kinds = iter(kinds)
    for row in rows:
        right = row["answer"] in row["gold answer"].split(" / ")
        kind = "" if right or "before editing" in row["source"] else next(kinds, "")
        yield {**row, "label": "right" if right else "wrong", "kinds": kind}


def test_the_sheet_has_an_empty_column_for_each_labeling_metric(sheet):
    assert list(sheet[0])[:3] == ["item", "label", "kinds"]
    assert {row["kinds"] for row in sheet} == {""}


def test_fractions_and_agreement_with_the_metric_are_reported(sheet, read):
    """Of 10 sorted answers 7 are labeled old; the metric calls all 10 old: agreed .7, chance .7, kappa 0."""
    status, out, err = read(list(labeled(sheet, ["old"] * 7 + [" Mute", "noise", "NOISE "])))
    assert (status, err) == (0, "")
    assert "kinds (word=Rome): 10 answers labeled manually" in out
    for row in ("old 70.0", "mute 10.0", "noise 20.0"):
        assert row in out
    assert "kinds: kappa 0.00" in out
    assert "(n 10), 7 of 10 equal" in out
    assert "has no label for" not in out


def test_kappa_with_the_metric_resamples_cases(sheet, read, ke):
    """With another word, all labels are ``noise``, so kappa is undefined."""
    rows = list(labeled(sheet, ["noise"] * 10))
    assert (
        "kinds: kappa undefined, every label is the same (n 10), 10 of 10 equal" in read(rows, "-o", "kinds.word=x")[1]
    )
    assert "noise 100.0 15.8-100.0 10" in read(rows)[1]  # ten answers of two cases: 0.025 ** (1 / 2)


def test_unlabeled_answers_are_reported_with_the_reason(sheet, read):
    rows = list(labeled(sheet, ["old"]))
    right = next(row for row in rows if row["label"] == "right" and "after editing" in row["source"])
    before = next(row for row in rows if "before editing" in row["source"])
    right["kinds"] = before["kinds"] = "noise"
    status, out, _err = read(rows)
    assert status == 0
    assert "3 answers labeled manually" in out
    assert f"kinds has no label for 1 of them: {RIGHT}" in out
    assert "kinds has no label for 1 of them: the metric does not label such answers" in out


def test_a_sheet_without_error_types_gives_no_metric_comparison(sheet, read):
    rows = list(labeled(sheet, []))
    assert "labeled manually" not in read(rows)[1]
    for row in rows:
        del row["kinds"]
    assert (read(rows)[0], "labeled manually" in read(rows)[1]) == (0, False)


def test_errors_in_metric_columns_name_the_row(sheet, read, ke):
    rows = list(labeled(sheet, []))
    wrong = [{**rows[0], "kinds": "oldest"}, *rows[1:]]
    assert "back.csv, row 2: kinds 'oldest' is unknown: use one of old, mute, noise" in read(wrong)[2]
    alone = [{**rows[0], "kinds": "old", "label": ""}, *rows[1:]]
    assert "back.csv, row 2: kinds is 'old', but the label is empty" in read(alone)[2]
    assert "-o needs --read" in ke("annotate", "done", "--out", "x.csv", "-o", "kinds.word=x")[2]
    assert read(rows, "-o", "kinds.wrod=x")[0] == read(rows, "-o", "sayer.word=x")[0] == 2
