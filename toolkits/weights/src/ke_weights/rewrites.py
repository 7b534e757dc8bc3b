"""An edit for locate-and-edit methods: a prompt with a subject span, and the text that must follow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import frozen

from ke_core.plugin import NO_SUBJECT, SLOT, Cloze, Edit, UnsupportedEdit
from ke_weights.subject import SubjectTokens, encode, locate, target_ids


@frozen(kw_only=True)
class Rewrite:
    """``prompt`` ends where the target starts, without trailing space. ``span``: characters of its subject.

    ``span`` is None for an edit without a subject.
    """

    id: str
    prompt: str
    span: tuple[int, int] | None
    target: str

    @property
    def subject(self) -> str:
        """The subject as written in the prompt. Raises UnsupportedEdit without one."""
        return self.prompt[slice(*self._span())]

    def row(self, tokenizer: Any, template: str = SLOT) -> SubjectTokens:
        """Return the prompt after the left context of ``template``, whose slot is at its end."""
        left = template.removesuffix(SLOT)
        start, end = self._span()
        return locate(tokenizer, left + self.prompt, (len(left) + start, len(left) + end))

    def _span(self) -> tuple[int, int]:
        if self.span is None:
            raise UnsupportedEdit(
                f"edit {self.id!r} cannot be written into weights: {NO_SUBJECT}", hint="remove this edit"
            )
        return self.span


def rewrite(edit: Edit) -> Rewrite:
    """Return the rewrite of ``edit``. Raises UnsupportedEdit if it lacks a required field."""
    reason = _obstacle(edit)
    if reason:
        raise UnsupportedEdit(
            f"edit {edit.id!r} cannot be written into weights: {reason}",
            hint="add a cloze with its subject, and an object",
        )
    return Rewrite(id=edit.id, prompt=edit.prompt, span=_span(edit.cloze) if edit.cloze else None, target=edit.target)


def _span(cloze: Cloze) -> tuple[int, int]:
    """Return the characters of the subject without surrounding spaces, which may belong to other tokens."""
    start, end = cloze.span
    subject = cloze.prompt[start:end]
    return start + len(subject) - len(subject.lstrip()), end - (len(subject) - len(subject.rstrip()))


def as_rewrites(
    edits: Sequence[Edit], tokenizer: Any, room: int, *, needs_subject: bool = False, has_contexts: bool = False
) -> tuple[Rewrite, ...]:
    """Return ``edits`` as rewrites. Raises UnsupportedEdit for the first that ``unsupported_edits`` lists."""
    refused = unsupported_edits(edits, tokenizer, room, needs_subject=needs_subject, has_contexts=has_contexts)
    for name, reason in refused.items():
        raise UnsupportedEdit(f"edit {name!r} cannot be written into weights: {reason}", hint="remove this edit")
    return tuple(rewrite(edit) for edit in edits)


def unsupported_edits(
    edits: Sequence[Edit], tokenizer: Any, room: int, *, needs_subject: bool = False, has_contexts: bool = False
) -> Mapping[str, str]:
    """Return edits that cannot be made together, by id with the reason.

    ``room``: maximum tokens of prompt and target; with ``has_contexts``, after the longest left context.
    ``needs_subject``: refuse edits without a subject. Two edits of one prompt with different targets contradict each
    other: the first is made, the later is refused.
    """
    refused: dict[str, str] = {}
    holds: dict[str, tuple[Rewrite, str]] = {}
    for edit in edits:
        reason = NO_SUBJECT if needs_subject and edit.free_form else _obstacle(edit)
        if not reason:
            made = rewrite(edit)
            other, statement = holds.get(made.prompt, (made, edit.statement))
            length = len(encode(tokenizer, made.prompt)[0]) + len(target_ids(tokenizer, made.prompt, made.target))
            if other.target != made.target:
                reason = (
                    f"it contradicts edit {other.id!r} ({statement!r}): {made.prompt!r} cannot have both continuations"
                )
            elif length > room:
                reason = _too_long(length, room, has_contexts=has_contexts)
            else:
                holds.setdefault(made.prompt, (made, edit.statement))
        if reason:
            refused[edit.id] = reason
    return refused


def _too_long(length: int, room: int, *, has_contexts: bool) -> str:
    what = f"its prompt and target have {length} tokens"
    if not has_contexts:
        return f"{what}, more than {max(room, 0)}"
    if room > 0:
        return f"{what}, more than {room}, the model's context minus the longest left context"
    return (
        f"{what}, and the longest left context fills the model's context: give shorter ones with the option templates"
    )


def _obstacle(edit: Edit) -> str:
    if edit.free_form is not None:
        if not edit.prompt.strip() or not edit.target:
            return "its prompt is blank" if edit.target else "its new text is blank"
        return "its new text is the old one" if edit.target == edit.old_target else ""
    if edit.cloze is None or not edit.cloze.subject.strip():
        return "its subject is blank" if edit.cloze else "it has no cloze, so its prompt is unknown"
    if edit.after is None or not edit.after.objects:
        return "it has no new object"
    if not all(entity.label.strip() for entity in edit.after.objects):
        return "its new object is blank"
    return f"its new object {edit.target!r} is the old one" if edit.operation == "none" else ""
