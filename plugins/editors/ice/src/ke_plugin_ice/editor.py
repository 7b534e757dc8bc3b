"""In-context editing, section 5 of Cohen et al. 2024: the model is told what to suppose, and then asked.

::

    Suppose that The capital of France is Lima.       the edit, as a sentence
    ...                                               the benchmark's own prompt, as it stands

No weight changes, nothing is taken apart, no demonstrations. Several facts follow one another in the same line.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import frozen

from ke_core.plugin import Ask, BadConfig, Details, Edit, Edited, Procedure, Reply, Session, prompt_text, put
from ke_core.retrieval import InContext, MemoryEditor, Shown, before_prompt
from ke_plugin_ice import IceConfig


class Supposing(InContext):
    """A model that is told what to suppose before each question."""

    def __init__(self, config: IceConfig, session: Session[Any], edits: Sequence[Edit]) -> None:
        super().__init__(session, edits, choice=config.facts, k=config.k, encoder=config.encoder)
        self.opening = opening(config.prompts)

    def solve(self, ask: Ask) -> Procedure[Reply]:
        """Ask with the facts before the prompt; without facts, with the prompt alone."""
        shown: Shown = yield from self.shown(ask)
        prefix = f"{self.opening} {shown.sentences}\n" if shown.facts else ""
        reply: Reply = yield from put(before_prompt(ask, prefix))
        return shown.on_record(reply)

    @property
    def details(self) -> Details:
        """The facts, and the words before them."""
        return {**super().details, "opening": self.opening}


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

    def remembering(self, session: Session[Any], edits: Sequence[Edit]) -> Edited:
        """The model beside its facts. Raises BadConfig where ``prompts`` has no usable file."""
        return Supposing(self.config, session, edits)
