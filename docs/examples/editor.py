"""A memory editor: if a question names the subject of an edit, answer with the new object, else call the model."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from attrs import field, frozen

from ke_core.plugin import (
    Answer,
    Details,
    Edit,
    Edited,
    Editor,
    EditorRequest,
    EditorSpec,
    PassthroughModel,
    Question,
    Reply,
    Session,
    Step,
    UnsupportedChange,
    hookimpl,
)


@frozen(kw_only=True)
class RecallConfig:
    """Options of the method. ``ke show recall`` prints them with their help texts."""

    ignore_case: bool = field(default=True, metadata={"help": "ignore case when matching the subject"})


class Recall:
    """The editor: checks and applies edits."""

    def __init__(self, config: RecallConfig) -> None:
        self.config = config

    def check(self, session: Session[Any], edits: Sequence[Edit]) -> Mapping[str, str]:
        """Return the edits that cannot be applied, with the reason, before anything changes."""
        return {edit.id: "it has no subject" for edit in edits if edit.after is None or not edit.after.objects}

    @contextmanager
    def edit(self, session: Session[Any], edits: Sequence[Edit]) -> Iterator[Edited]:
        """Apply ``edits``. There is nothing to restore, because the model does not change."""
        if refused := self.check(session, edits):
            raise UnsupportedChange(f"cannot make edit {next(iter(refused))}", hint="give it a subject and an object")
        yield Memory(session, {edit.id: edit for edit in edits}, self.config)


class Memory:
    """The edited model, which answers requests."""

    def __init__(self, session: Session[Any], edits: dict[str, Edit], config: RecallConfig) -> None:
        self.model = PassthroughModel(session)
        self.edits = edits
        self.config = config
        self.details: Details = {"edits": len(edits)}

    def answer(self, requests: Sequence[EditorRequest]) -> Sequence[Reply]:
        """Answer from memory where possible. Send the rest to the model in one call, so that it is batched."""
        recalled = [self.recall(request) if isinstance(request, Question) else None for request in requests]
        asked = iter(
            self.model.answer([request for request, found in zip(requests, recalled, strict=True) if found is None])
        )
        return [found or next(asked) for found in recalled]

    def recall(self, request: Question) -> Answer | None:
        """Return the new object of the first edit whose subject the question names. Skip hidden edits."""
        for edit in self.edits.values():
            if edit.id not in request.hidden and edit.after and self.names(request.texts[0], edit.after.subject.label):
                return Answer(
                    text=edit.after.objects[0].label,
                    steps=(Step(kind="recalled", text=edit.statement, retrieved=(edit.id,)),),
                )
        return None

    def names(self, text: str, subject: str) -> bool:
        """Return whether the text names the subject."""
        return subject.lower() in text.lower() if self.config.ignore_case else subject in text

    def change(self, *, add: Sequence[Edit] = (), remove: Sequence[str] = ()) -> None:
        """Remove and add edits without rebuilding the edited model."""
        for edit_id in remove:
            del self.edits[edit_id]
        self.edits |= {edit.id: edit for edit in add}


def build(config: RecallConfig) -> Editor:
    """Build the editor when a command uses it. A method that needs torch imports its module here."""
    return Recall(config)


@hookimpl
def ke_editors() -> list[EditorSpec]:
    """Register the method."""
    return [EditorSpec(name="recall", summary="answer from memory", config=RecallConfig, build=build, masks=True)]
