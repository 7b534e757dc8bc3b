"""``ke annotate``: write a sheet for manual labels, and read it."""

import csv
import json

import pytest

from ke_plugin_analysis.kappa import measure_agreement


@pytest.fixture
def sheet(ke, evaluated, tmp_path):
    """The rows of a sheet for a run that always answers Rome, and a function that writes them back."""
    assert ke("annotate", "done", "--out", "sheet.csv")[0] == 0
    with (tmp_path / "sheet.csv").open(encoding="utf-8-sig", newline="") as stream:
        return list(csv.DictReader(stream))


def write(path, rows, delimiter=","):
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, rows[0], delimiter=delimiter)
        writer.writeheader()
        writer.writerows(rows)


def by_label(row):
    return "right" if row["answer"] in row["gold answer"].split(" / ") else "wrong"


def test_a_sheet_contains_no_verdicts(sheet):
    own = next(row for row in sheet if row["source"] == "case 1, hop-1, after editing, direct")
    assert (own["answer"], own["gold answer"], own["pre-edit answer"]) == ("Rome", "Rome / Roma", "Paris")
    assert {row["label"] for row in sheet} == {""}
    assert "verdict" not in own
    assert all(row["item"][0] == "q" for row in sheet)
    before = next(row for row in sheet if row["source"] == "case 1, multi-hop-1, before editing, direct")
    assert (before["gold answer"], before["pre-edit answer"]) == ("France", "Italy")  # right at that moment


def test_reading_labels_gives_kappa_and_a_confusion_table(ke, sheet, tmp_path):
    rows = [{**row, "label": by_label(row).upper()} for row in sheet]
    wrong = next(row for row in rows if row["label"] == "RIGHT")
    wrong["label"] = " pre-edit "
    rows[-1]["label"] = "" if rows[-1] is not wrong else rows[-1]["label"]
    write(tmp_path / "back.csv", rows, ";")
    status, out, _err = ke("annotate", "done", "--read", "back.csv")
    assert status == 0
    assert "1 row without a label" in out
    assert "different manual label: 1 answer" in out
    assert "manual pre-edit, exact right: 'Rome', right is Rome / Roma" in " ".join(out.split())
    assert "kappa" in out


def test_kappa_by_hand():
    """20 yes-yes, 5 yes-no, 10 no-yes, 15 no-no: (0.7 - 0.5) / (1 - 0.5)."""
    pairs = [("y", "y")] * 20 + [("y", "n")] * 5 + [("n", "y")] * 10 + [("n", "n")] * 15
    first, second = zip(*pairs, strict=True)
    alone = measure_agreement(first, second, seed=0)
    assert alone.kappa == pytest.approx(0.4)
    together = measure_agreement(first, second, seed=0, units=[str(n // 10) for n in range(50)])
    assert together.kappa == alone.kappa
    assert together.interval.high - together.interval.low > alone.interval.high - alone.interval.low
    assert measure_agreement(first, second, seed=0, units=["one"] * 50).interval is None


def test_the_sample_is_stratified_and_depends_on_the_seed(ke, sheet, tmp_path):
    assert len(sheet) > 10

    def drawn(name, *more):
        assert ke("annotate", "done", "--out", name, "--sample", "10", *more)[0] == 0
        with (tmp_path / name).open(encoding="utf-8-sig", newline="") as stream:
            return [row["item"] for row in csv.DictReader(stream)]

    first = drawn("1.csv")
    assert len(set(first)) == 10
    assert first == drawn("2.csv")
    assert first != drawn("3.csv", "--seed", "1")
    asked = {row["item"]: row["source"].split(", ")[2:] for row in sheet}
    for kind in (["after editing", "direct"], ["before editing", "cot"]):
        share = sum(asked[item] == kind for item in asked) / len(asked)
        assert sum(asked[item] == kind for item in first) == pytest.approx(10 * share, abs=1.5)


def test_formulas_in_answers_are_written_as_text(ke, tmp_path):
    ke("eval", "--dataset", "toy", "--model", "echo:1", "--editor", "sayer", "-o", "sayer.word==1+1", "--out", "evil")
    ke("annotate", "evil", "--out", "evil.csv")
    with (tmp_path / "evil.csv").open(encoding="utf-8-sig", newline="") as stream:
        rows = list(csv.reader(stream))
    assert any("'=1+1" in row for row in rows)
    assert not any(cell.startswith(("=", "+", "-", "@")) for row in rows for cell in row)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"label": "rihgt"}, "back.csv, row 2: label 'rihgt' is unknown: use one of right, wrong, pre-edit, unsure"),
        ({"item": "q0"}, "back.csv, row 2: item 'q0' is not an answer of done"),
    ],
)
def test_errors_in_a_sheet_name_the_row(ke, sheet, tmp_path, change, says):
    write(tmp_path / "back.csv", [sheet[0] | change, *sheet[1:]])
    status, _out, err = ke("annotate", "done", "--read", "back.csv")
    assert (status, says in err) == (2, True)


def test_duplicate_rows_are_an_error(ke, sheet, tmp_path):
    write(tmp_path / "back.csv", [sheet[0], sheet[0]])
    assert "is already in row 2" in ke("annotate", "done", "--read", "back.csv")[2]


def test_a_sheet_without_labels_is_an_error_with_a_hint(ke, sheet):
    status, _out, err = ke("annotate", "done", "--read", "sheet.csv")
    assert (status, "sheet.csv has no labels yet" in err) == (2, True)


def test_a_sheet_is_refused_if_the_records_have_changed(ke, sheet, evaluated):
    file = evaluated / "records.jsonl"
    lines = file.read_text().splitlines(keepends=True)
    at = next(n for n, line in enumerate(lines) if json.loads(line)["kind"] == "replied" and '"Rome"' in line)
    lines[at] = lines[at].replace('"Rome"', '"Bonn"')
    file.write_text("".join(lines))
    assert "is not an answer of done" in ke("annotate", "done", "--read", "sheet.csv")[2]


def test_an_existing_sheet_is_not_overwritten(ke, sheet):
    status, _out, err = ke("annotate", "done", "--out", "sheet.csv")
    assert (status, "add --force to replace it" in err) == (2, True)
    assert ke("annotate", "done", "--out", "sheet.csv", "--force")[0] == 0
    assert ke("annotate", "done")[0] == ke("annotate", "done", "--read", "x", "--out", "y")[0] == 2


def test_a_sample_of_many_answers_is_that_of_the_whole_list():
    """80% of the answers are wrong, 20% right: of 20, 16 and 4, each the first ones by the hash of seed and item."""
    import hashlib

    from ke_core.plugin import Answer, Verdict
    from ke_plugin_analysis.annotating import LabeledAnswer, stratified

    every = [
        LabeledAnswer(
            id=f"q{number}", case=str(number), query="q", phase="after", style="direct", aspect="a", question="?",
            gold="x", pre_edit="", answer=Answer(text="y", raw="y"),
            verdict=Verdict.WRONG if number % 5 else Verdict.RIGHT,
        )
        for number in range(500)
    ]  # fmt: skip
    order = sorted(every, key=lambda item: hashlib.sha256(f"7/label/{item.id}".encode()).digest())
    wrong, right = ([item for item in order if item.verdict is verdict] for verdict in (Verdict.WRONG, Verdict.RIGHT))
    drawn = {item.id for item in (*wrong[:16], *right[:4])}
    assert [item.id for item in stratified(iter(every), 20, 7)] == [item.id for item in order if item.id in drawn]
