"""The page in a real browser: search, filters, keyboard, phone layout, and no execution of model output."""

import re
import time

import pytest
from attrs import frozen

from ke_core.app import Component, Reported
from ke_core.plugin import (
    Answer,
    Case,
    Edit,
    Entity,
    Failure,
    Finding,
    Gold,
    Interval,
    Judgment,
    MetricScore,
    Probe,
    Prompt,
    Query,
    Step,
    Verdict,
)
from ke_core.results.tally import Tally
from ke_plugin_analysis.answers import AnsweredCase, RunDataset
from ke_plugin_analysis.html.browser import BrowsedRun
from ke_plugin_analysis.html.document import html_page
from ke_testing.records import make_run_spec

pytestmark = [pytest.mark.integration, pytest.mark.xdist_group("browser")]

EVIL = "</script><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
VERDICTS = (Verdict.RIGHT, Verdict.WRONG, Verdict.PRE_EDIT)
COUNT = "document.getElementById('count').textContent"
IDS = "[...document.querySelectorAll('.case .id')].map((one) => one.textContent.replace('case ', ''))"


@frozen(kw_only=True)
class Asks:
    def prompt(self, query, style):
        return Prompt(text=f"Q: One? A: Yes\nQ: {query.texts[0]} A:") if style != "own" else None


def case(number):
    gold = Gold(entities=(Entity(label=f"Lira {number}"),))
    asked = [
        Query(id=name, texts=(f"{text} {number}?",), gold=gold, pre_edit=Gold(entities=(Entity(label="Franc"),)))
        for name, text in (("edit", "Where is tower"), ("multi", "Which currency has the land of tower"))
    ]
    probes = tuple(
        Probe(id=one.id, aspect=aspect, queries=(one,))
        for one, aspect in zip(asked, ("efficacy", "multi-hop"), strict=True)
    )
    edit = Edit(id=f"tower-{number}", statement=f"Tower {number} is in Rome")
    return Case(id=str(number), edits=(edit,), probes=probes, tags={"hops": str(2 + number % 3)})


def answered(number, style, text):
    step = Step(kind="subquestion", text="Where is it?", retrieved=(f"tower-{number}",), scores=(0.5,))
    replies, judgments = {}, {}
    for at, name in enumerate(("edit", "multi")):
        replies[name, "before", "direct"] = Answer(text="Franc", raw=" Franc, I think\nQ: next")
        judgments[name, "before", "direct"] = Judgment(verdict=Verdict.RIGHT)
        replies[name, "after", style] = Answer(text=text, raw=f" So: {text}", steps=(step,) if style == "own" else ())
        judgments[name, "after", style] = Judgment(
            verdict=VERDICTS[(number + at) % 3], findings=(Finding(item=text, label="gold"),)
        )
    return AnsweredCase(replies=replies, judgments=judgments)


def reported(editor, scores):
    tally = Tally(judge=Component(name="alias", distribution="d", version="1", options={}))
    spec = make_run_spec(editor, dataset="towers")
    return Reported(path=f"runs/{editor}", spec=spec, scores=tuple(scores), tally=tally)


def scores(style):
    for aspect, value in (("efficacy", 0.9), ("a-multi-hop-aspect-with-a-long-name", 0.3)):
        for tags in ({}, {"hops": "2"}, {"hops": "3"}, {"hops": "4"}):
            ends = Interval(low=value - 0.05, high=value + 0.05)
            yield MetricScore(metric="m", aspect=aspect, value=value, n=10, style=style, interval=ends, tags=tags)


def page(n, text="Lira"):
    cases = tuple(case(number) for number in range(n))
    runs = (("memit", "direct"), ("mello", "own"))
    browsed = [
        BrowsedRun(
            label=editor,
            same="towers",
            edited_form="question",
            answers={one.id: answered(int(one.id), style, f"{text} {one.id}") for one in cases},
            material=RunDataset(dataset=Asks(), cases=cases),
        )
        for editor, style in runs
    ]
    return html_page([reported(editor, scores(style)) for editor, style in runs], browsed)


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(page(60), encoding="utf-8")
    return path


def test_the_page_opens_without_errors_or_requests(chromium, small):
    chromium.open(small)
    assert chromium(COUNT) == "60 cases"
    assert chromium(f"{IDS}.length") == 25
    assert chromium.errors == []
    assert chromium.requests == [small.as_uri()]


def test_a_case_shows_prompt_answers_steps_facts_verdict_and_reason(chromium, small):
    chromium.open(small, "#q=tower+7")
    assert chromium(COUNT) == "1 of 60 cases"
    chromium("document.querySelectorAll('.case details').forEach((one) => { one.open = true; })")
    text = " ".join(
        chromium("new Promise((d) => setTimeout(() => d(document.querySelector('.case').innerText), 50))").split()
    )
    for words in (
        "Where is tower 7?", "gold answer after the edit: Lira 7", "pre-edit answer: Franc", "prompt: direct",
        "after editing, memit",
        "Q: One? A: Yes Q: Where is tower 7? A:", "before editing", "Franc, I think Q: next", "judge: gold: Lira 7",
        "subquestion Where is it?", "retrieved: Tower 7 is in Rome 0.5", "↺ pre-edit answer", "So: Lira 7",
    ):  # fmt: skip
        assert words in text, (words, text)


@pytest.mark.parametrize(
    ("fragment", "count"),
    [
        ("#after=right&aspect=efficacy&run=memit", "20 of 60 cases; only matching answers are shown"),
        ("#style=own&after=pre-edit&aspect=multi-hop", "20 of 60 cases; only matching answers are shown"),
        ("#tag=%5B%22hops%22%2C%222%22%5D", "20 of 60 cases"),
        ("#before=right", "60 cases"),
        ("#after=no-such-verdict", "60 cases"),
        ("#q=nothing+has+this", "0 of 60 cases"),
        ("#scores", "60 cases"),
    ],
)
def test_the_address_keeps_the_filters(chromium, small, fragment, count):
    chromium.open(small, fragment)
    assert chromium(COUNT) == count


def test_keys_search_walk_open_and_turn_pages(chromium, small):
    chromium.open(small)
    chromium.press("]")
    assert chromium(f"{IDS}[0]") == "25"
    assert "page=1" in chromium("location.hash")
    chromium.press("j", "j", "k", "j", "Enter")
    assert chromium("[...document.querySelectorAll('.case[open] .id')].map((one) => one.textContent)") == ["case 27"]
    chromium.press("/")
    chromium.type("tower 5")
    assert chromium(COUNT) == "11 of 60 cases"
    assert chromium("document.activeElement.name") == "q"


def test_every_control_is_reached_by_tab_and_has_a_name(chromium, small):
    chromium.open(small)
    seen = []
    for _press in range(40):
        chromium.press("Tab")
        seen.append(chromium("document.activeElement.name || document.activeElement.tagName"))
    for name in ("q", "after", "aspect", "style", "tag", "run"):
        assert name in seen
    assert seen.index("A") < seen.index("q") < seen.index("run") < len(seen) - 1 - seen[::-1].index("SUMMARY")
    assert "before" not in seen  # every answer was right before editing: there is nothing to choose
    nameless = "[...document.querySelectorAll('input, select')].filter((one) => !one.labels.length).length"
    assert chromium(nameless) == 0


def test_terms_have_tooltips_and_a_list(chromium, small):
    chromium.open(small)
    assert chromium("document.querySelector('thead abbr').title") == "An implementation of an editing method."
    assert "method's own" in chromium("[...document.querySelectorAll('#terms dt')].map((one) => one.textContent)")
    chromium("document.querySelector('.case').open = true")
    chip = "new Promise((d) => setTimeout(() => d(document.querySelector('.answer .verdict.right').title), 50))"
    assert chromium(chip) == "The judge accepts the answer as the gold answer."


@pytest.mark.parametrize("dark", [False, True])
def test_a_phone_shows_it_without_scrolling_sideways(chromium, small, dark):
    chromium.open(small, "#q=tower+7", width=390, height=844, dark=dark)
    assert chromium("document.documentElement.scrollWidth <= 390")
    assert chromium(
        "[...document.querySelectorAll('.panels svg')].every((one) => one.getBoundingClientRect().width > 330)"
    )
    shade = chromium("getComputedStyle(document.body).backgroundColor")
    assert (int(re.findall(r"\d+", shade)[0]) < 60) is dark


def test_model_output_with_html_is_shown_as_text(chromium, tmp_path):
    path = tmp_path / "evil.html"
    path.write_text(page(1, text=EVIL), encoding="utf-8")
    chromium.open(path)
    chromium("document.querySelectorAll('.case details').forEach((one) => { one.open = true; })")
    assert chromium("new Promise((d) => setTimeout(() => d(document.title), 200))") == "memit, mello on towers"
    assert EVIL in chromium("document.querySelector('.case').innerText")
    assert chromium("document.images.length") == 0
    assert chromium.requests == [path.as_uri()]


def test_html_from_judges_methods_and_servers_is_shown_as_text(chromium, tmp_path):
    """Models also write sub-questions, reasons of judges and errors."""
    one = case(0)
    step = Step(kind="subquestion", text=f"step {EVIL}", retrieved=("tower-0",), scores=(0.5,), answer=f"hop {EVIL}")
    finding = Finding(item=f"item {EVIL}", label="fact-unsure", note=f"note {EVIL}")
    found = AnsweredCase(
        replies={
            ("edit", "after", "own"): Answer(text="Lira", raw="Lira", steps=(step,)),
            ("multi", "after", "own"): Failure(error="ServerGone", message=f"error {EVIL}"),
        },
        judgments={
            ("edit", "after", "own"): Judgment(verdict=Verdict.UNSURE, findings=(finding,)),
            ("multi", "after", "own"): Judgment(verdict=Verdict.WRONG),
        },
        problems=(f"problem {EVIL}",),
        refused={"tower-0": f"reason {EVIL}"},
    )
    material = RunDataset(dataset=Asks(), cases=(one,))
    run = BrowsedRun(label="mello", same="towers", edited_form="question", answers={"0": found}, material=material)
    path = tmp_path / "evil.html"
    path.write_text(html_page([reported("mello", scores("own"))], [run]), encoding="utf-8")
    chromium.open(path)
    chromium("document.querySelectorAll('.case details').forEach((one) => { one.open = true; })")
    assert chromium("new Promise((d) => setTimeout(() => d(document.title), 200))") == "mello on towers"
    text = chromium("document.querySelector('.case').innerText")
    for said in ("step", "item", "note", "error", "problem", "reason"):
        assert f"{said} {EVIL}" in text, said
    assert chromium("document.images.length + document.querySelectorAll('.case script').length") == 0
    assert chromium.requests == [path.as_uri()]


def test_the_policy_of_the_page_runs_no_other_script(chromium, tmp_path):
    path = tmp_path / "tampered.html"
    path.write_text(page(1).replace("</main>", "</main><script>document.title = 'owned'</script>"), encoding="utf-8")
    chromium.open(path)
    assert chromium("document.title") == "memit, mello on towers"
    assert any("Content Security Policy" in line for line in chromium.errors)


SEARCHED = f"""new Promise((done) => {{
  const wait = () => ({COUNT}.startsWith("searching") ? setTimeout(wait, 50) : done({COUNT}));
  wait();
}})"""


def test_ten_thousand_answered_cases_open_and_are_searched(chromium, tmp_path):
    path = tmp_path / "large.html"
    path.write_text(page(10_000), encoding="utf-8")
    assert chromium.open(path) < 20
    assert chromium(COUNT) == "10,000 cases"
    assert chromium("document.querySelectorAll('*').length") < 3_000
    started = time.monotonic()
    chromium.press("/")
    chromium.type("tower 9999?")
    assert chromium(SEARCHED) == "1 of 10,000 cases"
    assert time.monotonic() - started < 20
    assert chromium(IDS) == ["9999"]
    assert chromium.errors == []
    assert chromium.requests == [path.as_uri()]


def test_cases_of_compressed_blocks_are_opened_filtered_and_searched(chromium, tmp_path):
    """600 cases are three blocks."""
    path = tmp_path / "blocks.html"
    path.write_text(page(600), encoding="utf-8")
    chromium.open(path, "#page=9", width=390, height=844)
    assert chromium(SEARCHED) == "600 cases"
    wait = (
        f"new Promise((done) => {{ const look = () => ({IDS}.length ? done({IDS}) : setTimeout(look, 20)); look(); }})"
    )
    assert chromium(wait) == [str(number) for number in range(225, 250)]
    chromium.press("]")
    assert chromium(f"new Promise((done) => setTimeout(() => done({IDS}[24]), 300))") == "274"
    assert chromium("document.documentElement.scrollWidth <= 390")
    chromium.open(path, "#after=right&aspect=efficacy&run=memit&q=tower+5")
    assert (
        chromium(SEARCHED) == "36 of 600 cases; only matching answers are shown"
    )  # a third of 50 to 59 and of 500 to 599
    chromium.open(path, "#q=tower+507")
    assert chromium(SEARCHED) == "1 of 600 cases"
    opened = "new Promise((done) => setTimeout(() => done(document.querySelector('.case').innerText), 200))"
    chromium(
        f"{opened}.then(() => document.querySelectorAll('.case details').forEach((one) => {{ one.open = true; }}))"
    )
    text = " ".join(chromium(opened).split())
    assert "Q: One? A: Yes Q: Where is tower 507? A:" in text
    assert "retrieved: Tower 507 is in Rome 0.5" in text
    assert chromium.errors == []
