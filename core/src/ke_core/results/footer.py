"""The lines under score tables: settings, skipped cases, failures and cost."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from statistics import median

from attrs import frozen
from rich.console import Group

from ke_core.results.agreement import agreement_warning, kept
from ke_core.results.formatting import count_noun, duration, literal
from ke_core.results.reported import Reported, headings, plan_words, run_labels, without_model
from ke_core.spec.records import Usage
from ke_core.spec.runspec import IMPORTED, Component, ModelRef

WARNING = "warning"
OWN_EDITS = "the editor gets each question's own edits"
SHOWN = 5  # reasons listed one by one; the rest are summed up


def footer(runs: Sequence[Reported]) -> Group:
    """The lines under the tables: what all runs share once, the rest for each run."""
    lines = [
        literal(f"{what}: {words}", "bold red" if what == WARNING else "") for what, words in shared_settings(runs)
    ]
    for label, run in zip(run_labels(runs), runs, strict=True):
        first, *rest = run_summary(run)
        lines += [literal(f"{label}: {first}"), *(literal(f"  {words}") for words in rest)]
        lines += [literal(f"  {words}", style) for words, style in missing_answers(run)]
    return Group(*lines)


def shared_settings(runs: Sequence[Reported]) -> list[tuple[str, str]]:
    """What the specifications say, by name: once where the runs agree, else with the names of those it is of."""
    facts = {label: dict(_facts(run)) for label, run in zip(run_labels(runs), runs, strict=True)}
    lines = []
    for what in dict.fromkeys(name for known in facts.values() for name in known):
        said: dict[str, list[str]] = {}
        for label, known in facts.items():
            if what in known:
                said.setdefault(known[what], []).append(label)
        words = [value + (f" ({', '.join(whose)})" if len(whose) < len(facts) else "") for value, whose in said.items()]
        lines.append((what, "; ".join(words)))
    return lines


def judge_warnings(runs: Sequence[Reported]) -> list[str]:
    """Return the warnings about judges, such as too little agreement with labels written by people."""
    return [words for what, words in shared_settings(runs) if what == WARNING]


def _facts(run: Reported) -> Iterator[tuple[str, str]]:
    """What the specification says, by name, and what must be known of the judge."""
    spec, judge = run.spec, run.tally.judge
    yield "protocol", f"{plan_words(spec)}, seed {spec.seed}"
    joint = "" if spec.joint else ", edits applied one by one without restoring"
    yield "form of the edited fact", f"{spec.edited_form}{joint}"
    yield "judge", judge_words(judge) if judge is not None else "none yet"
    if judge is not None and (warned := agreement_warning(judge)):
        yield WARNING, warned
    yield "gold material given to the editor", ", ".join(spec.oracle) or "nothing"
    yield OWN_EDITS, "yes (no retrieval needed)" if spec.own_edits else "no"
    yield "model", "none" if without_model(spec) else model_words(spec.model)
    yield "dataset", f"{component_words(spec.dataset.component)}, content {spec.dataset.sha256[:12]}"
    yield "ke", spec.ke


def model_words(model: ModelRef) -> str:
    """A model with what it was loaded as, and the beginning of its weights' digest; or the server that it is behind."""
    revision = f"@{model.revision}" if model.revision else ""
    if model.source == IMPORTED:
        return f"{model.id}, imported answers"
    if model.base_url:
        return f"{model.id}{revision} behind {model.base_url}, through {'chat' if model.chat else 'plain'} completions"
    chat = ", through the chat template" if model.chat else ""
    return f"{model.id}{revision}, {model.dtype}{chat}, weights {model.digest[:12]}"


def component_words(component: Component) -> str:
    """A component with its options, as ``name 0.1.0 (option=value, ...)``; those that are empty are left out."""
    options = [f"{name}={_option(value)}" for name, value in component.options.items() if value not in ("", None)]
    words = f"{component.name} {component.version}".rstrip()
    rests = [f"{name} {digest[:12]}" for name, digest in component.dependencies.items()]
    return words + (f" ({', '.join(options)})" if options else "") + (f", on {', '.join(rests)}" if rests else "")


def judge_words(judge: Component) -> str:
    """Describe a judge: its model, and its agreement with labels written by people if it was checked."""
    check = kept(judge)
    asks = f", asking {model_words(judge.model)}" if judge.model is not None else ""
    return component_words(judge) + asks + (f"; agreement with manual labels: {check.words}" if check else "")


def _option(value: object) -> str:
    if isinstance(value, list | tuple):
        return ",".join(str(part) for part in value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def run_summary(run: Reported) -> Iterator[str]:
    """How the run went: cases, edits, times."""
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
        said = f"{tally.cost.prompt_tokens:,} prompt tokens and {tally.cost.tokens:,} generated"
        yield f"in all, including the unedited model: {count_noun(tally.cost.calls, 'model call')}, {said}"
    if tally.spent:
        yield f"server usage: {spent_words(tally.spent)}"
    yield f"run folder: {run.path}"


@frozen(kw_only=True)
class Loss:
    """A kind of answer or value that is missing or counted as wrong: its names, and its reasons with their numbers.

    ``important``: the short report warns of it.
    """

    one: str
    many: str
    reasons: Counter[str]
    style: str = "yellow"
    important: bool = True


def losses(run: Reported) -> list[Loss]:
    """Every kind of loss of a run, those without a case too."""
    tally, wrong = run.tally, "counted as wrong"
    failed, cut = alike(tally.failures), tally.unfinished
    return [
        Loss(one=f"failed reply, {wrong}", many=f"failed replies, {wrong}", reasons=failed, style="red"),
        Loss(one="case skipped", many="cases skipped", reasons=tally.skipped),
        Loss(one="edit refused by the editor", many="edits refused by the editor", reasons=tally.refused),
        Loss(
            one=f"incomplete answer, {wrong}",
            many=f"incomplete answers, {wrong}",
            reasons=cut,
            style="",
            important=False,
        ),
        Loss(one="missing observation", many="missing observations", reasons=_unmeasured(run), important=False),
    ]


def unfinished(run: Reported) -> str:
    """How many cases have no answers of the edited model yet. Empty for a finished run."""
    tally = run.tally
    if not 0 < tally.done < tally.total:
        return ""
    left = tally.total - tally.done
    return f"not finished: {left:,} of {count_noun(tally.total, 'case')} have no answers of the edited model yet"


def missing_answers(run: Reported) -> Iterator[tuple[str, str]]:
    """Everything that is no plain answer, with its reasons, and the style it is shown in."""
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


def _unmeasured(run: Reported) -> Counter[str]:
    """By the heading of the column that lacks them, and the reason."""
    found: Counter[str] = Counter()
    titles = headings(run)
    for score in run.scores:
        if not score.tags and not (score.phase == "before" and without_model(run.spec)):
            for reason, n in score.skipped_because.items():
                what = titles.get((score.metric, score.aspect), score.aspect)
                found[f"{what}, {score.phase}: {reason}"] += n
    return found


NUMBER = re.compile(r"\d+")


def alike(reasons: Mapping[str, int]) -> Counter[str]:
    """``reasons`` with those that differ only in numbers as one, which names the least and the greatest of each."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for reason in reasons:
        groups.setdefault(tuple(NUMBER.split(reason)), []).append(reason)
    return Counter({_told(words, same): sum(reasons[one] for one in same) for words, same in groups.items()})


def _told(words: tuple[str, ...], reasons: list[str]) -> str:
    if len(reasons) == 1:
        return reasons[0]
    columns = zip(*(map(int, NUMBER.findall(reason)) for reason in reasons), strict=True)
    ranges = [f"{min(column)}" if len(set(column)) == 1 else f"{min(column)} to {max(column)}" for column in columns]
    return "".join(word + number for word, number in zip(words, (*ranges, ""), strict=True))


def spent_words(lines: Sequence[Usage]) -> str:
    """The sums, and what they have cost as far as there is a price."""
    requests, retries = sum(one.requests for one in lines), sum(one.retries for one in lines)
    prompt, written = sum(one.prompt_tokens for one in lines), sum(one.tokens for one in lines)
    words = (
        f"{count_noun(requests, 'request')}, {retries:,} retried, {prompt:,} prompt tokens and {written:,} generated"
    )
    unmetered, unpriced = sum(one.unmetered for one in lines), sum(one.requests for one in lines if not one.priced)
    if unmetered:
        words += f" (without {count_noun(unmetered, 'answer')} that came without a count)"
    if any(one.priced for one in lines):
        words += f", which cost {sum(one.cost for one in lines):.4f}"
        words += f" (without {count_noun(unpriced, 'request')} made when no price was said)" if unpriced else ""
    return words
