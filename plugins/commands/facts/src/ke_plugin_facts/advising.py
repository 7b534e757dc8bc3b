"""Try several editors on a file of facts, with a growing number of facts: ``ke advise``."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from time import perf_counter
from typing import Any

from attrs import NOTHING, evolve, fields, frozen

from ke_core.app import Catalog, EditedModel, Model, ResolvedComponent, open_session, option_text, refuse_weightless
from ke_core.plugin import (
    Answer,
    BadConfig,
    BadData,
    Edited,
    EditFailed,
    Failure,
    Parse,
    PassthroughModel,
    Prompt,
    Question,
    canonical,
    digest,
    from_json,
    loads,
    to_json,
    with_room,
)
from ke_plugin_facts.fact_file import ManagedFact, suite_of
from ke_plugin_facts.line_chart import LinePanel, draw
from ke_weights.completions import DECODING, Completion
from ke_weights.suites import Check
from ke_weights.verify import compare_answers

UNEDITED = "none"
"""The candidate that edits nothing, which every trial contains."""
SHORT = evolve(DECODING, max_tokens=16)
"""The limit of the trials in benchmarks/advise.jsonl, so that their seconds per question can be compared."""


@frozen(kw_only=True)
class Trial:
    """One candidate with a number of facts. Fractions from 0 to 1; None if the file has no such test.

    ``paraphrases`` and ``consequences``: tests of the facts that are answered as expected. ``forgetting``: kept facts
    that the unedited model answers and the edited one does not. ``key``: a digest of what was tried.
    """

    key: str
    editor: str
    facts: int
    efficacy: float | None
    paraphrases: float | None
    consequences: float | None
    forgetting: float | None
    seconds_per_fact: float
    seconds_per_question: float


@frozen(kw_only=True)
class Candidates:
    """A model, and the editors to try on it with their options, by the name that the user wrote."""

    model: Model
    catalog: Catalog
    editors: Mapping[str, ResolvedComponent[Any]]
    seed: int = 0

    def key(
        self, name: str, edited: Sequence[ManagedFact], requests: Sequence[Question], suite: Sequence[Check]
    ) -> str:
        """Return a digest of a trial. The seed 0 and short answers add nothing to it, so earlier keys stay valid."""
        options = _options(self.editors[name]) if name in self.editors else {}
        long = [one.texts[0] for one in requests if one.prompt.decoding != SHORT]
        more = [*([self.seed] if self.seed else []), *long]
        tried = (self.model.model.digest, name, options, [one.given.edit for one in edited], suite, *more)
        return digest(to_json(tried))[:16]

    def active(self, name: str, edited: Sequence[ManagedFact]) -> AbstractContextManager[Edited]:
        """Return a context with what answers: the model itself, or the model with the facts edited.

        Completions are not cached, so that all of them are measured. Raises KEError for a model that the editor cannot
        edit.
        """
        session = open_session(
            self.model.model, catalog=self.catalog, seed=self.seed, progress=self.model.progress, material={},
            remember=False,
        )  # fmt: skip
        if name == UNEDITED:
            return nullcontext(PassthroughModel(session))
        refuse_weightless(self.editors[name].spec, self.model.model)
        editor = evolve(self.editors[name])  # without what an earlier trial left in the instance
        return EditedModel(model=self.model, editor=editor, session=session).active(tuple(one.given for one in edited))


def _options(editor: ResolvedComponent[Any]) -> dict[str, str]:
    """Return the options that differ from the defaults, as after ``-o``."""
    config, options = editor.config, editor.component.options
    required = {one.name: getattr(config, one.name) for one in fields(type(config)) if one.default is NOTHING}
    default = type(config)(**required)
    return {
        name: option_text(value, name)
        for name, value in options.items()
        if name in required or getattr(config, name) != getattr(default, name)
    }


def trials(
    candidates: Candidates,
    facts: Sequence[ManagedFact],
    keep: Sequence[Check],
    sizes: Sequence[int],
    *,
    known: Mapping[str, Trial],
) -> Iterator[Trial]:
    """Yield the trials, by size and candidate. Each edits the first ``size`` facts at once, and is undone.

    ``known``: earlier trials by key, which are not repeated.
    """
    for size in sizes:
        edited = facts[:size]
        suite = suite_of(edited, keep)
        requests = questions(suite)
        before: Mapping[str, Completion] = {}
        for name in (UNEDITED, *candidates.editors):
            key = candidates.key(name, edited, requests, suite)
            if key in known:
                yield known[key]
                continue
            if name != UNEDITED and not before:
                with candidates.active(UNEDITED, ()) as unedited:
                    before = _answers(unedited, requests, suite)
            started = perf_counter()
            with candidates.active(name, edited) as answering:
                made = perf_counter()
                after = _answers(answering, requests, suite)
                asked = perf_counter()
            before = before or after
            found = compare_answers(before, after, suite, ())
            values = {number.metric: number.value for number in found.numbers}
            yield Trial(
                key=key,
                editor=name,
                facts=size,
                efficacy=values["efficacy"],
                paraphrases=values["paraphrase"],
                consequences=values["consequence"],
                forgetting=values["forgetting"],
                seconds_per_fact=(made - started) / size if name != UNEDITED else 0.0,
                seconds_per_question=(asked - made) / len(suite),
            )


def questions(suite: Sequence[Check]) -> list[Question]:
    """Return the requests, with room for the expected answers, as ``ke apply`` verifies them."""
    plain = Parse(until="")
    prompts = [with_room(Prompt(text=one.prompt, decoding=SHORT, parse=plain), one.expect) for one in suite]
    return [
        Question(id=f"advise/{number}", case="advise", query="", texts=(one.text,), form="cloze", prompt=one)
        for number, one in enumerate(prompts)
    ]


def _answers(answering: Edited, requests: Sequence[Question], suite: Sequence[Check]) -> dict[str, Completion]:
    """Return the completions by the ids of the checks. Raises EditFailed if a request fails."""
    found = {}
    for one, reply in zip(suite, answering.answer(requests), strict=True):
        if isinstance(reply, Failure):
            raise EditFailed(f"the model cannot complete the prompt of {one.id!r}: {reply.message}")
        assert isinstance(reply, Answer)
        found[one.id] = Completion(text=reply.text.strip())
    return found


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
        "forgetting, %": "forgetting",
    }  # fmt: skip
    times = {"seconds per fact": "seconds_per_fact", "seconds per question": "seconds_per_question"}
    drawn = {title: lines(name, 100) for title, name in rates.items()}
    panels = [LinePanel(title=title, lines=found, ticks=percent) for title, found in drawn.items() if found]
    for title, name in times.items():
        panels.append(LinePanel(title=title, lines=(found := lines(name)), ticks=_decades(found), logarithmic=True))
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
