"""MeLLo as an editor: the model is unchanged, and the edits are stored in a memory of statements."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from attrs import frozen

from ke_core.plugin import Details, Edit, Edited, EditorRequest, Procedure, Reply, Session, prompt_text
from ke_memory.plugin import MemoryEditedModel, MemoryEditor
from ke_plugin_mello import MelloConfig
from ke_plugin_mello.loop import MelloLoop
from ke_plugin_mello.profiles import PROFILES


class MelloModel(MemoryEditedModel):
    """A model with a memory of edits."""

    def __init__(self, config: MelloConfig, session: Session[Any], edits: Sequence[Edit]) -> None:
        super().__init__(session, edits, encoder=config.encoder)
        profile = PROFILES[config.profile]
        self.loop = MelloLoop(
            memory=self.memory,
            examples=prompt_text(
                "ke_plugin_mello",
                "decompose.txt",
                config.prompts,
                session=session,
                material="decompositions",
                option="mello.prompts",
            ),
            profile=profile,
            calls=config.max_calls or profile.calls,
            max_tokens=config.max_tokens or profile.max_tokens,
        )
        self.dataset_walk = self.loop.dataset_walk(session) if config.decomposition == "oracle" else None

    def solve(self, request: EditorRequest) -> Procedure[Reply]:
        """Run the paper's loop, or the walk over the dataset's sub-questions."""
        return (self.dataset_walk or self.loop).solve(request)

    @property
    def details(self) -> Details:
        """Size of the memory, generation settings, and the digest of the worked examples."""
        digest = hashlib.sha256(self.loop.examples.encode()).hexdigest()
        generation = {
            "calls": self.loop.calls,
            "max_tokens": self.loop.max_tokens,
            "temperature": self.loop.profile.temperature,
        }
        return {**super().details, **generation, "examples_sha256": digest}


@frozen
class Mello(MemoryEditor):
    """Editor whose edited model uses a memory of the edits."""

    config: MelloConfig

    def edited_model(self, session: Session[Any], edits: Sequence[Edit]) -> Edited:
        """Return the edited model. Raises BadConfig if prompts or sub-questions are missing."""
        return MelloModel(self.config, session, edits)
