"""In-context editing, section 5 of Cohen et al. 2024: the model is told what to suppose, and then asked.

::

    Imagine that The capital of France is Lima.                  the edit, as a sentence (released code)
    Imagine that Lima would have been The capital of France.     or with the object first (paper)
    ...                                                          the benchmark's own prompt, as it stands

No weight changes, nothing is taken apart, no demonstrations. Several facts follow one another in the same line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import frozen

from ke_core.plugin import (
    Ask,
    BadConfig,
    Details,
    Edit,
    Edited,
    Procedure,
    Reply,
    Session,
    UnsupportedEdit,
    prompt_text,
    put,
)
from ke_memory.plugin import InContextModel, MemoryEditor, QuestionContext, before_prompt
from ke_plugin_ice import IceConfig

COPULAS = ("is", "are", "was", "were")


class IceModel(InContextModel):
    """A model that is told what to suppose before each question."""

    def __init__(self, config: IceConfig, session: Session[Any], edits: Sequence[Edit]) -> None:
        self.profile = config.profile
        super().__init__(session, edits, choice=config.facts, k=config.k, encoder=config.encoder)
        self.opening = opening(config.prompts)

    def solve(self, ask: Ask) -> Procedure[Reply]:
        """Ask with the facts before the prompt; without facts, with the prompt alone."""
        shown: QuestionContext = yield from self.shown(ask)
        prefix = f"{self.opening} {shown.sentences}\n" if shown.facts else ""
        reply: Reply = yield from put(before_prompt(ask, prefix))
        return shown.on_record(reply)

    def worded(self, edit: Edit) -> str:
        """As its statement, or as the paper has it. Raises UnsupportedEdit for one that it has no words for."""
        if self.profile == "released":
            return edit.statement
        if why := unfit(edit):
            raise UnsupportedEdit(f"edit {edit.id!r}: {why}", hint="take ice.profile=released")
        return f"{_objects(edit)} would have been {_proposition(edit)}"

    @property
    def details(self) -> Details:
        """The facts, and the words before them."""
        return {**super().details, "opening": self.opening}


def unfit(edit: Edit) -> str:
    """Why the paper's form has no words for ``edit``; empty where it has."""
    if edit.after is None or not edit.after.objects or edit.cloze is None:
        return "it names no cloze or no new object"
    return "" if _proposition(edit) else f"its cloze {edit.cloze.prompt!r} does not end in {' or '.join(COPULAS)}"


def _objects(edit: Edit) -> str:
    assert edit.after is not None
    return ", ".join(entity.label for entity in edit.after.objects)


def _proposition(edit: Edit) -> str:
    """P_r: the cloze without the verb at its end; empty where another word stands there."""
    assert edit.cloze is not None
    words, _, verb = edit.cloze.prompt.strip().rpartition(" ")
    return words if verb in COPULAS else ""


def opening(prompts: str) -> str:
    """The words before the facts, in one line. Raises BadConfig."""
    words = prompt_text("ke_plugin_ice", "opening.txt", prompts, option="ice.prompts")
    if len(words.splitlines()) > 1:
        raise BadConfig("ice.prompts: opening.txt has more than one line", hint="the words before the facts: one line")
    return words


@frozen(kw_only=True)
class Ice(MemoryEditor):
    """Ice(config).edit(session, edits) is a model that supposes those edits."""

    config: IceConfig

    def check(self, session: Session[Any], edits: Sequence[Edit]) -> Mapping[str, str]:
        """Any statement can be supposed; the paper's form takes those that say what the object is."""
        super().check(session, edits)
        return {edit.id: why for edit in edits if self.config.profile == "paper" and (why := unfit(edit))}

    @property
    def encoder(self) -> str | None:
        """Where facts are retrieved."""
        return self.config.encoder if self.config.facts == "retrieved" else None

    def remembering(self, session: Session[Any], edits: Sequence[Edit]) -> Edited:
        """The model beside its facts. Raises BadConfig where ``prompts`` has no usable file."""
        return IceModel(self.config, session, edits)
