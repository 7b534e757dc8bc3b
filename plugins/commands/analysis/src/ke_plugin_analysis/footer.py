"""The lines under the tables of a full report: settings, skipped cases, failures and cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

from rich.console import Group

from ke_core.app import (
    IMPORTED,
    WARNING,
    Component,
    ModelRef,
    Reported,
    agreement_warning,
    count_noun,
    duration,
    kept,
    literal,
    losses,
    option_text,
    plan_words,
    run_labels,
    spent_words,
    unfinished,
    without_model,
)

OWN_EDITS = "the editor gets each question's own edits"


SHOWN = 5  # reasons listed one by one; the rest are summed up


def footer(runs: Sequence[Reported]) -> Group:
    """Return the lines under the tables: the shared settings, then the lines of each run."""
    lines = [
        literal(f"{what}: {words}", "bold red" if what == WARNING else "") for what, words in shared_settings(runs)
    ]
    for label, run in zip(run_labels(runs), runs, strict=True):
        first, *rest = run_summary(run)
        lines += [literal(f"{label}: {first}"), *(literal(f"  {words}") for words in rest)]
        lines += [literal(f"  {words}", style) for words, style in missing_answers(run)]
    return Group(*lines)


def shared_settings(runs: Sequence[Reported]) -> list[tuple[str, str]]:
    """Return the settings by name. If the runs differ, each value is followed by the labels of its runs."""
    facts = {label: dict(_facts(run)) for label, run in zip(run_labels(runs), runs, strict=True)}
    lines = []
    for what in dict.fromkeys(name for known in facts.values() for name in known):
        labels: dict[str, list[str]] = {}
        for label, known in facts.items():
            if what in known:
                labels.setdefault(known[what], []).append(label)
        words = [value + (f" ({', '.join(of)})" if len(of) < len(facts) else "") for value, of in labels.items()]
        lines.append((what, "; ".join(words)))
    return lines


def _facts(run: Reported) -> Iterator[tuple[str, str]]:
    """Yield the settings of a run by name, and a warning about its judge."""
    spec, judge = run.spec, run.tally.judge
    yield "protocol", f"{plan_words(spec)}, seed {spec.seed}"
    joint = "" if spec.joint else ", edits applied one by one without restoring"
    yield "form of the edited fact", f"{spec.edited_form}{joint}"
    yield "judge", judge_words(judge) if judge is not None else "none yet"
    if judge is not None and (warned := agreement_warning(judge)):
        yield WARNING, warned
    if words := [component_words(metric) for metric in run.metrics if metric.options]:
        yield "metrics with options", "; ".join(words)
    yield "gold material given to the editor", ", ".join(spec.oracle) or "nothing"
    yield OWN_EDITS, "yes (no retrieval needed)" if spec.own_edits else "no"
    yield "model", "none" if without_model(spec) else model_words(spec.model)
    yield "dataset", f"{component_words(spec.dataset.component)}, content {spec.dataset.sha256[:12]}"
    yield "ke", spec.ke


def model_words(model: ModelRef) -> str:
    """Describe a model: its dtype and the start of its digest, or the address of its server."""
    revision = f"@{model.revision}" if model.revision else ""
    if model.source == IMPORTED:
        return f"{model.id}, imported answers"
    if model.base_url:
        return f"{model.id}{revision} behind {model.base_url}, through {'chat' if model.chat else 'plain'} completions"
    chat = ", through the chat template" if model.chat else ""
    return f"{model.id}{revision}, {model.dtype}{chat}, weights {model.digest[:12]}"


def component_words(component: Component) -> str:
    """Describe a component as ``name 0.1.0 (option=value, ...)``, without empty options."""
    options = [f"{name}={option_text(it, name)}" for name, it in component.options.items() if it not in ("", None)]
    words = f"{component.name} {component.version}".rstrip()
    dependencies = [f"{name} {digest[:12]}" for name, digest in component.dependencies.items()]
    return (
        words
        + (f" ({', '.join(options)})" if options else "")
        + (f", on {', '.join(dependencies)}" if dependencies else "")
    )


def judge_words(judge: Component) -> str:
    """Describe a judge: its model, and its agreement with labels written by people if it was checked."""
    check = kept(judge)
    model = f", model {model_words(judge.model)}" if judge.model is not None else ""
    agreements = "; ".join(f"{name} {found}" for name, found in check.agreements.items()) if check else ""
    return component_words(judge) + model + (f"; agreement with manual labels: {agreements}" if check else "")


def run_summary(run: Reported) -> Iterator[str]:
    """Yield lines about cases, edits, times and usage."""
    tally = run.tally
    yield component_words(run.spec.editor)
    words = [
        count_noun(tally.cases, "case") + (f" and {count_noun(tally.controls, 'control')}" if tally.controls else "")
    ]
    if tally.edits:
        took = "" if run.spec.model.source == IMPORTED else f" at {duration(median(tally.edit_seconds))} each"
        words.append(count_noun(tally.edits, "edit") + took)
    if tally.answers:
        words.append(count_noun(tally.answers, "answer"))
    yield ", ".join(words)
    if tally.cost.calls:
        tokens = f"{tally.cost.prompt_tokens:,} prompt tokens and {tally.cost.tokens:,} generated"
        yield f"in all, including the unedited model: {count_noun(tally.cost.calls, 'model call')}, {tokens}"
    if tally.spent:
        yield f"server usage: {spent_words(tally.spent)}"
    yield f"run folder: {run.path}"


def missing_answers(run: Reported) -> Iterator[tuple[str, str]]:
    """Yield lines about missing answers and their reasons, each with its style."""
    if words := unfinished(run):
        yield words, "red"
    for loss in losses(run):
        if not loss.reasons:
            continue
        yield count_noun(loss.reasons.total(), loss.one, loss.many) + ":", loss.style
        for reason, n in loss.reasons.most_common(SHOWN):
            yield f"  {n:,} x {reason}", loss.style
        if len(loss.reasons) > SHOWN:
            rest = loss.reasons.total() - sum(n for _reason, n in loss.reasons.most_common(SHOWN))
            yield f"  {rest:,} for {count_noun(len(loss.reasons) - SHOWN, 'other reason')}", loss.style
