"""Hidden states from which a model generates a long answer, one per window of the answer (AnyEdit section 4).

The answer is divided into windows of tokens. For each window in turn, block L gets an offset at the token just before
the window, optimized for

    mean over the window's tokens o_j of -log p(o_j | question, earlier tokens of the answer)  +  decay |delta| / |h|^2

while the states of the earlier windows stay in place. One window for the whole answer is UnKE's target (section 3.2).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from attrs import frozen
from torch import Tensor

from ke_core.plugin import Session
from ke_weights.modules import ModuleMap
from ke_weights.optimize import OptimizedTarget, TargetRows, TargetSettings
from ke_weights.rewrites import Rewrite
from ke_weights.subject import SubjectTokens, answer_ids, encode
from ke_weights.targets import optimize_in_groups


@frozen(kw_only=True, eq=False)
class AnswerStates:
    """The targets of one edit: the output of a block at ``positions`` of ``ids``, which end at the last of them."""

    id: str
    ids: tuple[int, ...]
    positions: tuple[int, ...]
    targets: tuple[OptimizedTarget, ...]

    @property
    def z(self) -> Tensor:
        """The states as rows, [positions, d]."""
        return torch.stack([target.z for target in self.targets])

    def report(self) -> dict[str, Any]:
        """Return JSON values for the record: of each window the steps, the loss, and |delta| / |h|."""
        windows = [{"steps": made.steps, "loss": made.loss, "change": made.change} for made in self.targets]
        return {"windows": windows}


@frozen(kw_only=True)
class LongTarget:
    """Token ids of a question and of its new answer."""

    question: tuple[int, ...]
    answer: tuple[int, ...]

    def until(self, start: int) -> tuple[int, ...]:
        """Return the ids before token ``start`` of the answer."""
        return self.question + self.answer[:start]


def answer_states(
    session: Session[Any],
    modules: ModuleMap,
    rewrites: Sequence[Rewrite],
    settings: TargetSettings,
    *,
    window: int = 0,
    ending: Sequence[int] = (),
) -> list[AnswerStates]:
    """Optimize the states of each edit on the current model. Raises EditFailed, which names the edit.

    ``window``: tokens per window; 0: one window for the whole answer. ``ending``: ids after each answer.
    """
    answers = [_answer(session.model, made, ending) for made in rewrites]
    size = window or max(len(one.answer) for one in answers)
    found: list[list[OptimizedTarget]] = [[] for _ in rewrites]
    for start in range(0, max(len(one.answer) for one in answers), size):
        places = [at for at, one in enumerate(answers) if start < len(one.answer)]
        plans = [_window(rewrites[at], answers[at], start, size, found[at]) for at in places]
        made: dict[int, OptimizedTarget] = {}
        optimize_in_groups(session, modules, plans, settings, made.__setitem__)
        for number, at in enumerate(places):
            found[at].append(made[number])
    return [_states(*each, size) for each in zip(rewrites, answers, found, strict=True)]


def _answer(model: Any, made: Rewrite, ending: Sequence[int]) -> LongTarget:
    """Return the ids of one edit. A chat model reads the question in its chat format, as when it answers."""
    target = answer_ids(model, made.prompt, made.target)
    question = model.encode(made.prompt) if model.chat else encode(model.tokenizer, made.prompt)[0]
    return LongTarget(question=tuple(question), answer=(*target, *ending))


def _window(made: Rewrite, answer: LongTarget, start: int, size: int, earlier: Sequence[OptimizedTarget]) -> TargetRows:
    """Return the row of one window; its offset is at the last token before the window."""
    before, window = answer.until(start), answer.answer[start : start + size]
    held = tuple((len(answer.until(number * size)) - 1, target.z) for number, target in enumerate(earlier))
    row = SubjectTokens(before, len(before) - 1).plus(window)
    return TargetRows(rewrite=made, rows=(row,), essence=None, target=window, held=held)


def _states(made: Rewrite, answer: LongTarget, targets: Sequence[OptimizedTarget], size: int) -> AnswerStates:
    ends = [len(answer.until(number * size)) for number in range(len(targets))]
    return AnswerStates(
        id=made.id,
        ids=answer.until((len(targets) - 1) * size),
        positions=tuple(end - 1 for end in ends),
        targets=tuple(targets),
    )
