"""Try several editors on a file of facts, with a growing number of facts: ``ke advise``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from time import perf_counter

from attrs import frozen

import ke_core as ke
from ke_core.app import EditedModel, Model
from ke_core.plugin import BadConfig
from ke_plugin_facts.fact_file import ManagedFact, suite_of
from ke_weights.completions import Completion
from ke_weights.verify import Check, compare_answers

UNEDITED = "none"
"""The candidate that edits nothing, which every trial contains."""


@frozen(kw_only=True)
class Trial:
    """One candidate with a number of facts. Fractions from 0 to 1; None if the file has no such test.

    ``consequences``: paraphrases of the facts that are answered as expected. ``damage``: facts to keep that
    the unedited model answers and the edited one does not.
    """

    editor: str
    facts: int
    efficacy: float | None
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
) -> Iterator[Trial]:
    """Yield the trials, by size and candidate. Each edits the first ``size`` facts at once, and is undone."""
    for size in sizes:
        edited = facts[:size]
        suite = suite_of(edited, keep)
        before = _answers(model, suite)
        for candidate in (UNEDITED, *candidates):
            started = perf_counter()
            with _active(model, candidate, edited, options) as answering:
                made = perf_counter()
                after = _answers(answering, suite)
                asked = perf_counter()
            found = compare_answers(before, after, suite, ())
            values = {number.metric: number.value for number in found.numbers}
            others = [one.passed for one in found.checked if one.check.kind == "paraphrase"]
            yield Trial(
                editor=candidate,
                facts=size,
                efficacy=values["efficacy"],
                consequences=sum(others) / len(others) if others else None,
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
