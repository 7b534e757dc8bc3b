"""``ke report`` writes one or several files."""

import csv
import io
import json
import re


def test_report_writes_every_format_at_once(ke, evaluated, tmp_path):
    names = ("--html", "a/run.html", "--latex", "run.tex", "--csv", "run.csv", "--markdown", "run.md")
    status, out, err = ke("report", "done", *names)
    assert (status, out) == (0, "")
    assert re.findall(r"written: (\S+) \(0\.\d\d MB\)", err) == ["a/run.html", "run.tex", "run.csv", "run.md"]
    html = (tmp_path / "a/run.html").read_text(encoding="utf-8")
    assert html.startswith("<!doctype html>")
    assert "\\toprule" in (tmp_path / "run.tex").read_text(encoding="utf-8")
    assert "| editor |" in (tmp_path / "run.md").read_text(encoding="utf-8")
    rows = list(csv.DictReader(io.StringIO((tmp_path / "run.csv").read_text(encoding="utf-8"))))
    assert {row["editor"] for row in rows} == {"sayer"}


def test_the_page_holds_the_cases_with_questions_and_prompts(ke, evaluated, tmp_path):
    assert ke("report", "done", "--html", "run.html")[0] == 0
    html = (tmp_path / "run.html").read_text(encoding="utf-8")
    data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', html)[1])
    assert [case["id"] for case in data["cases"]] == ["1", "2"]
    texts = [query["text"] for query in data["cases"][0]["queries"]]
    asked = texts.index("In which city is Eiffel Tower?")
    found = next(answer for answer in data["cases"][0]["answers"] if answer["query"] == asked)
    assert "".join(data["texts"][at] for at in found["after"]["prompt"]).startswith("Q: In which city")
    assert {answer["after"]["text"] for answer in data["cases"][0]["answers"] if "after" in answer} == {"Rome"}
    assert "Questions are missing" not in html


def test_a_dash_prints_the_format_to_stdout(ke, evaluated):
    status, out, err = ke("report", "done", "--csv", "-")
    assert (status, err) == (0, "")
    assert out.startswith("run,path,id,editor,")


def test_two_formats_in_one_file_are_refused(ke, evaluated):
    status, _out, err = ke("report", "done", "--csv", "x", "--latex", "x")
    assert status == 2
    assert "each of --latex, --csv needs a file of its own" in err


def test_a_changed_dataset_omits_only_the_questions(ke, evaluated, tmp_path, monkeypatch):
    from attrs import evolve

    from ke_testing.toy import Toy

    info = Toy().info()
    monkeypatch.setattr(Toy, "info", lambda self: evolve(info, sha256="f" * 64))
    assert ke("report", "done", "--html", "run.html")[0] == 0
    html = (tmp_path / "run.html").read_text(encoding="utf-8")
    assert "Questions are missing: sayer: toy is not what done was made with: sha256 ffffffffffff" in html


def test_an_unjudged_run_is_a_one_line_error(ke, evaluated, tmp_path):
    records = evaluated / "records.jsonl"
    kept = [line for line in records.read_text().splitlines(keepends=True) if '"kind":"judged"' not in line]
    records.write_text("".join(kept))
    (evaluated / "scores.json").unlink()
    status, out, err = ke("report", "done", "--html", "run.html")
    assert (status, out) == (2, "")
    assert err.startswith("error: done has not been judged yet\n")
    assert not (tmp_path / "run.html").exists()
