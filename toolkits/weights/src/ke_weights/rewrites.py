"""An edit as locate-and-edit methods see it: a prompt with a subject span, and the text that must follow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import frozen

from ke_core.plugin import SLOT, Edit, Fact, UnsupportedEdit
from ke_weights.subject import SubjectTokens, encode, locate, target_ids


@frozen(kw_only=True)
class Rewrite:
    """``prompt`` stops where the object starts, without a space at its end; ``span`` are its subject's characters."""

    id: str
    prompt: str
    span: tuple[int, int]
    target: str

    @property
    def subject(self) -> str:
        """The subject as it stands in the prompt."""
        return self.prompt[slice(*self.span)]

    def row(self, tokenizer: Any, template: str = SLOT) -> SubjectTokens:
        """The prompt behind the left context of ``template``, whose slot is at its end."""
        left = template.removesuffix(SLOT)
        start, end = self.span
        return locate(tokenizer, left + self.prompt, (len(left) + start, len(left) + end))


def rewrite(edit: Edit) -> Rewrite:
    """What ``edit`` asks of a decoder. Raises UnsupportedEdit where it lacks the form."""
    reason = _unfit(edit)
    if reason:
        raise UnsupportedEdit(
            f"edit {edit.id!r} cannot be written into weights: {reason}",
            hint="give it a cloze with its subject, and an object",
        )
    assert edit.cloze is not None
    assert edit.after is not None
    start, end = edit.cloze.span
    subject = edit.cloze.prompt[start:end]
    end -= len(subject) - len(subject.rstrip())  # a space behind it may belong to the next token
    return Rewrite(
        id=edit.id,
        prompt=edit.cloze.prompt.rstrip(),
        span=(start + len(subject) - len(subject.lstrip()), end),
        target=_target(edit.after),
    )


def as_rewrites(edits: Sequence[Edit], tokenizer: Any, room: int) -> tuple[Rewrite, ...]:
    """What ``edits``, made together, ask of a decoder. Raises UnsupportedEdit for the first in ``unmakeable``."""
    for name, reason in unsupported_edits(edits, tokenizer, room).items():
        raise UnsupportedEdit(f"edit {name!r} cannot be written into weights: {reason}", hint="leave it out")
    return tuple(rewrite(edit) for edit in edits)


def unsupported_edits(edits: Sequence[Edit], tokenizer: Any, room: int) -> Mapping[str, str]:
    """Which edits cannot be made together, and why, by id; ``room`` is how many tokens prompt and target may have.

    Two edits of one prompt with different targets contradict each other: the first is made, the later named.
    """
    refused: dict[str, str] = {}
    holds: dict[str, tuple[Rewrite, str]] = {}
    for edit in edits:
        reason = _unfit(edit)
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


def _target(after: Fact) -> str:
    """The object; of a set, all of it with commas between (CompKE prints no target of its one-to-many edits)."""
    return ", ".join(entity.label.strip() for entity in after.objects)


def _unfit(edit: Edit) -> str:
    if edit.cloze is None or not edit.cloze.subject.strip():
        return "its subject is blank" if edit.cloze else "it has no cloze, so its subject's place is unknown"
    if edit.after is None or not edit.after.objects:
        return "it names no new object"
    target = _target(edit.after)
    if not all(entity.label.strip() for entity in edit.after.objects):
        return "its new object is blank"
    if len(target.splitlines()) > 1:
        return "its new object has more than one line"
    return f"its new object {target!r} is the old one" if edit.operation == "none" else ""
