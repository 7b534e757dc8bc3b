"""Exports as HTML, LaTeX, CSV and Markdown have the same numbers and escape all texts."""

import base64
import csv
import gzip
import io
import json
import re
from collections import Counter
from collections.abc import Mapping
from html.parser import HTMLParser
from weakref import finalize

import pytest
from attrs import evolve, frozen

from ke_core.app import Component, Plan, Reported, sanitize
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
    Scored,
    Step,
    Verdict,
)
from ke_core.results.tally import Tally
from ke_plugin_analysis.answers import AnsweredCase, RunDataset
from ke_plugin_analysis.csv import scores_csv
from ke_plugin_analysis.html.blocks import SIZE, case_blocks
from ke_plugin_analysis.html.browser import BrowsedRun, browser
from ke_plugin_analysis.html.document import embedded, html_page
from ke_plugin_analysis.html.panels import galleries
from ke_plugin_analysis.html.svg import draw
from ke_plugin_analysis.latex import latex
from ke_plugin_analysis.markdown import markdown
from ke_plugin_analysis.sheets import harmless
from ke_testing.records import make_run_spec

JUDGE = Component(name="alias", distribution="d", version="0.1.0", options={})
COLUMNS = {"multi": {"multi-hop": "multi-hop", "instance": "instance"}}
EVIL = """</script><script>document.title = 'owned'</script><img src=x onerror="document.title='owned'">'"&<!--"""


def spec(editor="memit", *, k=1, name="atlas"):
    made = make_run_spec(editor, dataset=name, plan=Plan(size=k))
    return evolve(made, model=evolve(made.model, id="tiny_1%"))


def score(value, n=10, aspect="multi-hop", **more):
    ends = Interval(low=max(0.0, value - 0.1), high=min(1.0, value + 0.1))
    return MetricScore(
        **{"metric": "multi", "aspect": aspect, "value": value, "n": n, "style": "direct", "interval": ends, **more}
    )


def reported(*scores, **about):
    return Reported(
        path="runs/x",
        spec=spec(**about),
        scores=scores,
        columns=COLUMNS,
        tally=Tally(judge=JUDGE, cases=about.get("k") or 9),
    )


ONE = reported(
    score(0.412),
    score(0.25, 1234, aspect="instance"),
    score(0.5, 4, tags={"hops": "2"}),
    score(0.3, 6, tags={"hops": "10"}),
)


# --- tables ------------------------------------------------------------------------------------------------


def test_latex_is_a_booktabs_table_with_value_interval_and_n():
    text = latex([ONE])
    assert "\\toprule\neditor & prompt & multi{-}hop & instance \\\\\n" in text
    assert " &  & {\\scriptsize $n=10$} & {\\scriptsize $n=1{,}234$} \\\\\n\\midrule" in text
    assert (
        "memit & direct & 41.2 {\\scriptsize(31.2--51.2)} & 25.0 {\\scriptsize(15.0--35.0)} \\\\\n\\bottomrule" in text
    )
    assert "2 & memit & direct & 50.0 {\\scriptsize$n=4$} \\\\\n\\addlinespace\n10 & memit" in text
    assert "by hops" not in latex([ONE], slices=False)


def test_latex_has_minus_signs_in_numbers_and_dashes_in_ranges():
    def cell(low, high, **more):
        (row,) = re.findall(
            r"direct & (.*) ", latex([reported(score(low, interval=Interval(low=low, high=high), **more))])
        )
        return row

    assert cell(-0.05, -0.01) == r"$-$5.0 {\scriptsize($-$5.0 to $-$1.0)}"
    assert cell(0.1, 0.2) == r"10.0 {\scriptsize(10.0--20.0)}"
    assert cell(1e-5, 2e-5, measure="nats") == r"1.000e$-$05 {\scriptsize(1.000e$-$05 to 2.000e$-$05)}"


def test_latex_escapes_special_characters():
    wild = "a_b {50%} $x$ #1 ~^ \\input{x} [h] * & <b> --"
    row = next(
        line
        for line in latex([reported(score(0.5), editor=wild)]).splitlines()
        if line.endswith(r"\\") and line.startswith("a")
    )
    assert row.startswith(
        r"a\_b \{50\%\} \$x\$ \#1 \textasciitilde{}\textasciicircum{} \textbackslash{}input\{x\} {[}h{]} {*} \& "
        r"\textless{}b\textgreater{} {-}{-} & direct & "
    )


def test_multi_line_texts_stay_in_latex_comments():
    text = latex([reported(score(0.5), name="a\n\\input{secret}")])
    comments = text[text.rindex("\\end{table}") :].splitlines()[1:]
    assert all(line == "" or line.startswith("% ") for line in comments)


def test_markdown_is_a_github_table_with_all_names_in_each_row():
    lines = markdown([ONE]).splitlines()
    assert lines[2:5] == [
        "| editor | prompt | multi-hop (n 10) | instance (n 1,234) |",
        "| --- | --- | ---: | ---: |",
        "| memit | direct | 41.2 (31.2-51.2) | 25.0 (15.0-35.0) |",
    ]
    assert "| 10 | memit | direct | 30.0 (20.0-40.0) n 6 |" in lines
    assert "tiny\\_1%" in lines[0]


def test_markdown_nests_reasons_under_their_heading():
    lines = markdown([evolve(ONE, tally=Tally(skipped=Counter({"no subject": 2})))]).splitlines()
    assert lines[-2:] == ["  - 2 cases skipped:", "    - 2 x no subject"]


def test_markdown_escapes_bars_and_html():
    text = markdown([reported(score(0.5), editor="a|b <img src=x> [l](http://x) `c`\nd")])
    assert "| a\\|b \\<img src=x\\> \\[l\\](http://x) \\`c\\` d | direct |" in text


def test_csv_has_a_row_for_each_score_and_no_formula():
    wild = reported(score(-0.1, tags={"relation": '=HYPERLINK("x"),\n2'}), score(0.2), editor="@sum")
    rows = list(csv.DictReader(io.StringIO(scores_csv([wild]))))
    assert [(row["value"], row["n"], row["low"], row["tag"]) for row in rows] == [
        ("-0.1", "10", "0.0", "relation"), ("0.2", "10", "0.1", ""),
    ]  # fmt: skip
    assert rows[0]["tag_value"] == '\'=HYPERLINK("x"), 2'
    assert {row["editor"] for row in rows} == {"'@sum"}
    assert rows[1]["edited_together"] == "1"
    assert {row["measure"] for row in rows} == {"fraction"}


def test_csv_values_and_intervals_are_in_the_unit_of_their_measure():
    (row,) = csv.DictReader(io.StringIO(scores_csv([reported(score(0.412))])))
    assert (row["measure"], row["value"]) == ("fraction", "0.412")
    assert (float(row["low"]), float(row["high"])) == pytest.approx((0.312, 0.512))
    assert "| memit | direct | 41.2 (31.2-51.2) |" in markdown([reported(score(0.412))])
    (row,) = csv.DictReader(io.StringIO(scores_csv([reported(score(41.2, measure="s"))])))
    assert (row["measure"], row["value"]) == ("s", "41.2")


@pytest.mark.parametrize("name", ["\uff1dHYPERLINK(1)", "|calc", "%0A=1", "\u00a0=1", "-1+2"])
def test_csv_and_label_sheets_escape_the_same_formulas(name):
    (row,) = csv.DictReader(io.StringIO(scores_csv([reported(score(0.5), editor=name)])))
    assert row["editor"] == harmless(name.strip())
    assert row["editor"][0] == "'"


# --- pictures ----------------------------------------------------------------------------------------------


def test_charts_are_drawn_by_table_tag_and_batch_size():
    runs = [evolve(ONE, spec=spec(k=k), tally=Tally(judge=JUDGE, cases=3000)) for k in (1, 100, None)]
    found = {gallery.title: gallery.panels for gallery in galleries(runs)}
    assert list(found) == ["All runs", "By cases edited together", "By hops, after editing"]
    assert found["By cases edited together"][0].along == ("1", "100", "3,000")
    assert len(found["By cases edited together"][0].series) == 1
    assert found["By hops, after editing"][0].along == ("2", "10")
    assert found["By hops, after editing"][0].joined
    assert [point.value for point in found["By cases edited together"][0].points[0]] == pytest.approx([41.2] * 3)


def test_a_second_run_of_the_same_size_gets_its_own_line():
    runs = [evolve(ONE, spec=spec(k=k), tally=Tally(judge=JUDGE, cases=3000)) for k in (1, 100, 100)]
    panel = next(gallery.panels[0] for gallery in galleries(runs) if gallery.title == "By cases edited together")
    assert [series.label for series in panel.series] == ["memit, direct", "memit, run 2, direct"]
    assert [[point is not None for point in line] for line in panel.points] == [[True, True], [False, True]]


def test_runs_with_different_options_get_different_lines():
    runs = [evolve(ONE, spec=evolve(spec(k=k), seed=seed)) for k, seed in ((1, 0), (1, 1), (100, 1))]
    panel = next(gallery.panels[0] for gallery in galleries(runs) if gallery.title == "By cases edited together")
    assert [series.label for series in panel.series] == ["memit, seed=0, direct", "memit, seed=1, direct"]
    assert [[point is not None for point in line] for line in panel.points] == [[True, False], [True, True]]


@pytest.mark.parametrize(("other", "drawn"), [(0.7, True), (0.6, False)])
def test_charts_show_the_unedited_model_if_all_runs_share_it(other, drawn):
    runs = [reported(score(0.7, phase="before"), score(0.5)), reported(score(other, phase="before"), score(0.4), k=9)]
    (panel,) = galleries(runs)[0].panels
    assert ("unedited, direct" in [series.label for series in panel.series]) is drawn


@pytest.mark.parametrize(("n", "few"), [((10, 1234), "10 to 1,234"), ((6, 6), "6"), ((20, 20), "")])
def test_a_chart_with_few_observations_is_marked(n, few):
    run = reported(score(0.5, n[0]), score(0.2, n[1], aspect="instance"))
    assert galleries([run])[0].panels[0].few == few
    assert (f"few cases: n {few}" in html_page([run], [])) is bool(few)


def test_a_single_number_has_no_chart():
    assert galleries([reported(score(0.5))]) == []


def test_tooltips_show_n_and_interval_and_escape_names():
    seen = galleries([reported(score(0.5), score(0.2, aspect="instance"), editor="<b>&")])[0].panels[0]
    picture = draw(seen)
    assert "<title>&lt;b&gt;&amp;, direct: 50.0% (40.0-60.0), n 10</title>" in picture
    assert "<b>" not in picture


# --- cases -------------------------------------------------------------------------------------------------


@frozen(kw_only=True)
class Asks:
    """A dataset for the list of cases."""

    shots: str = "Q: An example? A: Yes\n"

    def prompt(self, query, style):
        return Prompt(text=f"{self.shots}Q: {query.texts[0]} A:") if style == "direct" else None


def query(name="multi-hop-1", text="Which currency?"):
    gold = Gold(entities=(Entity(label="Lira", aliases=("ITL", "ITL", "Lira")),))
    return Query(id=name, texts=(text,), gold=gold, pre_edit=Gold(entities=(Entity(label="Franc"),)))


def case(number="1", text="Which currency?"):
    edit = Edit(id="tower", statement="The tower is in Rome")
    probes = (
        Probe(id="p", aspect="multi-hop", queries=(query(text=text),)),
        Probe(id="q", aspect="forgetfulness", queries=(query(text=text),)),
    )
    return Case(id=number, edits=(edit,), probes=probes, tags={"hops": "2"})


def answered(after, verdict=Verdict.WRONG, *, style="direct", **about):
    places = {
        ("multi-hop-1", "before", "direct"): Answer(text="Franc", raw=" Franc\n"),
        ("multi-hop-1", "after", style): after,
    }
    judged = {
        ("multi-hop-1", "before", "direct"): Judgment(verdict=Verdict.RIGHT),
        ("multi-hop-1", "after", style): Judgment(verdict=verdict, findings=(Finding(item="Franc", label="pre-edit"),)),
    }
    return AnsweredCase(replies=places, judgments=judged, **about)


def browsed(found, *, label="memit", cases=None, dataset=None, form="cloze"):
    material = RunDataset(dataset=dataset or Asks(), cases=tuple(cases or (case(),)))
    return BrowsedRun(label=label, same="atlas", edited_form=form, answers=found, material=material)


def test_a_case_has_its_question_prompt_answers_verdicts_and_reasons():
    found = browser([browsed({"1": answered(Answer(text="Franc", raw=" I think Franc"), Verdict.PRE_EDIT)})])
    (one,) = found["cases"]
    assert one["edits"] == [{"text": "The tower is in Rome", "was": ""}]
    (asked,) = one["queries"]
    assert (asked["text"], asked["gold"], asked["pre_edit"]) == ("Which currency?", "Lira (also ITL)", "Franc")
    assert asked["aspects"] == ["multi-hop", "forgetfulness"]
    (answer,) = one["answers"]
    assert answer.pop("before") == {"text": "Franc", "verdict": "right", "why": [], "prompt": [0, 1, 2]}
    assert "".join(found["texts"]) == "Q: An example? A: Yes\nQ: Which currency? A:"
    assert answer.pop("after") == {
        "text": "Franc",
        "raw": " I think Franc",
        "verdict": "pre-edit",
        "why": [["pre-edit", "Franc", ""]],
        "prompt": [0, 1, 2],
    }
    assert answer == {"run": 0, "query": 0, "style": "direct"}


def test_the_listed_prompt_has_the_form_of_the_run():
    edited = evolve(query(), edit="tower", cloze="The tower is in")
    one = evolve(case(), probes=(Probe(id="p", aspect="efficacy", queries=(edited,), phase="both"),))
    for form, control, put in (
        ("cloze", False, "The tower is in"),
        ("question", False, "Which currency?"),
        ("cloze", True, "Which currency?"),
    ):
        found = browser([browsed({"1": answered(Answer(text="x"), edited=not control)}, cases=[one], form=form)])
        (answer,) = found["cases"][0]["answers"]
        prompts = ["".join(found["texts"][at] for at in answer[phase]["prompt"]) for phase in ("before", "after")]
        assert prompts == [f"Q: An example? A: Yes\nQ: {text} A:" for text in ("Which currency?", put)]


def test_runs_over_the_same_cases_are_merged_per_case():
    mello = answered(
        Answer(text="Lira", steps=(Step(kind="subquestion", text="Where?", retrieved=("tower",), scores=(0.51234,)),)),
        Verdict.RIGHT, style="own",
    )  # fmt: skip
    found = browser([browsed({"1": answered(Answer(text="Franc"))}), browsed({"1": mello}, label="mello")])
    (one,) = found["cases"]
    assert [(answer["run"], answer["style"]) for answer in one["answers"]] == [(0, "direct"), (1, "direct"), (1, "own")]
    (step,) = one["answers"][2]["after"]["steps"]
    assert (found["facts"][step["retrieved"][0]], step["scores"]) == ("The tower is in Rome", [0.5123])


def test_few_shot_examples_are_stored_once():
    cases = [case(str(number), f"Which of {number}?") for number in range(50)]
    found = browser([browsed({one.id: answered(Answer(text="x")) for one in cases}, cases=cases)])
    assert Counter(found["texts"]).most_common(1)[0][1] == 1
    assert found["texts"].index("Q: An example? A: Yes\nQ: ") == 0
    assert len(found["texts"]) == 52


def unpacked(block):
    return json.loads(gzip.decompress(base64.b64decode(block)))


def test_blocks_hold_every_case_once_with_its_texts_and_facts():
    step = Step(kind="subquestion", text="Where?", retrieved=("tower",), scores=(0.5,))
    cases = [case(str(number), f"Which of {number}?") for number in range(2 * SIZE + 1)]
    answers = {one.id: answered(Answer(text=f"x {one.id}", steps=(step,))) for one in cases}
    made = case_blocks([browsed(answers, cases=cases)])
    assert "cases" not in made.data
    blocks = [unpacked(block) for block in made.blocks]
    assert [len(block["cases"]) for block in blocks] == [SIZE, SIZE, 1]
    assert [one["id"] for block in blocks for one in block["cases"]] == [one.id for one in cases]
    whole = browser([browsed(answers, cases=cases)])
    for block, start in zip(blocks, range(0, len(cases), SIZE), strict=True):
        for one, other in zip(block["cases"], whole["cases"][start : start + SIZE], strict=True):
            for phase in ("before", "after"):
                (here, there) = (of["answers"][0][phase].pop("prompt") for of in (one, other))
                assert [block["texts"][at] for at in here] == [whole["texts"][at] for at in there]
            assert one == other
    assert unpacked(made.facts) == whole["facts"] == {"0 tower": "The tower is in Rome"}
    assert made.blocks == case_blocks([browsed(answers, cases=cases)]).blocks  # equal bytes


class FreshAnswers(Mapping):
    """Answers that are read when they are requested. ``most``: the largest number that was in memory."""

    def __init__(self, names):
        self.names, self.alive, self.most = names, 0, 0

    def __getitem__(self, name):
        made = answered(Answer(text=f"x {name}"))
        self.alive += 1
        finalize(made, self._forget)
        self.most = max(self.most, self.alive)
        return made

    def __iter__(self):
        return iter(self.names)

    def __len__(self):
        return len(self.names)

    def __contains__(self, name):
        return name in self.names

    def _forget(self):
        self.alive -= 1


def test_answers_are_read_one_case_at_a_time():
    cases = [case(str(number)) for number in range(300)]
    answers = FreshAnswers(dict.fromkeys(one.id for one in cases))
    assert len(case_blocks([browsed(answers, cases=cases)]).data["index"]["order"]) == 300
    assert answers.most <= 2


def test_a_page_with_few_cases_has_no_blocks():
    cases = [case(str(number)) for number in range(SIZE)]
    made = case_blocks([browsed({one.id: answered(Answer(text="x")) for one in cases}, cases=cases)])
    assert (made.blocks, made.facts) == ((), "")
    assert [one["id"] for one in made.data["cases"]] == [one.id for one in cases]
    assert made.data["facts"] == {}  # no answer retrieved any


def test_the_index_holds_the_filtered_values_of_every_answer():
    cases = [case(str(number)) for number in range(3)]
    found = {
        "0": answered(Answer(text="x")),
        "1": answered(Answer(text="y"), Verdict.RIGHT, style="own"),
        "2": answered(Failure(error="Gone", message="no")),
    }
    index = case_blocks([browsed(found, cases=cases)]).data["index"]
    kinds = [
        [tuple(index["kinds"][at].values()) for at in index["profiles"][profile]["kinds"]] for profile in index["order"]
    ]
    aspects = ("multi-hop", "forgetfulness")
    assert kinds == [
        [("wrong", "right", aspects, "direct", "answered", 0)],
        [("", "right", aspects, "direct", "answered", 0), ("right", "", aspects, "own", "answered", 0)],
        [("wrong", "right", aspects, "direct", "failure", 0)],
    ]
    assert [index["tags"][index["profiles"][profile]["tags"]] for profile in index["order"]] == [{"hops": "2"}] * 3


def test_answers_of_a_missing_benchmark_are_listed_without_questions():
    run = evolve(browsed({"1": answered(Answer(text="Lira"))}), material=RunDataset(why_not="it has changed"))
    found = browser([run])
    assert found["missing"] == ["memit: it has changed"]
    assert found["cases"][0]["queries"] == [{"id": "multi-hop-1", "aspects": [], "text": ""}]
    assert found["cases"][0]["answers"][0]["after"]["text"] == "Lira"


def test_failures_log_probabilities_and_refusals_are_marked():
    cases = [case(str(number)) for number in range(3)]
    found = browser([browsed({
        "0": answered(Failure(error="ServerGone", message="no answer")),
        "1": answered(Scored(logprobs=(-1.5, -2.0), tokens=(1, 2)), Verdict.UNSURE),
        "2": answered(Answer(text="", outcome="length"), refused={"tower": "no cloze", "other": "elsewhere"}, rounds=3),
    }, cases=cases)])  # fmt: skip
    failed, scored, cut = (one["answers"][0]["after"] for one in found["cases"])
    assert (failed["ended"], failed["text"]) == ("failure", "ServerGone: no answer")
    assert (scored["logprobs"], scored["verdict"]) == ([-1.5, -2.0], "measured")
    assert cut["ended"] == "length"
    assert [line for _run, line in found["cases"][2]["notes"]] == [
        "the edit 'The tower is in Rome' was refused: no cloze",
        "evaluated 3 times: the last answers are shown",
    ]


# --- the page ----------------------------------------------------------------------------------------------


class Seen(HTMLParser):
    """The elements of a page and the texts of its scripts."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.scripts, self._in = Counter(), [], None
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags[tag] += 1
        assert not [name for name, _value in attrs if name.startswith("on")]
        assert not [value for name, value in attrs if name in ("src", "href") and not value.startswith("#")]
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data):
        if self.cdata_elem == "script":
            self.scripts[-1] += data


def test_the_page_starts_with_a_summary_and_defines_its_terms():
    page = html_page([ONE], [], summaries={"memit": "edits many facts at once"})
    assert '<p id="summary">memit: 41.2% (n 10) multi-hop' in page
    assert '<abbr title="edits many facts at once">memit</abbr>' in page
    assert '<abbr title="Cases in which at least one wording of the multi-hop question is answered right.">' in page
    assert "<dt>memit</dt><dd>edits many facts at once</dd>" in page
    assert "fraction" not in page


def evil_page():
    evil = case(text=EVIL)
    run = browsed({"1": answered(Answer(text=EVIL, raw=f" {EVIL}\u202e\x1b[31m"))}, cases=[evil], label=EVIL)
    return html_page([reported(score(0.5), score(0.1, tags={EVIL: EVIL}), editor=EVIL)], [run])


def test_model_output_adds_no_script_or_image_to_the_page():
    seen = Seen(evil_page())
    assert seen.tags["script"] == 2
    assert seen.tags["img"] == 0
    data = json.loads(seen.scripts[0])
    assert data["cases"][0]["answers"][0]["after"]["text"] == EVIL
    assert data["cases"][0]["answers"][0]["after"]["raw"] == f" {EVIL}\\u202e\\x1b[31m"


def test_embedded_data_cannot_end_the_script_element():
    text = embedded({"x": f"{EVIL}\u2028\u2029"})
    assert not re.search("[<>&\u2028\u2029]", text)
    assert json.loads(text) == {"x": f"{EVIL}\u2028\u2029"}


def test_control_characters_are_made_visible():
    assert sanitize("a\tb\n\x1b[31m\u202eé\ud800") == "a\tb\n\\x1b[31m\\u202eé\\ud800"
    assert evil_page().encode()
