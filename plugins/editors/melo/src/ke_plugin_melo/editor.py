"""The editor: it opens a model with a router and LoRA blocks, empty or from a file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from ke_core.plugin import BadConfig, Session
from ke_plugin_melo.database import ClusterRules
from ke_plugin_melo.edited import MeloModel, MeloSettings
from ke_plugin_melo.layers import add_blocks, select_blocks
from ke_plugin_melo.training import BlockTraining
from ke_plugin_melo.values import MeloConfig, settings
from ke_weights.plugin import OpenModel, StatefulEditor, find_parts, model_facts


class Melo(StatefulEditor):
    """Editor with a router in one layer, and LoRA blocks in later layers."""

    def __init__(self, config: MeloConfig) -> None:
        self.config = config

    @contextmanager
    def opened(self, session: Session[OpenModel]) -> Iterator[MeloModel]:
        """Open an empty database with a router and LoRA blocks."""
        made = self.resolve(session)
        with ExitStack() as stack:
            router = stack.enter_context(session.model.adapt(made.router, select_blocks, {}))
            layers = {
                name: stack.enter_context(session.model.adapt(name, add_blocks, {}, router=router))
                for name in made.training.names
            }
            yield MeloModel(session, made, router, layers)

    def resolve(self, session: Session[OpenModel]) -> MeloSettings:
        """Return hyperparameters and layers. Raises a KEError for missing layers, and for a router after its blocks."""
        modules = find_parts(session.model.module)
        values = settings(self.config, model_facts(session, modules))
        layer, layers, part = (values[name].value for name in ("layer", "layers", "part"))
        if not layers or layer >= min(layers):
            raise BadConfig(
                f"the router of melo is in layer {layer}, and its LoRA blocks are in {list(layers)}",
                hint="choose layers after the router, such as -o melo.layer=1 -o melo.layers=2,3",
            )
        modules.check_layers((layer, *layers))
        names = {at: modules.layers[at].map_name(part) for at in (layer, *layers)}
        return MeloSettings(
            values=values,
            router=names[layer],
            rules=ClusterRules(
                radius=values["radius"].value, published=self.config.profile == "paper", rounding=modules.rounding
            ),
            batch=self.config.batch,
            blocks=self.config.blocks,
            training=BlockTraining(
                modules=modules,
                names=tuple(names[at] for at in layers),
                first=layers[0],
                rank=self.config.rank,
                total_rank=self.config.rank * self.config.blocks,
                steps=values["steps"].value,
                lr=values["lr"].value,
                stop_loss=values["stop_loss"].value,
            ),
        )
