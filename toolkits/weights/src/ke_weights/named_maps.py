"""The linear maps that the option ``modules`` selects."""

from __future__ import annotations

from collections.abc import Sequence

from ke_core.plugin import BadConfig
from ke_plugin_hf.guard import NOT_QUANTIZED, quantized, stored_as
from ke_weights.map_ranges import MapPart, MapRange
from ke_weights.modules import Layer, ModuleMap


def named_maps(modules: ModuleMap, entries: Sequence[str], editor: str) -> tuple[str, ...]:
    """Return the names of the linear maps that ``entries`` select, in the order of the model.

    Raises BadConfig, which names the ``editor``, for an entry that does not fit the model and for quantized weights.
    """
    chosen = {name for entry in entries for name in _maps(modules, MapRange.of(entry))}
    ordered = tuple(name for name, _module in modules.module.named_modules() if name in chosen)
    for name in ordered:
        weight = modules.module.get_submodule(name).get_parameter("weight")
        if quantized(weight):
            raise BadConfig(f"{editor} cannot change {name}, stored as {stored_as(weight)}", hint=NOT_QUANTIZED)
    return ordered


def _maps(modules: ModuleMap, entry: MapRange) -> list[str]:
    top = len(modules.layers) - 1
    if not entry.first <= entry.last <= top:
        raise BadConfig(
            f"modules: {entry.text!r} is not a range of the model's layers",
            hint=f"use layers 0 to {top}, the lower one first",
        )
    return [_name(layer, entry.part) for layer in modules.layers[entry.first : entry.last + 1]]


def _name(layer: Layer, part: MapPart) -> str:
    if part == "down":
        return layer.projection_name
    if part == "gate" and len(layer.expansion) == 1:
        raise BadConfig(f"layer {layer.index} of the model has no gate", hint="use up or down in the option modules")
    return layer.expansion[0 if part == "gate" else -1]
