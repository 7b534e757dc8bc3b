"""An edit as locate-and-edit methods see it: a prompt with a subject span, and the text that must follow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import frozen

from ke_core.plugin import NO_SUBJECT, SLOT, Cloze, Edit, UnsupportedEdit
from ke_weights.subject import SubjectTokens, encode, locate, target_ids


@frozen(kw_only=True)
class Rewrite:
    """``prompt`` stops where the target starts, without a space at its end; ``span`` are its subject's characters,
    None in an edit of free form.
    """

    id: str
    prompt: str
    span: tuple[int, int] | None
    target: str

    @property
    def subject(self) -> str:
        """The subject as it is written in the prompt. Raises UnsupportedEdit without one."""
        return self.prompt[slice(*self._span())]

    def row(self, tokenizer: Any, template: str = SLOT) -> SubjectTokens:
        """The prompt after the left context of ``template``, whose slot is at its end."""
        left = template.removesuffix(SLOT)
        start, end = self._span()
        return locate(tokenizer, left + self.prompt, (len(left) + start, len(left) + end))

    def _span(self) -> tuple[int, int]:
        if self.span is None:
            raise UnsupportedEdit(f"edit {self.id!r} cannot be written into weights: {NO_SUBJECT}", hint="leave it out")
        return self.span


def rewrite(edit: Edit) -> Rewrite:
    """What ``edit`` asks of a decoder. Raises UnsupportedEdit where it lacks the form."""
    reason = _unfit(edit)
    if reason:
        raise UnsupportedEdit(
            f"edit {edit.id!r} cannot be written into weights: {reason}",
            hint="give it a cloze with its subject, and an object",
        )
    return Rewrite(id=edit.id, prompt=edit.prompt, span=_span(edit.cloze) if edit.cloze else None, target=edit.target)


def _span(cloze: Cloze) -> tuple[int, int]:
    """The characters of the subject without spaces around it: a space after it may belong to the next token."""
    start, end = cloze.span
    subject = cloze.prompt[start:end]
    return start + len(subject) - len(subject.lstrip()), end - (len(subject) - len(subject.rstrip()))


def as_rewrites(
    edits: Sequence[Edit], tokenizer: Any, room: int, *, needs_subject: bool = False
) -> tuple[Rewrite, ...]:
    """Return ``edits`` as rewrites. Raises UnsupportedEdit for the first that ``unsupported_edits`` names."""
    for name, reason in unsupported_edits(edits, tokenizer, room, needs_subject=needs_subject).items():
        raise UnsupportedEdit(f"edit {name!r} cannot be written into weights: {reason}", hint="leave it out")
    return tuple(rewrite(edit) for edit in edits)


def unsupported_edits(
    edits: Sequence[Edit], tokenizer: Any, room: int, *, needs_subject: bool = False
) -> Mapping[str, str]:
    """Which edits cannot be made together, and why, by id; ``room`` is how many tokens prompt and target may have.

    ``needs_subject``: an edit of free form cannot be made either.
    Two edits of one prompt with different targets contradict each other: the first is made, the later named.
    """
    refused: dict[str, str] = {}
    holds: dict[str, tuple[Rewrite, str]] = {}
    for edit in edits:
        reason = NO_SUBJECT if needs_subject and edit.free_form else _unfit(edit)
        if not reason:
            made = rewrite(edit)
            other, said = holds.setdefault(made.prompt, (made, edit.statement))
            length = len(encode(tokenizer, made.prompt)[0]) + len(target_ids(tokenizer, made.prompt, made.target))
            if other.target != made.target:
                reason = f"it contradicts edit {other.id!r} ({said!r}): {made.prompt!r} cannot go on both ways"
            elif length > room:
                reason = f"its prompt and target have {length} tokens, and {room} fit"
        if reason:
            refused[edit.id] = reason
    return refused


def _unfit(edit: Edit) -> str:
    if edit.free_form is not None:
        if not edit.prompt.strip() or not edit.target:
            return "its prompt is blank" if edit.target else "its new text is blank"
        return "its new text is the old one" if edit.target == edit.old_target else ""
    if edit.cloze is None or not edit.cloze.subject.strip():
        return "its subject is blank" if edit.cloze else "it has no cloze, so its prompt is unknown"
    if edit.after is None or not edit.after.objects:
        return "it names no new object"
    if not all(entity.label.strip() for entity in edit.after.objects):
        return "its new object is blank"
    return f"its new object {edit.target!r} is the old one" if edit.operation == "none" else ""
