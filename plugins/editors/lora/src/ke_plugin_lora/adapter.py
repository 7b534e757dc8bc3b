"""Adapters in a model, and the model as it was when they are taken out again.

peft puts a module of its own in the place of each target, W x + (alpha / r) B A x, and marks what may be trained. All
that is undone here: the very modules that were found are put back, and every flag. Adapters nest: where a target has
one already, the new one is added beside it, and both act.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import peft
import torch
from attrs import frozen
from peft.tuners.lora import LoraLayer
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from ke_core.plugin import BadConfig
from ke_plugin_lora.values import AdapterConfig
from ke_weights.plugin import LowRank, default_dtype, double, quantized, uninterruptible_context

MAPS = (nn.Linear, Conv1D, LoraLayer)
"""What an adapter goes beside; the last is a linear map that has one already."""


@frozen(kw_only=True, eq=False)
class Adapter:
    """peft's modules that hold one adapter, by the name of the linear map they stand in for."""

    name: str
    layers: Mapping[str, Any]

    @property
    def parameters(self) -> list[Any]:
        """Every A and B."""
        return [part.weight for layer in self.layers.values() for part in self._maps(layer)]

    @property
    def dropouts(self) -> list[nn.Module]:
        """What leaves out inputs while they are trained."""
        return [layer.lora_dropout[self.name] for layer in self.layers.values()]

    def deltas(self) -> dict[str, LowRank]:
        """What the adapter adds to each weight, by the weight's name, [out, in]: copies in the adapter's precision."""
        found = {}
        for name, layer in self.layers.items():
            down, up = self._maps(layer)
            found[f"{name}.weight"] = LowRank(
                left=up.weight.detach() * layer.scaling[self.name], right=down.weight.detach().clone()
            )
        return found

    def norms(self) -> dict[str, float]:
        """Frobenius norm of what is added, by weight; from the factors, so that no whole matrix is made."""
        return {name: _norm(delta.left, delta.right) for name, delta in self.deltas().items()}

    def _maps(self, layer: Any) -> tuple[Any, Any]:
        return layer.lora_A[self.name], layer.lora_B[self.name]


def held_as(module: nn.Module) -> str:
    """How the model's weights are quantized: ``nf4``, another type's name, or empty if they are not."""
    for parameter in module.parameters():
        if hasattr(parameter, "quant_type"):
            return str(parameter.quant_type)
        if quantized(parameter):
            return str(parameter.dtype).removeprefix("torch.")
    return ""


@uninterruptible_context
def attached(module: nn.Module, targets: Sequence[str], config: AdapterConfig) -> Iterator[Adapter]:
    """A new adapter on every linear map whose name ends in one of ``targets``; it adds nothing until it is trained.

    A is drawn from torch's own generator, B is 0. Raises BadConfig where no map has such a name.
    """
    found = dict(module.named_modules())
    wanted = {parameter: parameter.requires_grad for parameter in module.parameters()}
    active = {name: list(part.active_adapters) for name, part in found.items() if isinstance(part, LoraLayer)}
    known = {name for part in found.values() if isinstance(part, LoraLayer) for name in part.lora_A}
    try:
        yield _insert(module, f"edit{len(known)}", targets, config, found=found, active=active)
    finally:
        for name, part in list(module.named_modules()):
            if isinstance(part, LoraLayer):
                _take_out(module, name, found, active)
        _flags(wanted)


def named(module: nn.Module, targets: Sequence[str]) -> dict[str, nn.Module]:
    """The linear maps whose name ends in one of ``targets``. Raises BadConfig where there is none, or no linear map."""
    every = dict(module.named_modules())
    hit = {path: part for path, part in every.items() if path.endswith(tuple(f".{target}" for target in targets))}
    other = next((path for path, part in hit.items() if not isinstance(part, MAPS)), None)
    if other is None and hit:
        return hit
    known = ", ".join(sorted({path.rpartition(".")[2] for path, part in every.items() if isinstance(part, MAPS)}))
    why = f"{other} is no linear map" if other else f"no module of the model is called {' or '.join(targets)}"
    raise BadConfig(f"targets: {why}", hint=f"its linear maps are {known}")


def _insert(
    module: nn.Module,
    name: str,
    targets: Sequence[str],
    config: AdapterConfig,
    *,
    found: Mapping[str, nn.Module],
    active: Mapping[str, list[str]],
) -> Adapter:
    wanted = {parameter: parameter.requires_grad for parameter in module.parameters()}
    hit = named(module, targets)
    settings = peft.LoraConfig(
        r=config.rank,
        lora_alpha=config.alpha,
        lora_dropout=config.dropout,
        target_modules=list(targets),
        bias="none",
        fan_in_fan_out=all(isinstance(part, Conv1D) for part in hit.values()),
    )
    with _unmarked(module), default_dtype(torch.float32):  # peft samples A in the default dtype
        peft.inject_adapter_in_model(settings, module, adapter_name=name)
    every = {path: part for path, part in module.named_modules() if isinstance(part, LoraLayer)}
    layers = {path: part for path, part in every.items() if name in part.lora_A}
    before = set(found.values())
    for path, layer in every.items():  # peft lets the new adapter act alone, in every module
        layer.set_adapter([*active.get(path, ()), *([name] if path in layers else [])])
        for part in layer.modules():
            if part not in before:
                part.training = False  # not eval(), which would reach into the module it wraps
    made = Adapter(name=name, layers=layers)
    for parameter in made.parameters:  # peft makes them in the type of the weights; a step in bfloat16 is often lost
        parameter.data = parameter.data.to(torch.promote_types(parameter.dtype, torch.float32))
    for parameter in module.parameters():
        parameter.requires_grad = wanted.get(parameter, False)
    return made


@uninterruptible_context
def _unmarked(module: nn.Module) -> Iterator[None]:
    """Without the note that peft leaves on a model, whose only use is to warn of a second adapter."""
    mark = "peft_config"
    known = module.__dict__.pop(mark, None)
    try:
        yield
    finally:
        module.__dict__.pop(mark, None)
        if known is not None:
            module.__dict__[mark] = known


def _take_out(module: nn.Module, name: str, found: Mapping[str, nn.Module], active: Mapping[str, list[str]]) -> None:
    """Put back what was found at ``name``; of a module that held adapters already, take out the new one."""
    if name not in active:
        parent, _, leaf = name.rpartition(".")
        setattr(module.get_submodule(parent), leaf, found[name])
        return
    part: Any = found[name]
    part.set_adapter(active[name])
    for new in set(part.lora_A) - set(active[name]):
        part.delete_adapter(new)


def _flags(wanted: Mapping[nn.Parameter, bool]) -> None:
    for parameter, grad in wanted.items():
        parameter.requires_grad = grad


def _norm(left: Tensor, right: Tensor) -> float:
    """|L R| = sqrt(tr(LᵀL R Rᵀ))."""
    left, right = double(left), double(right)
    return float(torch.trace(left.T @ left @ right @ right.T).clamp(min=0).sqrt())
