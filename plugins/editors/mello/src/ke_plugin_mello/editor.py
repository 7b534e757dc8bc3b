"""MeLLo as an editor: the model stays as it is, the edits of the batch go into a memory of statements."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from attrs import frozen

from ke_core.plugin import Ask, Details, Edit, Edited, Procedure, Reply, Session, prompt_text
from ke_core.retrieval import MemoryEditor, Remembering
from ke_plugin_mello import MelloConfig
from ke_plugin_mello.loop import PROFILES, Loop


class Recalling(Remembering):
    """A model with a memory of edits beside it."""

    def __init__(self, config: MelloConfig, session: Session[Any], edits: Sequence[Edit]) -> None:
        super().__init__(session, edits, encoder=config.encoder)
        profile = PROFILES[config.profile]
        self.loop = Loop(
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
            max_tokens=config.max_tokens,
        )

    def solve(self, ask: Ask) -> Procedure[Reply]:
        """The paper's loop."""
        return self.loop.solve(ask)

    @property
    def details(self) -> Details:
        """What the memory holds and which worked examples are shown (they may come from a file)."""
        shown = hashlib.sha256(self.loop.examples.encode()).hexdigest()
        return {**super().details, "calls": self.loop.calls, "examples_sha256": shown}


@frozen(kw_only=True)
class Mello(MemoryEditor):
    """Mello(config).edit(session, edits) is a model that consults a memory of those edits."""

    config: MelloConfig

    def remembering(self, session: Session[Any], edits: Sequence[Edit]) -> Edited:
        """The model beside a memory. Raises BadConfig where ``prompts`` has no usable file."""
        return Recalling(self.config, session, edits)
