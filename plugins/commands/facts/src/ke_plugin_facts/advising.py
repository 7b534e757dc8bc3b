"""Try several editors on a file of facts, with a growing number of facts: ``ke advise``."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from time import perf_counter

from attrs import frozen

import ke_core as ke
from ke_core.app import EditedModel, Model
from ke_core.plugin import BadConfig, BadData, canonical, digest, from_json, loads, to_json
from ke_plugin_facts.fact_file import ManagedFact, suite_of
from ke_plugin_facts.line_chart import Panel, draw
from ke_weights.completions import Completion
from ke_weights.suites import Check
from ke_weights.verify import compare_answers

UNEDITED = "none"
"""The candidate that edits nothing, which every trial contains."""


@frozen(kw_only=True)
class Trial:
    """One candidate with a number of facts. Fractions from 0 to 1; None if the file has no such test.

    ``paraphrases`` and ``consequences``: tests of the facts that are answered as expected. ``damage``: facts to keep
    that the unedited model answers and the edited one does not. ``key``: a digest of what was tried.
    """

    key: str
    editor: str
    facts: int
    efficacy: float | None
    paraphrases: float | None
    consequences: float | None
    damage: float | None
    seconds_per_fact: float
    seconds_per_question: float


def trials(
    model: Model,
    facts: Sequence[ManagedFact],
    keep: Sequence[Check],
    candidates: Sequence[str],
    sizes: Sequence[int],
    options: Mapping[str, Mapping[str, str]],
    *,
    known: Mapping[str, Trial],
) -> Iterator[Trial]:
    """Yield the trials, by size and candidate. Each edits the first ``size`` facts at once, and is undone.

    ``known``: earlier trials by key, which are not repeated.
    """
    for size in sizes:
        edited = facts[:size]
        given, suite = [one.given.edit for one in edited], suite_of(edited, keep)
        before: Mapping[str, Completion] = {}
        for candidate in (UNEDITED, *candidates):
            tried = (model.model.digest, candidate, options.get(candidate, {}), given, suite)
            key = digest(to_json(tried))[:16]
            if key in known:
                yield known[key]
                continue
            if candidate != UNEDITED:
                before = before or _answers(model, suite)
            started = perf_counter()
            with _active(model, candidate, edited, options) as answering:
                made = perf_counter()
                after = _answers(answering, suite)
                asked = perf_counter()
            before = before or after
            found = compare_answers(before, after, suite, ())
            values = {number.metric: number.value for number in found.numbers}
            yield Trial(
                key=key,
                editor=candidate,
                facts=size,
                efficacy=values["efficacy"],
                paraphrases=values["paraphrase"],
                consequences=values["consequence"],
                damage=values["drift"],
                seconds_per_fact=(made - started) / size if candidate != UNEDITED else 0.0,
                seconds_per_question=(asked - made) / len(suite),
            )


def _active(
    model: Model, editor: str, facts: Sequence[ManagedFact], options: Mapping[str, Mapping[str, str]]
) -> AbstractContextManager[Model | EditedModel]:
    """Return a context with what answers: the model itself, or the model with the facts edited."""
    if editor == UNEDITED:
        return nullcontext(model)
    return ke.edit(model, edits=[one.given for one in facts], editor=editor, options=options.get(editor, {}))


def _answers(answering: Model | EditedModel, suite: Sequence[Check]) -> dict[str, Completion]:
    texts = answering.generate([one.prompt for one in suite])
    return {one.id: Completion(text=text) for one, text in zip(suite, texts, strict=True)}


def read_trials(path: Path) -> dict[str, Trial]:
    """Return the trials of a file by key; a file that does not exist has none. Raises BadData for another file."""
    if not path.exists():
        return {}
    lines = enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
    hint = "choose another file for --out"
    try:
        trials = [from_json(loads(line), Trial, of=f"{path}:{at}", error=BadData, hint=hint) for at, line in lines]
    except ValueError as error:
        raise BadData(f"{path} is not a file of trials: {error}", hint=hint) from error
    return {one.key: one for one in trials}


def add_trial(path: Path, trial: Trial) -> None:
    """Append a trial to a file."""
    with path.open("a", encoding="utf-8") as file:
        file.write(f"{canonical(to_json(trial))}\n")


def chart(trials: Sequence[Trial]) -> str:
    """Return one SVG chart for each measurement over the number of facts, which has two values or more."""

    def lines(name: str, factor: float = 1.0) -> dict[str, list[tuple[float, float]]]:
        found: dict[str, list[tuple[float, float]]] = {}
        for one in trials:
            value: float | None = getattr(one, name)
            if value or (value == 0 and name not in times.values()):  # the unedited model needs no time per fact
                found.setdefault(one.editor, []).append((one.facts, factor * value))
        return found

    percent = (0, 20, 40, 60, 80, 100)
    rates = {
        "answered, %": "efficacy", "paraphrases, %": "paraphrases", "consequences, %": "consequences",
        "damage, %": "damage",
    }  # fmt: skip
    times = {"seconds per fact": "seconds_per_fact", "seconds per question": "seconds_per_question"}
    drawn = {title: lines(name, 100) for title, name in rates.items()}
    panels = [Panel(title=title, lines=found, ticks=percent) for title, found in drawn.items() if found]
    for title, name in times.items():
        panels.append(Panel(title=title, lines=(found := lines(name)), ticks=_decades(found), logarithmic=True))
    return draw("Editors by the number of facts", panels, sorted({one.facts for one in trials}), "facts")


def _decades(lines: Mapping[str, Sequence[tuple[float, float]]]) -> list[float]:
    """Return the powers of ten around all values."""
    values = [math.log10(value) for points in lines.values() for _size, value in points] or [0.0]
    low, high = math.floor(min(values)), math.ceil(max(values))
    return [10.0**power for power in range(low, max(high, low + 1) + 1)]


def numbers(text: str, most: int) -> tuple[int, ...]:
    """Parse ``5,20``; empty: ``most``, the number of facts. Raises BadConfig."""
    if not text.strip():
        return (most,)
    try:
        found = tuple(int(part) for part in text.split(","))
    except ValueError as error:
        raise BadConfig(f"--sizes {text}: not numbers", hint="write --sizes 5,20") from error
    if wrong := [one for one in found if not 1 <= one <= most]:
        raise BadConfig(f"--sizes {text}: {wrong[0]} facts, and the file has {most}", hint=f"use 1 to {most}")
    return found
