"""Check an edited model against a suite of facts: ``ke verify``.

The module ``suites`` defines the checks. In all kinds, an answer that begins with one of ``not`` fails. Numbers:

=========== ==========================================================================================
efficacy    fraction of ``changed`` that pass
paraphrase  fraction of ``paraphrase`` that pass
consequence fraction of ``consequence`` that pass
kept        fraction of ``kept`` that pass
forgetting  of the ``kept`` that pass on the unedited model, the fraction that fails on the edited one
preference  fraction of those with ``not``, except kept ones, where ``expect`` is more probable than ``not``
=========== ==========================================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import field, frozen

from ke_core.app import Catalog, untouched
from ke_core.plugin import BadConfig, Session
from ke_plugin_hf.model import HFModel
from ke_weights.bounds import Bound
from ke_weights.completions import Completion, PromptWithObjects, complete_prompts
from ke_weights.patches.apply import applied
from ke_weights.patches.checkpoint import LoadedHistory, reverted
from ke_weights.patches.format import StoredPatch
from ke_weights.saved_edits import SavedEdit, opened_edit
from ke_weights.suites import METRICS, Check


@frozen(kw_only=True)
class CheckOutcome:
    """Result of one line: ``passed`` on the edited model, ``passed_before`` on the unedited one."""

    check: Check
    before: Completion
    after: Completion
    passed: bool
    passed_before: bool
    preferred: bool | None


@frozen(kw_only=True)
class Proportion:
    """A fraction of ``n``; None if n is 0."""

    metric: str
    value: float | None
    n: int


@frozen(kw_only=True)
class Verification:
    """``missed``: the bounds that do not hold, with the values."""

    checked: tuple[CheckOutcome, ...]
    numbers: tuple[Proportion, ...]
    missed: tuple[tuple[Bound, float], ...] = field(default=())


Answers = Callable[[Sequence[PromptWithObjects]], tuple[Mapping[str, Completion], Mapping[str, Completion]]]
"""From prompts to the completions of the unedited and the edited model, by id."""


def verify(answers: Answers, suite: Sequence[Check], wanted: Sequence[Bound]) -> Verification:
    """Check the answers of the unedited and of the edited model against the suite and the bounds."""
    before, after = answers(suite_prompts(suite))
    return compare_answers(before, after, suite, wanted)


def suite_prompts(suite: Sequence[Check]) -> list[PromptWithObjects]:
    """Return the prompts of a suite."""
    return [PromptWithObjects(id=one.id, prompt=one.prompt, objects=_objects(one), expect=one.expect) for one in suite]


def compare_answers(
    before: Mapping[str, Completion], after: Mapping[str, Completion], suite: Sequence[Check], wanted: Sequence[Bound]
) -> Verification:
    """Check the completions of the unedited and of the edited model, by id."""
    checked = tuple(_checked(one, before[one.id], after[one.id]) for one in suite)
    numbers = tuple(_number(metric, checked) for metric in METRICS)
    values = {number.metric: number.value for number in numbers}
    missed: list[tuple[Bound, float]] = []
    for bound in wanted:
        value = values[bound.metric]
        if value is None:  # the suite has kept facts, as `needed` has checked
            raise BadConfig(
                f"{bound.metric} has a bound, but the unedited model passes no kept fact of the suite",
                hint="add kept facts that the unedited model knows, or remove the bound",
            )
        if not bound.holds(value):
            missed.append((bound, value))
    return Verification(checked=checked, numbers=numbers, missed=tuple(missed))


def failed(verification: Verification) -> list[CheckOutcome]:
    """Return the lines that fail; with a missed bound on preference, also those that prefer the wrong object."""
    by_preference = any(bound.metric == "preference" for bound, _value in verification.missed)
    return [one for one in verification.checked if not one.passed or (by_preference and prefers_wrong(one))]


def prefers_wrong(one: CheckOutcome) -> bool:
    """Return whether ``not`` is at least as probable as ``expect`` on the edited model; kept facts do not count."""
    return one.preferred is False and one.check.kind != "kept"


def patch_answers(
    session: Session[HFModel], patch: StoredPatch, past: LoadedHistory | None, prompts: Sequence[PromptWithObjects]
) -> tuple[Mapping[str, Completion], Mapping[str, Completion]]:
    """Return the completions without ``patch`` and with it. The model is unchanged afterwards.

    ``past``: history of the edited checkpoint that the model was loaded from. If it contains the patch, the model is
    the edited one. Raises BadPatch if the patch does not fit, or if the model contains patches made on top of it.
    """
    others = [one for one in past.patches if one.id != patch.id] if past else []
    if past is not None and len(others) < len(past.patches):
        with reverted(session.model, past, others):
            without = _complete_uncached(session, prompts)
        return without, _complete_uncached(session, prompts)
    with applied(session.model, patch, past.history if past else None):
        edited = _complete_uncached(session, prompts)
    return _complete_uncached(session, prompts), edited


def adaptor_answers(
    session: Session[HFModel], folder: Path, saved: SavedEdit, catalog: Catalog, prompts: Sequence[PromptWithObjects]
) -> tuple[Mapping[str, Completion], Mapping[str, Completion]]:
    """Return the completions without the saved edits, and with them."""
    with untouched(session.model), opened_edit(folder, saved, session, saved.editor_in(catalog)):
        edited = complete_prompts(session, prompts)
    return complete_prompts(session, prompts), edited


def _complete_uncached(session: Session[Any], prompts: Sequence[PromptWithObjects]) -> Mapping[str, Completion]:
    session.model.state()  # rereads the weights, whose digest is the cache key of completions
    return complete_prompts(session, prompts)


def _objects(one: Check) -> tuple[str, ...]:
    return (one.expect[0], one.wrong[0]) if one.expect and one.wrong else ()


def _checked(one: Check, before: Completion, after: Completion) -> CheckOutcome:
    return CheckOutcome(
        check=one,
        before=before,
        after=after,
        passed=_passes(one, after, before),
        passed_before=_passes(one, before, before),
        preferred=after.logprobs[0] > after.logprobs[1] if len(after.logprobs) > 1 else None,
    )


def _passes(one: Check, completion: Completion, unedited: Completion) -> bool:
    right = completion.begins_with(one.expect) if one.expect else completion.text == unedited.text
    return right and not completion.begins_with(one.wrong)


def _number(metric: str, checked: Sequence[CheckOutcome]) -> Proportion:
    kind = {"efficacy": "changed", "forgetting": "kept"}.get(metric, metric)
    if metric == "preference":
        found = [not prefers_wrong(one) for one in checked if one.preferred is not None and one.check.kind != "kept"]
    elif metric == "forgetting":
        found = [not one.passed for one in checked if one.check.kind == kind and one.passed_before]
    else:
        found = [one.passed for one in checked if one.check.kind == kind]
    return Proportion(metric=metric, value=sum(found) / len(found) if found else None, n=len(found))
