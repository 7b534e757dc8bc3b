"""The summary of a report: successes, consequences, baselines."""

from attrs import evolve

from ke_core.app import Component, DataRef, ModelRef, Plan, Reported, RunSpec
from ke_core.plugin import MetricScore
from ke_plugin_analysis.summary import summary_sentence


def reported(editor, *scores):
    spec = RunSpec(
        ke="0.1.0",
        model=ModelRef(source="hf", id="tiny", digest="0123456789ab", dtype="float32"),
        editor=Component(name=editor, distribution="d", version="1.0"),
        dataset=DataRef(component=Component(name="atlas", distribution="d", version="2.0"), sha256="0" * 64),
        styles=("direct", "cot"),
        plan=Plan(size=1),
        edited_form="cloze",
    )
    return Reported(path=f"runs/{editor}", spec=spec, scores=tuple(scores))


def score(aspect, right, n, style="direct", **more):
    return MetricScore(metric="m", aspect=aspect, value=right / n, n=n, style=style, **more)


def test_methods_come_first_and_baselines_follow():
    runs = [
        reported("oracle", score("edit-wise", 6, 6), score("multi-hop", 6, 6)),
        reported("parrot", score("edit-wise", 6, 6), score("multi-hop", 2, 6)),
        reported("memit", score("edit-wise", 5, 6), score("multi-hop", 1, 6)),
    ]
    assert summary_sentence(runs) == (
        "memit: 5 of 6 edits succeeded; 1 of 6 multi-hop questions right. "
        "Baseline parrot: 2 of 6 multi-hop questions right. Upper bound oracle: 6 of 6 multi-hop questions right."
    )


def test_further_prompts_are_in_parentheses():
    run = reported("memit", score("multi-hop", 1, 6), score("multi-hop", 3, 6, style="cot"))
    assert summary_sentence([run]) == "memit: 1 of 6 multi-hop questions right (cot: 3 of 6)."


def test_scores_before_editing_and_quantities_are_not_counted():
    before = score("multi-hop", 3, 6, phase="before")
    assert summary_sentence([reported("memit", before, score("edit-wise", 12, 6, measure="s"))]) == ""


def test_runs_without_known_aspects_have_no_summary():
    run = reported("memit", score("perplexity", 1, 6))
    assert summary_sentence([run]) == ""
    assert summary_sentence([evolve(run, scores=())]) == ""
