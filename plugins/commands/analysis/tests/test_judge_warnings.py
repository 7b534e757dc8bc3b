"""A warning about low agreement is at every judged table, in every format."""

import csv
import io
import re

import pytest
from attrs import evolve

from ke_core.results.agreement import Agreement, AgreementCheck, save_check
from ke_core.results.reported import Reported
from ke_core.results.tally import Tally
from ke_core.spec.results import MetricScore
from ke_core.spec.runspec import Component, ModelRef
from ke_plugin_analysis.csv import scores_csv
from ke_plugin_analysis.html.document import html_page
from ke_plugin_analysis.latex import latex
from ke_plugin_analysis.markdown import markdown
from ke_plugin_analysis.tables import report_page
from ke_testing.records import make_run_spec

MODEL = ModelRef(source="hf", id="tiny_1", digest="abcdef0123456789", dtype="float32")
JUDGE = Component(name="llm", distribution="d", version="0.1.0", options={}, model=MODEL)
SPEC = make_run_spec(model=MODEL, styles=("cot",))
SCORES = (
    MetricScore(metric="fact-recall", aspect="consistent", value=0.5, n=10, style="cot"),
    MetricScore(metric="fact-recall", aspect="consistent", value=0.4, n=4, style="cot", tags={"hops": "2"}),
    MetricScore(metric="drift", aspect="kl", value=0.1, n=3),
    MetricScore(metric="cost", aspect="edit-seconds", value=2.0, n=3, measure="s"),
)
COLUMNS = {"fact-recall": {"consistent": "consistent"}, "drift": {"kl": "KL"}, "cost": {"edit-seconds": "time"}}
TOLD = "judge llm agrees too little with manual labels: facts kappa 0.41 (n 60)"


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("KE_CACHE_DIR", str(tmp_path / "cache"))


def reported(judge=JUDGE):
    return Reported(path="runs/x", spec=SPEC, scores=SCORES, columns=COLUMNS, tally=Tally(judge=judge, cases=9))


def checked(kappa):
    save_check(AgreementCheck(judge=JUDGE, items="0", agreements={"facts": Agreement(n=60, agreed=40, kappa=kappa)}))


def drawn(group):
    """Return the terminal output as one line."""
    from rich.console import Console

    console = Console(file=io.StringIO(), width=200)
    console.print(group)
    return " ".join(console.file.getvalue().split())


def test_every_judged_latex_table_has_the_warning():
    checked(0.41)
    tables = latex([reported()]).split(r"\begin{table}")[1:]
    warned = {
        re.search(r"\\caption\{(.*?):", table)[1]: r"\textbf{Warning:} judge llm agrees too little" in table
        for table in tables
    }
    assert warned == {
        "fact{-}recall": True,
        "fact{-}recall by hops, after editing": True,
        "drift": False,
        "cost": False,
    }
    assert r"facts kappa 0.41 (n 60)\par}" + "\n" + r"\end{table}" in latex([reported()])


def test_every_judged_markdown_table_has_the_warning():
    checked(0.41)
    parts = markdown([reported()]).split("### ")[1:]
    assert [f"**warning**: {TOLD}" in part for part in parts] == [
        not part.startswith(("drift", "cost")) for part in parts
    ]
    assert sum("**warning**" in part for part in parts) == 2


def test_every_judged_csv_row_has_the_warning():
    checked(0.41)
    rows = list(csv.DictReader(io.StringIO(scores_csv([reported()]))))
    assert {(row["metric"], row["warning"]) for row in rows} == {("fact-recall", TOLD), ("drift", ""), ("cost", "")}


def test_html_and_terminal_show_the_warning():
    checked(0.41)
    assert html_page([reported()], []).count(f'<p class="warning">Warning: {TOLD}</p>') == 2
    assert f"warning: {TOLD}" in drawn(report_page([reported()]))


def test_an_unchecked_judge_model_is_a_warning():
    told = "judge llm has not been checked: ke judges check llm --judge-model tiny_1"
    assert told in scores_csv([reported()])
    assert told.replace("_", r"\_").replace("-", "{-}") in latex([reported()])
    assert f"**warning**: {told}".replace("_", r"\_") in markdown([reported()])


def test_good_agreement_and_judges_without_a_model_give_no_warning():
    checked(0.6)
    for run in (reported(), reported(evolve(JUDGE, name="alias", model=None))):
        for text in (latex([run]), markdown([run]), html_page([run], [])):
            assert "arning:" not in text
            assert "**warning**" not in text
        assert {row["warning"] for row in csv.DictReader(io.StringIO(scores_csv([run])))} == {""}
