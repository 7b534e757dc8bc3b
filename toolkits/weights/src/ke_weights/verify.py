"""An edited model against a suite of facts: ``ke verify``.

A suite is a file of JSON lines: ``{"kind": "changed", "prompt": "...", "expect": "...", "not": "..."}``.

=========== ==========================================================================================
kind        passes where the edited model's greedy answer begins with ...
=========== ==========================================================================================
changed     one of ``expect``
paraphrase  one of ``expect`` (another way to ask for a changed fact)
kept        one of ``expect``; without ``expect``: is what the unedited model answers
=========== ==========================================================================================

A suite may also be an edit file (``prompt``, ``subject``, ``target_new``): the prompt is a ``changed`` check, and each
paraphrase a ``paraphrase`` check. ``expect`` is the new object; ``not`` is the old one, if it is given.

In all of them an answer that begins with one of ``not`` fails. Numbers:

=========== ==========================================================================================
efficacy    share of the ``changed`` that pass
paraphrase  share of the ``paraphrase`` that pass
kept        share of the ``kept`` that pass
drift       of the ``kept`` that pass on the unedited model, the share that does not on the edited one
preference  share of those with ``not``, kept ones aside, where ``expect`` is more probable than ``not``
=========== ==========================================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from attrs import field, frozen

from ke_core.app import FIELD_NAMES, SourceLine, edit_from, read_rows, text_field, texts_field
from ke_core.plugin import BadConfig, BadData, Session
from ke_weights.completions import Completion, PromptWithObjects, complete_prompts

if TYPE_CHECKING:
    from ke_weights.patches import StoredPatch
    from ke_weights.patches.checkpoint import LoadedHistory

Kind = Literal["changed", "kept", "paraphrase"]
KINDS: tuple[Kind, ...] = get_args(Kind)
METRICS = ("efficacy", "paraphrase", "kept", "drift", "preference")
FIELDS = ("kind", "prompt", "expect", "not", "id")


@frozen(kw_only=True)
class Check:
    """One line of a suite. ``wrong`` is its field ``not``."""

    id: str
    kind: Kind
    prompt: str
    expect: tuple[str, ...]
    wrong: tuple[str, ...]


@frozen(kw_only=True)
class Bound:
    """``--min`` (``least``) or ``--max`` of one number."""

    metric: str
    value: float
    least: bool

    def holds(self, value: float) -> bool:
        """Whether a number is within the bound, which belongs to it."""
        return value >= self.value if self.least else value <= self.value


@frozen(kw_only=True)
class CheckOutcome:
    """What came of one line: ``passed`` on the edited model, ``passed_before`` on the unedited one."""

    check: Check
    before: Completion
    after: Completion
    passed: bool
    passed_before: bool
    preferred: bool | None


@frozen(kw_only=True)
class Proportion:
    """A share, of ``n``; None of 0."""

    metric: str
    value: float | None
    n: int


@frozen(kw_only=True)
class Verification:
    """``missed``: the bounds that do not hold, with what was found."""

    checked: tuple[CheckOutcome, ...]
    numbers: tuple[Proportion, ...]
    missed: tuple[tuple[Bound, float], ...] = field(default=())


def read_suite(path: Path) -> tuple[Check, ...]:
    """Read a suite, or an edit file as one. Raises BadData that names file, line and field."""
    found = tuple(check for raw, place in read_rows(path) for check in _checks(raw, place))
    if not found:
        raise BadData(f"{path} holds no fact to check", hint=f"one JSON object a line: {', '.join(FIELDS)}")
    seen: set[str] = set()
    for one in found:
        if one.id in seen:
            raise BadData(f"two lines of {path} have the id {one.id!r}", hint="leave ids out, or make them distinct")
        seen.add(one.id)
    return found


def bounds(least: Sequence[str], most: Sequence[str]) -> tuple[Bound, ...]:
    """From ``efficacy=0.95`` after ``--min`` and ``--max``. Raises BadConfig."""
    return tuple(_bound(text, least=True) for text in least) + tuple(_bound(text, least=False) for text in most)


def needed(wanted: Sequence[Bound], suite: Sequence[Check]) -> None:
    """Raise BadConfig for a bound on a number that the suite cannot give, before a model is loaded."""
    kinds = {"efficacy": "changed", "paraphrase": "paraphrase", "kept": "kept", "drift": "kept"}
    for bound in wanted:
        kind = kinds.get(bound.metric)
        there = any(one.kind == kind if kind else one.wrong and one.expect and one.kind != "kept" for one in suite)
        if not there:
            what = f"kind {kind!r}" if kind else "'not' and 'expect'"
            raise BadConfig(f"{bound.metric} is bounded, and the suite has no line with {what}")


Answers = Callable[[Sequence[PromptWithObjects]], tuple[Mapping[str, Completion], Mapping[str, Completion]]]
"""From prompts to what the unedited and the edited model say, by id."""


def verify(answers: Answers, suite: Sequence[Check], wanted: Sequence[Bound]) -> Verification:
    """Check the answers of the unedited and of the edited model against the suite and the bounds."""
    prompts = [
        PromptWithObjects(id=one.id, prompt=one.prompt, objects=_objects(one), expect=one.expect) for one in suite
    ]
    before, after = answers(prompts)
    checked = tuple(_checked(one, before[one.id], after[one.id]) for one in suite)
    numbers = tuple(_number(metric, checked) for metric in METRICS)
    values = {number.metric: number.value for number in numbers}
    missed: list[tuple[Bound, float]] = []
    for bound in wanted:
        value = values[bound.metric]
        if value is None:  # the suite has kept facts, as `needed` has seen to
            raise BadConfig(f"{bound.metric} is bounded, and the unedited model passes no kept fact of the suite")
        if not bound.holds(value):
            missed.append((bound, value))
    return Verification(checked=checked, numbers=numbers, missed=tuple(missed))


def failed(verification: Verification) -> list[CheckOutcome]:
    """The lines that do not pass; where a bound on preference is missed, also those that prefer the wrong object."""
    by_preference = any(bound.metric == "preference" for bound, _value in verification.missed)
    return [one for one in verification.checked if not one.passed or (by_preference and prefers_wrong(one))]


def prefers_wrong(one: CheckOutcome) -> bool:
    """Whether the edited model finds ``not`` as probable as ``expect``, or more; kept facts are not asked for that."""
    return one.preferred is False and one.check.kind != "kept"


def patch_answers(
    session: Session[Any], patch: StoredPatch, past: LoadedHistory | None, prompts: Sequence[PromptWithObjects]
) -> tuple[Mapping[str, Completion], Mapping[str, Completion]]:
    """What the model says without ``patch``, and with it; the model is left as it was.

    ``past``: of the edited checkpoint that the model was loaded from. Where the patch is in it, the model is the edited
    one as it stands. Raises BadPatch where the patch does not fit, or where patches made on it are in the model too.
    """
    from ke_weights.patches import applied, reverted  # noqa: PLC0415  imports torch

    others = [one for one in past.patches if one.id != patch.id] if past else []
    if past is not None and len(others) < len(past.patches):
        with reverted(session.model, past, others):
            without = _asked_afresh(session, prompts)
        return without, _asked_afresh(session, prompts)
    with applied(session.model, patch, past.history if past else None):
        edited = _asked_afresh(session, prompts)
    return _asked_afresh(session, prompts), edited


def _asked_afresh(session: Session[Any], prompts: Sequence[PromptWithObjects]) -> Mapping[str, Completion]:
    session.model.state()  # reads the weights afresh: the key of every answer from here on
    return complete_prompts(session, prompts)


def _checks(raw: Mapping[str, Any], place: SourceLine) -> list[Check]:
    is_edit = "kind" not in raw and any(FIELD_NAMES.get(name) in ("subject", "statement", "target_new") for name in raw)
    return _of_edit(raw, place) if is_edit or "requested_rewrite" in raw else [_check(raw, place)]


def _of_edit(raw: Mapping[str, Any], place: SourceLine) -> list[Check]:
    one = edit_from(raw, place)
    if not one.edit.prompt:
        raise place.wrong("statement", "alone cannot be checked", hint="add prompt, subject and target_new")
    prompts = (one.prompt, *one.paraphrases)
    return [
        Check(
            id=f"{one.edit.id}/{number}" if number else one.edit.id,
            kind="paraphrase" if number else "changed",
            prompt=prompt,
            expect=(one.target,),
            wrong=(one.old,) if one.old else (),
        )
        for number, prompt in enumerate(prompts)
    ]


def _check(raw: Mapping[str, Any], place: SourceLine) -> Check:
    for name in raw:
        if name not in FIELDS:
            raise place.wrong(name, "is not a field of a suite", hint=f"fields: {', '.join(FIELDS)}")
    kind = text_field(raw, "kind", place, needed=True)
    if kind not in KINDS:
        raise place.wrong("kind", f"is {kind!r}", hint=f"one of: {', '.join(KINDS)}")
    expect = texts_field(raw, "expect", place)
    if kind != "kept" and not expect:
        raise place.wrong("expect", "is missing or empty", hint="only kept facts can do without: they are compared")
    prompt = text_field(raw, "prompt", place, needed=True)
    return Check(
        id=text_field(raw, "id", place) or str(place.line),
        kind=kind,
        prompt=prompt,
        expect=expect,
        wrong=texts_field(raw, "not", place),
    )


def _bound(text: str, *, least: bool) -> Bound:
    name, equals, value = text.partition("=")
    flag = "--min" if least else "--max"
    try:
        number = float(value)
    except ValueError as error:
        raise BadConfig(f"{flag} {text}: not a number", hint=f"write {flag} {METRICS[0]}=0.95") from error
    if not equals or name not in METRICS:
        raise BadConfig(f"{flag} {text}: there is no {name!r}", hint=f"one of: {', '.join(METRICS)}")
    if not 0 <= number <= 1:  # NaN too
        raise BadConfig(f"{flag} {text}: a share lies between 0 and 1", hint=f"write {flag} {name}=0.95")
    return Bound(metric=name, value=number, least=least)


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


def _passes(one: Check, said: Completion, unedited: Completion) -> bool:
    right = said.begins_with(one.expect) if one.expect else said.text == unedited.text
    return right and not said.begins_with(one.wrong)


def _number(metric: str, checked: Sequence[CheckOutcome]) -> Proportion:
    kind = {"efficacy": "changed", "drift": "kept"}.get(metric, metric)
    if metric == "preference":
        found = [not prefers_wrong(one) for one in checked if one.preferred is not None and one.check.kind != "kept"]
    elif metric == "drift":
        found = [not one.passed for one in checked if one.check.kind == kind and one.passed_before]
    else:
        found = [one.passed for one in checked if one.check.kind == kind]
    return Proportion(metric=metric, value=sum(found) / len(found) if found else None, n=len(found))
