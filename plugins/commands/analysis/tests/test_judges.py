"""``ke judges``, and judging with a model."""

import json
import re

import pytest
from attrs import frozen

from ke_core.plugin import (
    Answer,
    Finding,
    Generate,
    JudgeSpec,
    Judgment,
    KEError,
    KnownModel,
    MetricSpec,
    ModelSpec,
    Value,
    Verdict,
    hookimpl,
)
from ke_testing.fakes import ScriptedModel

LABELS = ("good", "bad", "unsure")


@frozen(kw_only=True)
class NoConfig:
    pass


class Asker:
    """Asks the model about each answer; an unknown label is unsure."""

    def judge(self, session, items):
        found = session.engine.run({str(at): self.one(item) for at, item in enumerate(items)})
        if any(not isinstance(one, Judgment) for one in found.values()):
            raise KEError("the judge's model failed", hint="again")
        return [found[str(at)] for at in range(len(items))]

    def one(self, item):
        reply = item.reply
        written = yield Generate(prompt=f"{' '.join(item.facts)} {item.query.texts[0]} {reply.raw or reply.text}")
        label = written.text.strip()
        known = label if label in LABELS else "unsure"
        finding = Finding(item=reply.text, label=known, note=label)
        return Judgment(verdict=Verdict.UNSURE, findings=(finding,))


class Goodness:
    def values(self, record):
        for (phase, style, _query), outcome in record.outcomes.items():
            for finding in outcome.judgment.findings:
                yield Value(aspect="good", value=float(finding.label == "good"), phase=phase, style=style)


class Judges:
    """A judge with a model, and its models. ``asked``: all prompts; ``fail``: text of the prompt that fails."""

    def __init__(self):
        self.asked = []
        self.fail = ""
        self.loaded = 0

    def says(self, word):
        def say(prompt):
            self.asked.append(prompt)
            if self.fail and self.fail in prompt:
                return ValueError("server gone")
            return word or ("good" if "fine" in prompt else "bad")

        self.loaded += 1
        model = ScriptedModel(say)
        model.id = f"scripted:{word}"
        return model

    @hookimpl
    def ke_judges(self):
        return [
            JudgeSpec(
                name="asker",
                summary="asks a model",
                config=NoConfig,
                build=lambda config: Asker(),
                needs_model=True,
                labels={"goodness": LABELS},
                metrics=("goodness",),
            )
        ]

    @hookimpl
    def ke_metrics(self):
        return [MetricSpec(name="goodness", summary="good", config=NoConfig, build=lambda config: Goodness())]

    @hookimpl
    def ke_models(self):
        known = tuple(KnownModel(name=n, summary="says", license="none", size_mb=0) for n in ("fair", "gruff"))
        return [
            ModelSpec(
                name="scripted",
                summary="says one word",
                config=NoConfig,
                build=lambda request: self.says("" if request.id == "fair" else request.id),
                known=lambda: known,
            )
        ]


@pytest.fixture
def asking(plugins):
    made = Judges()
    plugins.register(made, "judges")
    return made


def written(path, items):
    path.write_text("\n".join(json.dumps(item) for item in items), encoding="utf-8")
    return str(path)


def sheet(path, wrong=0, n=60):
    """Half good and half bad items; the model accepts ``wrong`` of the bad ones."""
    items = [{"thoughts": f"it is fine {at}", "label": "good"} for at in range(n // 2)]
    items += [{"thoughts": f"it is {'fine' if at < wrong else 'foul'} {at}", "label": "bad"} for at in range(n // 2)]
    return written(path, items)


FAIR = ("--judge-model", "scripted:fair")


def test_list_shows_judges_labels_and_whether_they_need_a_model(ke, asking):
    status, out, _err = ke("judges", "list")
    flat = " ".join(out.split())
    assert status == 0
    assert "asker asks a model yes good, bad, unsure" in flat
    assert "exact the label no" in flat


def test_a_judge_with_a_model_judges_and_its_own_metrics_are_computed(ke, asking, evaluated):
    status, _out, err = ke("judge", "done", "--judge", "asker", *FAIR)
    assert (status, "lines of judgments written" in err) == (0, True)
    scores = json.loads((evaluated / "scores.json").read_text(encoding="utf-8"))
    assert [metric["component"]["name"] for metric in scores["metrics"]] == ["goodness"]
    assert scores["judge"]["model"]["id"] == "fair"
    assert "model fair" in " ".join(ke("report", "done", "--full")[1].split())


def test_judging_again_keeps_the_metrics_of_the_run_but_not_those_of_another_judge(ke, asking, evaluated):
    """A judge with metrics of its own is scored with these; any other with the metrics of the last scores."""

    def scored_with():
        scores = json.loads((evaluated / "scores.json").read_text(encoding="utf-8"))
        return [metric["component"]["name"] for metric in scores["metrics"]]

    assert ke("score", "done", "--metric", "goodness")[0] == 0
    assert ke("judge", "done", "--judge", "exact")[0] == 0
    assert scored_with() == ["goodness"]
    ke("judge", "done", "--judge", "asker", *FAIR)
    assert scored_with() == ["goodness"]
    ke("score", "done")
    assert scored_with() == ["goodness"]
    ke("judge", "done", "--judge", "exact")
    assert scored_with() == ["accuracy"]


def test_the_judge_gets_the_facts_of_the_case(ke, asking, evaluated):
    assert ke("judge", "done", "--judge", "asker", *FAIR)[0] == 0
    assert any("Eiffel Tower is located in Rome" in prompt for prompt in asking.asked)
    assert any("Eiffel Tower is located in Paris" in prompt for prompt in asking.asked)


def test_judging_again_sends_nothing_unless_the_model_differs(ke, asking, evaluated):
    ke("judge", "done", "--judge", "asker", *FAIR)
    before = len(asking.asked)
    assert "every answer was judged already" in ke("judge", "done", "--judge", "asker", *FAIR)[2]
    assert len(asking.asked) == before
    ke("judge", "done", "--judge", "asker", "--judge-model", "scripted:gruff")
    assert json.loads((evaluated / "scores.json").read_text())["judge"]["model"]["id"] == "gruff"


def test_a_failing_judge_model_is_a_one_line_error_and_judging_resumes(ke, asking, evaluated):
    asking.fail = "Brandenburg"
    status, out, err = ke("judge", "done", "--judge", "asker", *FAIR)
    assert (status, out) == (2, "")
    assert "error: the judge's model failed" in err
    asking.fail = ""
    assert ke("judge", "done", "--judge", "asker", *FAIR)[0] == 0


def test_an_unknown_label_is_unsure(ke, asking, evaluated):
    assert ke("judge", "done", "--judge", "asker", "--judge-model", "scripted:gruff")[0] == 0
    text = (evaluated / "records.jsonl").read_text(encoding="utf-8")
    assert '"label":"unsure","note":"gruff"' in text.replace('": "', '":"').replace('", "', '","')
    assert ke("report", "done", "--html", "run.html")[0] == 0
    page = (evaluated.parent / "run.html").read_text(encoding="utf-8")
    data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page)[1])
    told = [answer["after"] for case in data["cases"] for answer in case["answers"] if "after" in answer]
    assert {(one["verdict"], *one["why"][0]) for one in told} == {("unsure", "unsure", "Rome", "gruff")}


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("judge", "done", "--judge", "asker"), ("judge asker needs a model", "--judge-model")),
        (("judge", "done", "--judge", "exact", *FAIR), ("judge exact asks no model", "leave --judge-model out")),
        (("judge", "done", "--judge", "asker", "--judge-model", "nope:x"), ("no model called 'nope'", "")),
        (("judge", "done", "--judge", "asker", *FAIR, "--metric", "none"), ("no metric called 'none'", "")),
        (("judges", "check", "asker", *FAIR), ("judge asker has no labeled items", "--items FILE")),
        (("judges", "check", "nobody", "--items", "sheet"), ("no judge called 'nobody'", "")),
        (("judges", "check", "asker", "--items", "sheet"), ("judge asker needs a model", "--judge-model")),
    ],
)
def test_missing_requirements_are_errors_without_fallback(ke, asking, evaluated, tmp_path, arguments, told):
    sheet(tmp_path / "sheet")
    before = (evaluated / "records.jsonl").read_bytes()
    status, out, err = ke(*arguments)
    assert (status, out) == (2, "")
    assert err.startswith(f"error: {told[0]}")
    assert told[1] in err
    assert before == (evaluated / "records.jsonl").read_bytes()
    assert not asking.asked


def test_eval_refuses_a_judge_that_needs_a_model(ke, asking):
    status, _out, err = ke("eval", "--editor", "sayer", "--dataset", "toy", "--model", "echo:1", "--judge", "asker")
    assert status == 2
    assert "judge asker asks a model of its own, and comes after the run" in err
    assert "ke judge RUN --judge asker --judge-model MODEL" in err


def test_check_prints_kappa_and_disagreements(ke, asking, tmp_path):
    """3 of 30 bad items are accepted: agreed .95, chance .5, kappa .9."""
    status, out, err = ke("judges", "check", "asker", "--items", sheet(tmp_path / "s.jsonl", wrong=3), *FAIR)
    flat = " ".join(out.split())
    assert status == 0
    assert "goodness 60 57 0.90" in flat
    assert "it is fine 0 bad good good" in flat
    assert "warning" not in err


def test_requests_and_their_cost_are_printed_before_they_are_sent(ke, asking, evaluated, tmp_path):
    told = "to be sent: at least 60 requests, about"
    assert told in ke("judges", "check", "asker", "--items", sheet(tmp_path / "s.jsonl"), *FAIR)[2]
    command = ("judge", "done", "--judge", "asker", *FAIR, "--price-in", "1", "--price-out", "2")
    first, second = (ke(*command)[2] for _run in range(2))
    assert re.search(r"to be sent: at least \d+ requests, .* generated, which cost up to 0\.\d{4}", first)
    assert "to be sent" not in second


def test_the_estimate_counts_identical_requests_once_and_cached_ones_not_at_all(ke, asking, tmp_path):
    items = [{"thoughts": f"it is fine {at % 40}", "label": "good"} for at in range(60)]
    check = ("judges", "check", "asker", "--items", written(tmp_path / "s.jsonl", items), *FAIR)
    assert "to be sent: at least 40 requests, about" in ke(*check)[2]
    assert len(asking.asked) == 40
    told = ke(*check)[2]
    assert "to be sent: at least 0 requests, about 0 prompt tokens and up to 0 generated" in told
    assert "sent to the model: 0 requests" in told
    assert len(asking.asked) == 40


def test_cached_completions_determine_the_further_requests_of_the_estimate(ke, asking, tmp_path, monkeypatch):
    def one(self, item):
        first = yield Generate(prompt=item.reply.raw or item.reply.text)
        if first.text:
            yield Generate(prompt=f"{first.text} fine")
        return Judgment(verdict=Verdict.UNSURE, findings=(Finding(item="", label="good", note=""),))

    check = ("judges", "check", "asker", "--items", sheet(tmp_path / "s.jsonl"), *FAIR)
    assert ke(*check)[0] == 0
    monkeypatch.setattr(Asker, "one", one)
    asking.asked.clear()
    assert "to be sent: at least 60 requests, about" in ke(*check)[2]
    assert len(asking.asked) == 62
    assert "to be sent: at least 0 requests, about" in ke(*check)[2]
    assert len(asking.asked) == 62


def test_the_usage_of_a_local_judge_model_is_printed_but_not_recorded_as_usage_of_a_server(ke, asking, evaluated):
    command = ("judge", "done", "--judge", "asker", *FAIR)
    first, second = (ke(*command)[2] for _run in range(2))
    n = len(asking.asked)
    prompt, generated = map(int, re.search(
        rf"sent to the model: {n} requests, (\d+) prompt tokens and (\d+) generated\n", first
    ).groups())  # fmt: skip
    assert (prompt, generated) == (sum(len(one.split()) for one in asking.asked), n)
    assert "server" not in first
    assert "sent to the" not in second
    assert "server usage" not in ke("report", "done", "--full")[1]


def test_low_agreement_is_a_warning_in_every_report(ke, asking, evaluated, tmp_path):
    """With 12 of 30 accepted, kappa is .6, which suffices; with 13 it is .57."""
    ke("judge", "done", "--judge", "asker", *FAIR)
    told = " ".join(ke("report", "done", "--full")[1].split())
    assert "warning: judge asker has not been checked: ke judges check asker --judge-model scripted:fair" in told
    assert "warning:" not in ke("judges", "check", "asker", "--items", sheet(tmp_path / "s", wrong=12), *FAIR)[2]
    told = " ".join(ke("report", "done", "--full")[1].split())
    assert "warning:" not in told
    assert "agreement with manual labels: goodness kappa 0.60" in told
    assert "warning:" in ke("judges", "check", "asker", "--items", sheet(tmp_path / "s", wrong=13), *FAIR)[2]
    told = " ".join(ke("report", "done", "--full")[1].split())
    assert "warning: judge asker agrees too little with manual labels: goodness kappa 0.57" in told


def test_a_comparison_shows_the_warning_of_the_judge(ke, asking, evaluated, tmp_path):
    ke("eval", "--editor", "other", "--dataset", "toy", "--model", "echo:1", "--out", "second")
    for run in ("done", "second"):
        ke("judge", run, "--judge", "asker", *FAIR)
    told = "judge asker has not been checked: ke judges check asker --judge-model scripted:fair"
    assert f"warning: {told}" in " ".join(ke("compare", "done", "second")[1].split())
    assert json.loads(ke("compare", "done", "second", "--json")[1])["warning"] == told
    assert ke("judges", "check", "asker", "--items", sheet(tmp_path / "s"), *FAIR)[0] == 0
    assert "warning:" not in ke("compare", "done", "second")[1]
    assert json.loads(ke("compare", "done", "second", "--json")[1])["warning"] == ""


def test_a_judge_without_a_model_is_checked_by_its_verdicts(ke, asking, tmp_path):
    gold = {"question": "Where?", "gold": [["Rome", "Roma"]]}
    items = [{**gold, "answer": "Roma", "label": "right"}, {**gold, "answer": "Oslo", "label": "wrong"}] * 25
    status, out, _err = ke("judges", "check", "exact", "--items", written(tmp_path / "s", items))
    assert (status, "verdict 50 50 1.00" in " ".join(out.split())) == (0, True)


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ('{"thoughts": "a", "label": "good"}\n', "s has only 1 labeled items"),
        ("", "s has only 0 labeled items"),
        ('{"thoughts": "a", "label": "fine"}\n', "s, line 1: 'fine' is not a label of this judge"),
        ('{"thoughts": "a"}\n', "s, line 1 does not fit"),
        ('{"thoughts": "a", "label": "good", "extra": 1}\n', "s, line 1 does not fit"),
        ("\n{", "s, line 2 is cut off"),
        ("[1]\n", "s, record 1 is not a JSON object"),
        ("[" * 100_000, "s is not JSON"),
    ],
)
def test_invalid_items_are_an_error_before_the_model_is_loaded(ke, asking, tmp_path, content, error):
    (tmp_path / "s").write_text(content, encoding="utf-8")
    status, out, err = ke("judges", "check", "asker", "--items", "s", *FAIR)
    assert (status, out, asking.loaded) == (2, "", 0)
    assert err.startswith(f"error: {error}")


def test_only_line_feeds_separate_items(ke, asking, tmp_path):
    item = {"question": "Where?", "answer": "Rome\u2028Italy\u0085", "gold": [["Rome"]], "label": "wrong"}
    (tmp_path / "s").write_text("\n".join([json.dumps(item, ensure_ascii=False)] * 50), encoding="utf-8")
    assert ke("judges", "check", "exact", "--items", "s")[0] == 0


def test_terminal_codes_in_judge_output_are_escaped(ke, asking, tmp_path):
    asking.says = lambda word: ScriptedModel(lambda _prompt: "\x1b[31m[red]evil[/red]")
    status, out, _err = ke("judges", "check", "asker", "--items", sheet(tmp_path / "s"), *FAIR)
    assert status == 0
    assert "\x1b" not in out
    assert "[red]evil[/red]" in out


def test_an_item_equals_the_input_from_a_case():
    from ke_plugin_analysis.checking import LabeledLine

    item = LabeledLine(label="support", question="Q?", thoughts="A is 3.", answer="3").item("item-1")
    assert item.reply == Answer(text="3", raw="A is 3.\nAnswer: 3")
    assert LabeledLine(label="good", thoughts="A is 3.").item("item-1").reply.outcome == "unparsed"
