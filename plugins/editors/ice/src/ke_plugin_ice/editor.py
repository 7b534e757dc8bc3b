"""In-context editing, section 5 of Cohen et al. 2024: the prompt states the facts and then asks the question.

::

    Imagine that The capital of France is Lima.                  the edit, as a sentence (released code)
    Imagine that Lima would have been The capital of France.     or with the object first (paper)
    ...                                                          the benchmark's own prompt, unchanged

The weights are unchanged, questions are not decomposed, and there are no demonstrations. Several facts share one line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import frozen

from ke_core.plugin import Details, Edit, Edited, EditorRequest, Procedure, Reply, Session, UnsupportedEdit, put
from ke_memory.plugin import InContextModel, MemoryEditor, QuestionContext, before_prompt, one_line
from ke_plugin_ice import IceConfig

COPULAS = ("is", "are", "was", "were")


class IceModel(InContextModel):
    """A model with facts before each question."""

    def __init__(self, config: IceConfig, session: Session[Any], edits: Sequence[Edit]) -> None:
        self.profile = config.profile
        super().__init__(session, edits, choice=config.facts, k=config.k, encoder=config.encoder)
        self.opening = one_line("ke_plugin_ice", "opening.txt", config.prompts, option="ice.prompts")

    def solve(self, request: EditorRequest) -> Procedure[Reply]:
        """Send the prompt with the facts before it, or the prompt only if there are no facts."""
        shown: QuestionContext = yield from self.question_context(request)
        prefix = f"{self.opening} {shown.sentences}\n" if shown.facts else ""
        reply: Reply = yield from put(before_prompt(request, prefix))
        return shown.with_steps(reply)

    def fact_text(self, edit: Edit) -> str:
        """Return the statement, or the paper's form. Raises UnsupportedEdit if the edit has no such form."""
        if self.profile == "default":
            return edit.statement
        if why := paper_form_obstacle(edit):
            raise UnsupportedEdit(f"edit {edit.id!r}: {why}", hint="use -o ice.profile=default")
        return f"{_objects(edit)} would have been {_proposition(edit)}"

    @property
    def details(self) -> Details:
        """The facts, and the text before them."""
        return {**super().details, "opening": self.opening}


def paper_form_obstacle(edit: Edit) -> str:
    """Return why the paper's form cannot express ``edit``; empty if it can."""
    if edit.after is None or not edit.after.objects or edit.cloze is None:
        return "it has no cloze or no new object"
    return "" if _proposition(edit) else f"its cloze {edit.cloze.prompt!r} does not end in {' or '.join(COPULAS)}"


def _objects(edit: Edit) -> str:
    assert edit.after is not None
    return ", ".join(entity.label for entity in edit.after.objects)


def _proposition(edit: Edit) -> str:
    """Return the cloze without the verb at its end (P_r); empty if it ends with another word."""
    assert edit.cloze is not None
    words, _, verb = edit.cloze.prompt.strip().rpartition(" ")
    return words if verb in COPULAS else ""


@frozen
class Ice(MemoryEditor):
    """Editor whose edited model reads the edits before each question."""

    config: IceConfig

    def check(self, session: Session[Any], edits: Sequence[Edit]) -> Mapping[str, str]:
        """Refuse edits that the paper's form cannot express. The default form accepts every edit."""
        super().check(session, edits)
        return {edit.id: why for edit in edits if self.config.profile == "paper" and (why := paper_form_obstacle(edit))}

    @property
    def encoder(self) -> str | None:
        """The encoder, with retrieval."""
        return self.config.encoder if self.config.facts == "retrieved" else None

    def edited_model(self, session: Session[Any], edits: Sequence[Edit]) -> Edited:
        """Return the edited model. Raises BadConfig if ``prompts`` has no usable file."""
        return IceModel(self.config, session, edits)
