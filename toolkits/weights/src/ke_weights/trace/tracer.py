"""Trace facts: check whether the model knows a fact, and where its states carry it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import define, field
from torch import Tensor

from ke_weights.modules import ModuleMap, find_parts
from ke_weights.subject import target_ids
from ke_weights.trace.facts import TraceFact, tokens_of
from ke_weights.trace.naive import naive
from ke_weights.trace.noise import Noise, resolve_noise
from ke_weights.trace.runs import Recording, clean_answer, embedding_of, prompt, record
from ke_weights.trace.settings import SURE, FactTrace, TraceSettings
from ke_weights.trace.sweep import agrees, sweep

OTHERWISE = "answered otherwise"
UNSURE = f"answered with a probability below {SURE}"
TOO_LONG = "longer than the model's context"
DIGITS = 7  # significant digits of a float32


@define(eq=False)
class Tracer:
    """One model and its noise.

    ``exact``: one pass per intervention, because the user set it or because ``sweep`` gave other numbers on the first
    fact.
    """

    model: Any
    settings: TraceSettings
    modules: ModuleMap
    noise: Noise
    exact: bool
    _checked: bool = field(default=False, init=False)

    @classmethod
    def open(cls, model: Any, settings: TraceSettings, subjects: Sequence[str]) -> Tracer:
        """Find the model's parts and resolve the noise; ``subjects`` are all of the facts' file.

        Raises KEError for an unsupported model, BadConfig for an invalid noise rule.
        """
        modules = find_parts(model.module)
        noise = resolve_noise(settings.noise, settings.seed, modules, model.tokenizer, subjects)
        return cls(model, settings, modules, noise, settings.exact)

    def trace(self, fact: TraceFact) -> FactTrace:
        """Return one fact, traced, or skipped with the reason."""
        tokenizer = self.model.tokenizer
        ids, subject = tokens_of(tokenizer, fact)
        if len(ids) > self.model.context:
            return self._skipped(fact, "", 0.0, TOO_LONG)
        answer, high = clean_answer(self.modules, ids)
        word = tokenizer.decode([answer])
        reason = self._unknown(fact, answer, high)
        if reason:
            return self._skipped(fact, word, high, reason)
        width = int(embedding_of(self.modules).get_parameter("weight").shape[1])
        found = record(self.modules, prompt(ids, subject, self.noise, self.settings.samples, width))
        positions = range(len(ids)) if self.settings.tokens == "all" else range(subject[1] - 1, subject[1])
        return FactTrace(
            **_named(fact),
            answer=tokenizer.decode([found.answer]),
            correct_prediction=True,
            high_score=_short(found.high),
            low_score=_short(found.low),
            input_ids=ids,
            input_tokens=tuple(tokenizer.decode([token]) for token in ids),
            subject_range=subject,
            tokens=tuple(positions),
            scores={name: _table(table) for name, table in self._tables(found, positions).items()},
        )

    def _tables(self, found: Recording, positions: Sequence[int]) -> dict[str, Tensor]:
        curves, window = self.settings.curves, self.settings.window
        if not self.exact and not self._checked:
            self.exact = not agrees(self.modules, found, curves, window)
            self._checked = True
        if self.exact:
            return {curve.name: naive(self.modules, found, curve, positions, window) for curve in curves}
        return {curve.name: table for curve, table in sweep(self.modules, found, curves, positions, window).items()}

    def _unknown(self, fact: TraceFact, answer: int, high: float) -> str:
        """Return why the model does not know the fact; empty if it does."""
        if self.settings.filter == "published":
            return "" if self.model.tokenizer.decode([answer]).strip() == fact.attribute else OTHERWISE
        if answer != target_ids(self.model.tokenizer, fact.prompt, fact.attribute)[0]:
            return OTHERWISE
        return "" if high >= SURE else UNSURE

    def _skipped(self, fact: TraceFact, answer: str, high: float, reason: str) -> FactTrace:
        return FactTrace(
            **_named(fact), answer=answer, correct_prediction=reason == UNSURE, high_score=_short(high), skipped=reason
        )


def _named(fact: TraceFact) -> dict[str, Any]:
    return {"known_id": fact.id, "subject": fact.subject, "prompt": fact.prompt, "attribute": fact.attribute}


def _table(table: Tensor) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(_short(value) for value in row) for row in table.tolist())


def _short(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")
