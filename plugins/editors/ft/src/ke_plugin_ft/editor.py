"""Fine-tuning as an editor: train updates outside the model, and add them to its weights while the edit is active."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

from ke_core.plugin import BadConfig, Edit, Edited, PassthroughModel, Session, Setting
from ke_plugin_ft.training import FtSettings, train
from ke_plugin_ft.values import FtConfig, check_options, settings
from ke_weights import as_details
from ke_weights.plugin import (
    Dense,
    ModuleMap,
    OpenModel,
    Patch,
    Rewrite,
    as_rewrites,
    end_of_sequence,
    find_parts,
    model_facts,
    quantized,
    unsupported_edits,
)

QLORA_HINT = "use --editor qlora for a model loaded with --dtype nf4"


class Ft:
    """Editor that trains the MLP output projection of one or several layers on a batch of edits."""

    low_rank: ClassVar[bool] = False

    def __init__(self, config: FtConfig) -> None:
        check_options(config)
        self.config = config

    def check(self, session: Session[Any], edits: Sequence[Edit]) -> Mapping[str, str]:
        """Refuse edits without a cloze or a new object, too long, or contradicting an earlier one.

        Without edits: raise a KEError for a model that cannot be edited with these options.
        """
        if not edits:
            self._resolve(session)
        return unsupported_edits(edits, session.model.tokenizer, session.model.context)

    @contextmanager
    def edit(self, session: Session[OpenModel], edits: Sequence[Edit]) -> Iterator[Edited]:
        """Apply ``edits`` together. Raises UnsupportedEdit, and EditFailed if a loss is not finite."""
        rewrites = as_rewrites(edits, session.model.tokenizer, session.model.context)
        if not rewrites:
            yield PassthroughModel(session)
            return
        with session.model.patch() as weights:
            yield PassthroughModel(session, self._write(session, rewrites, weights))

    def _resolve(self, session: Session[OpenModel]) -> tuple[ModuleMap, Mapping[str, Setting]]:
        """Return module map and hyperparameters. Raises a KEError for quantized weights or a missing layer."""
        modules = find_parts(session.model.module)
        if any(quantized(layer.matrix) for layer in modules.layers):
            raise BadConfig(f"ft cannot change quantized weights: {modules.obstacle}", hint=QLORA_HINT)
        values = settings(self.config, model_facts(session, modules))
        modules.check_layers(values["layers"].value)
        if values["eos"].value:
            end_of_sequence(session.model.tokenizer, "ft.eos")
            if values["objective"].value == "prompt-last":
                raise BadConfig(
                    "ft.eos needs objective=target: objective=prompt-last scores every token at the prompt's end",
                    hint="set -o ft.objective=target or -o ft.eos=false",
                )
        return modules, values

    def _write(self, session: Session[OpenModel], rewrites: Sequence[Rewrite], weights: Patch) -> dict[str, Any]:
        """Train, and add the updates. Return the details for the record."""
        modules, values = self._resolve(session)
        chosen = {name: setting.value for name, setting in values.items() if name not in ("constrained", "eos")}
        result = train(
            modules,
            session.model.tokenizer,
            rewrites,
            FtSettings(
                **{"eps": None} | chosen,
                stop_loss=self.config.stop_loss,
                ending=end_of_sequence(session.model.tokenizer, "ft.eos") if values["eos"].value else (),
                shuffle=session.seed if self.config.profile == "locft-bf" else None,
                whole=bool(session.model.adaptors),
            ),
            session.progress,
        )
        for name, update in result.updates.items():
            weights.add(name, Dense(delta=update))
        losses = zip(rewrites, result.before, result.losses(), strict=True)
        return {
            "hyperparameters": as_details(values),
            "epochs": result.epochs,
            "relative_update_norms": {name: weights.relative_norm(name) for name in result.updates},
            "largest_changes": {name: float(update.abs().max()) for name, update in result.updates.items()},
            "edits": {one.id: {"loss_before": before, "loss_after": after} for one, before, after in losses},
        }
