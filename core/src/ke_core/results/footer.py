"""The notes of a report: lost answers, warnings about judges, forms of the edited fact, and usage of servers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from attrs import frozen

from ke_core.results.agreement import agreement_warning
from ke_core.results.formatting import count_noun
from ke_core.results.reported import Reported, headings, run_labels, without_model
from ke_core.spec.codec import canonical
from ke_core.spec.records import Usage
from ke_core.spec.runspec import Component

WARNING = "warning"
ENDINGS = {
    "unparsed": "not in the expected form", "hop-cap": "too many steps", "length": "cut off at the token limit",
}  # fmt: skip


def score_warnings(runs: Sequence[Reported]) -> list[str]:
    """Return the warnings about judges and metrics: those with different options or models in runs on one dataset, and
    judges with too little agreement with labels written by people.
    """
    found: dict[str, list[str]] = {}
    judged: dict[str, dict[str, list[str]]] = {}
    scored: dict[str, dict[str, list[str]]] = {}
    for label, run in zip(run_labels(runs), runs, strict=True):
        judge, dataset = run.tally.judge, run.spec.dataset.component.name
        for metric in run.metrics:
            scored.setdefault(f"{metric.name} on {dataset}", {}).setdefault(_settings(metric), []).append(label)
        if judge is not None:
            judged.setdefault(dataset, {}).setdefault(_settings(judge), []).append(label)
            if warned := agreement_warning(judge):
                found.setdefault(warned, []).append(label)
    differ = [f"runs on {on} were judged differently: {who}; see ke judge" for on, who in _against(judged)]
    differ += [f"the options of {what} differ: {who}; see ke score" for what, who in _against(scored)]
    return differ + [
        words + (f" ({', '.join(whose)})" if len(whose) < len(runs) else "") for words, whose in found.items()
    ]


def _settings(component: Component) -> str:
    return canonical([component.name, component.options, component.model and component.model.id])


def _against(groups: Mapping[str, Mapping[str, Sequence[str]]]) -> Iterator[tuple[str, str]]:
    """Yield each name that has several groups of labels, and the groups in words."""
    for name, labels in groups.items():
        if len(labels) > 1:
            yield name, " against ".join(map(", ".join, labels.values()))


def form_notes(runs: Sequence[Reported]) -> Iterator[str]:
    """Yield a line for each dataset on which some editors are asked for the edited fact as a cloze, others not."""
    forms: dict[str, dict[str, list[str]]] = {}
    for label, run in zip(run_labels(runs), runs, strict=True):
        if not without_model(run.spec):
            forms.setdefault(run.spec.dataset.component.name, {}).setdefault(run.spec.edited_form, []).append(label)
    for dataset, found in forms.items():
        if len(found) > 1:
            each = " and ".join(f"as a {form} ({', '.join(labels)})" for form, labels in found.items())
            yield f"note: edited facts of {dataset} are asked {each}; for one form, evaluate with --edited-form"


@frozen(kw_only=True)
class Loss:
    """A kind of missing or wrong answer: its names, and its reasons with their counts.

    ``important``: the short report prints a warning.
    """

    one: str
    many: str
    reasons: Counter[str]
    style: str = "yellow"
    important: bool = True


def losses(run: Reported) -> list[Loss]:
    """Return every kind of loss of a run, also those without a case."""
    tally, wrong = run.tally, "counted as wrong"
    failed, cut = alike(tally.failures), Counter({ENDINGS[name]: n for name, n in tally.unfinished.items()})
    return [
        Loss(one=f"failed reply, {wrong}", many=f"failed replies, {wrong}", reasons=failed, style="red"),
        Loss(one="case skipped", many="cases skipped", reasons=tally.skipped),
        Loss(one="edit refused by the editor", many="edits refused by the editor", reasons=tally.refused),
        Loss(one="batch with a warning", many="batches with a warning", reasons=tally.warned),
        Loss(one=f"incomplete answer, {wrong}", many=f"incomplete answers, {wrong}", reasons=cut, style="",
             important=False),
        Loss(one="missing observation", many="missing observations", reasons=_unmeasured(run), important=False),
    ]  # fmt: skip


def unfinished(run: Reported) -> str:
    """Return how many cases have no answers of the edited model yet. Empty for a finished run.

    In a sequential run, each case may have answers, but not of every step.
    """
    tally = run.tally
    if 0 < tally.done < tally.total:
        left = tally.total - tally.done
        return f"not finished: {left:,} of {count_noun(tally.total, 'case')} have no answers of the edited model yet"
    return "" if run.complete else "not finished: some of its planned requests have no answer yet"


def without_values(run: Reported) -> Iterator[tuple[str, Counter[str]]]:
    """Yield each metric of which all values are missing, with the reasons and their counts.

    A metric that does not apply, such as one about retrieval for an editor without it, yields no missing values either.
    """
    for metric in run.metrics:
        scores = [score for score in run.scores if score.metric == metric.name]
        missing = (Counter(score.skipped_because) for score in scores if not score.tags)
        reasons = sum(missing, Counter[str]())
        if reasons and not any(score.n for score in scores):
            yield metric.name, reasons


def _unmeasured(run: Reported) -> Counter[str]:
    """Count missing values by heading, phase and reason."""
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
    """Merge reasons that differ only in numbers. The merged text has the range of each number."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for reason in reasons:
        groups.setdefault(tuple(NUMBER.split(reason)), []).append(reason)
    found = Counter[str]()
    for words, same in groups.items():
        found[_told(words, same)] += sum(reasons[one] for one in same)
    return found


def _told(words: tuple[str, ...], reasons: list[str]) -> str:
    if len(reasons) == 1:
        return reasons[0]
    columns = zip(*(map(int, NUMBER.findall(reason)) for reason in reasons), strict=True)
    ranges = [f"{min(column)}" if len(set(column)) == 1 else f"{min(column)} to {max(column)}" for column in columns]
    return "".join(word + number for word, number in zip(words, (*ranges, ""), strict=True))


def spent_words(lines: Sequence[Usage]) -> str:
    """Return the total usage in words, with the cost if prices are known."""
    requests, retries = sum(one.requests for one in lines), sum(one.retries for one in lines)
    prompt, written = sum(one.prompt_tokens for one in lines), sum(one.tokens for one in lines)
    words = count_noun(requests, "request") + (f", {retries:,} retried" if retries else "")
    words += f", {prompt:,} prompt tokens and {written:,} generated"
    unmetered, unpriced = sum(one.unmetered for one in lines), sum(one.requests for one in lines if not one.priced)
    if unmetered:
        words += f" (plus {count_noun(unmetered, 'answer')} without a token count)"
    if any(one.priced for one in lines):
        words += f", which cost {sum(one.cost for one in lines):.4f}"
        words += f" (plus {count_noun(unpriced, 'request')} without a price)" if unpriced else ""
    return words
