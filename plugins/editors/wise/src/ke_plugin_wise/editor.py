"""The editor: it opens a model with side memories, empty or from a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ke_core.plugin import Edit, Session
from ke_plugin_wise import WiseConfig
from ke_plugin_wise.edited import SideMemoryModel
from ke_plugin_wise.inputs import room
from ke_plugin_wise.resolved import resolve
from ke_plugin_wise.routing import with_side_memories
from ke_weights.plugin import OpenModel, unsupported_edits


class Wise:
    """Editor that trains side memories of one FFN matrix."""

    def __init__(self, config: WiseConfig) -> None:
        self.config = config

    def check(self, session: Session[Any], edits: Sequence[Edit]) -> Mapping[str, str]:
        """Refuse edits without a prompt or a new object, too long, or contradicting an earlier one.

        Without edits: raise a KEError for a model that cannot be edited with these options.
        """
        if not edits:
            resolve(self.config, session)
        return unsupported_edits(edits, session.model.tokenizer, room(session.model, self.config.contexts))

    @contextmanager
    def edit(self, session: Session[OpenModel], edits: Sequence[Edit]) -> Iterator[SideMemoryModel]:
        """Start from empty side memories and learn ``edits``. Raises UnsupportedEdit and EditFailed."""
        with self._opened(session) as edited:
            edited.change(add=edits)
            yield edited

    @contextmanager
    def load(self, session: Session[OpenModel], path: Path) -> Iterator[SideMemoryModel]:
        """Continue with an edited model that was saved. Raises BadData if the file does not fit."""
        with self._opened(session) as edited:
            edited.restore(path)
            yield edited

    @contextmanager
    def _opened(self, session: Session[OpenModel]) -> Iterator[SideMemoryModel]:
        found = resolve(self.config, session)
        with session.model.adapt(found.place.name, with_side_memories, {}) as adaptor:
            yield SideMemoryModel(session, found, adaptor)
