"""The editor: it opens a model with side memories, empty or from a file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ke_core.plugin import Session
from ke_plugin_wise import WiseConfig
from ke_plugin_wise.edited import SideMemoryModel
from ke_plugin_wise.inputs import room
from ke_plugin_wise.resolved import ResolvedWise, resolve
from ke_plugin_wise.routing import with_side_memories
from ke_weights.plugin import OpenModel, StatefulEditor


class Wise(StatefulEditor):
    """Editor that trains side memories of one FFN matrix."""

    def __init__(self, config: WiseConfig) -> None:
        self.config = config

    def room(self, model: OpenModel) -> int:
        """Return the maximum number of tokens, which must also fit after the left contexts."""
        return room(model, self.config.contexts)

    def resolve(self, session: Session[OpenModel]) -> ResolvedWise:
        """Return hyperparameters and layer."""
        return resolve(self.config, session)

    @contextmanager
    def opened(self, session: Session[OpenModel]) -> Iterator[SideMemoryModel]:
        """Open the model without side memories."""
        found = self.resolve(session)
        with session.model.adapt(found.place.name, with_side_memories, {}) as adaptor:
            yield SideMemoryModel(session, found, adaptor)
