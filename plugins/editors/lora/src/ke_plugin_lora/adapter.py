"""Add adapters to a model, and restore the model afterwards.

peft replaces each target with a module that computes W x + (alpha / r) B A x, and marks trainable parameters. All of
this is undone: the original modules are restored, and every flag. Adapters nest: a target that has an adapter already
gets the new one in addition.
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
from ke_plugin_lora.values import LoraSettings
from ke_weights.plugin import LowRank, default_dtype, double, quantized, stored_as, uninterruptible_context

MAPS = (nn.Linear, Conv1D, LoraLayer)
"""Modules that can get an adapter; a LoraLayer is a linear layer that has one already."""


@frozen(kw_only=True, eq=False)
class Adapter:
    """peft's modules of one adapter, by the name of the linear layer that they replace."""

    name: str
    layers: Mapping[str, Any]

    @property
    def parameters(self) -> list[Any]:
        """Every A and B."""
        return [part.weight for layer in self.layers.values() for part in self._maps(layer)]

    @property
    def dropouts(self) -> list[nn.Module]:
        """The dropout modules of the adapter."""
        return [layer.lora_dropout[self.name] for layer in self.layers.values()]

    def deltas(self) -> dict[str, LowRank]:
        """Return the update of each weight by name, [out, in]: copies in the adapter's precision."""
        found = {}
        for name, layer in self.layers.items():
            down, up = self._maps(layer)
            found[f"{name}.weight"] = LowRank(
                left=up.weight.detach() * layer.scaling[self.name], right=down.weight.detach().clone()
            )
        return found

    def norms(self) -> dict[str, float]:
        """Return the Frobenius norm of each update, computed from the factors."""
        return {name: _norm(delta.left, delta.right) for name, delta in self.deltas().items()}

    def _maps(self, layer: Any) -> tuple[Any, Any]:
        return layer.lora_A[self.name], layer.lora_B[self.name]


def quantization(module: nn.Module) -> str:
    """Return the quantization of the model's weights: ``nf4``, another dtype, or empty without quantization."""
    for parameter in module.parameters():
        if hasattr(parameter, "quant_type"):
            return str(parameter.quant_type)
        if quantized(parameter):
            return stored_as(parameter).removeprefix("torch.")
    return ""


@uninterruptible_context
def attach_adapter(module: nn.Module, targets: Sequence[str], recipe: LoraSettings) -> Iterator[Adapter]:
    """Add a new adapter to the linear layers ``targets`` (see ``target_layers``). Before training it adds nothing.

    A is sampled from torch's generator, B is 0. Raises BadConfig if no linear layer has such a name.
    """
    found = dict(module.named_modules())
    wanted = {parameter: parameter.requires_grad for parameter in module.parameters()}
    active = {name: list(part.active_adapters) for name, part in found.items() if isinstance(part, LoraLayer)}
    known = {name for part in found.values() if isinstance(part, LoraLayer) for name in part.lora_A}
    try:
        yield _insert(module, f"edit{len(known)}", targets, recipe, found=found, active=active)
    finally:
        for name, part in list(module.named_modules()):
            if isinstance(part, LoraLayer):
                _restore_module(module, name, found, active)
        _restore_flags(wanted)


def target_layers(module: nn.Module, targets: Sequence[str]) -> dict[str, nn.Module]:
    """Return the linear layers whose path is or ends in one of ``targets``. Raises BadConfig if there is none."""
    every = dict(module.named_modules())
    ends = tuple(f".{target}" for target in targets)
    hit = {path: part for path, part in every.items() if f".{path}".endswith(ends)}
    other = next((path for path, part in hit.items() if not isinstance(part, MAPS)), None)
    if other is None and hit:
        return hit
    known = ", ".join(sorted({path.rpartition(".")[2] for path, part in every.items() if isinstance(part, MAPS)}))
    why = f"{other} is not a linear layer" if other else f"the model has no module named {' or '.join(targets)}"
    raise BadConfig(f"targets: {why}", hint=f"its linear layers are {known}")


def _insert(
    module: nn.Module,
    name: str,
    targets: Sequence[str],
    recipe: LoraSettings,
    *,
    found: Mapping[str, nn.Module],
    active: Mapping[str, list[str]],
) -> Adapter:
    wanted = {parameter: parameter.requires_grad for parameter in module.parameters()}
    hit = target_layers(module, targets)
    settings = peft.LoraConfig(
        r=recipe.rank,
        lora_alpha=recipe.alpha,
        lora_dropout=recipe.dropout,
        target_modules=list(targets),
        bias="none",
        fan_in_fan_out=all(isinstance(part, Conv1D) for part in hit.values()),
    )
    with _without_peft_mark(module), default_dtype(torch.float32):  # peft samples A in the default dtype
        peft.inject_adapter_in_model(settings, module, adapter_name=name)
    every = {path: part for path, part in module.named_modules() if isinstance(part, LoraLayer)}
    layers = {path: part for path, part in every.items() if name in part.lora_A}
    before = set(found.values())
    for path, layer in every.items():  # peft activates only the new adapter, in every module
        layer.set_adapter([*active.get(path, ()), *([name] if path in layers else [])])
        for part in layer.modules():
            if part not in before:
                part.training = False  # not eval(), which would also change the wrapped module
    made = Adapter(name=name, layers=layers)
    for parameter in made.parameters:  # peft uses the dtype of the weights; bfloat16 loses small steps
        parameter.data = parameter.data.to(torch.promote_types(parameter.dtype, torch.float32))
    for parameter in module.parameters():
        parameter.requires_grad = wanted.get(parameter, False)
    return made


@uninterruptible_context
def _without_peft_mark(module: nn.Module) -> Iterator[None]:
    """Remove peft's mark from the model, which only triggers a warning about a second adapter."""
    mark = "peft_config"
    known = module.__dict__.pop(mark, None)
    try:
        yield
    finally:
        module.__dict__.pop(mark, None)
        if known is not None:
            module.__dict__[mark] = known


def _restore_module(
    module: nn.Module, name: str, found: Mapping[str, nn.Module], active: Mapping[str, list[str]]
) -> None:
    """Restore the module at ``name``; if it had adapters before, remove only the new one."""
    if name not in active:
        parent, _, leaf = name.rpartition(".")
        setattr(module.get_submodule(parent), leaf, found[name])
        return
    part: Any = found[name]
    part.set_adapter(active[name])
    for new in set(part.lora_A) - set(active[name]):
        part.delete_adapter(new)


def _restore_flags(wanted: Mapping[nn.Parameter, bool]) -> None:
    for parameter, grad in wanted.items():
        parameter.requires_grad = grad


def _norm(left: Tensor, right: Tensor) -> float:
    """Return |L R| = sqrt(tr(LᵀL R Rᵀ))."""
    left, right = double(left), double(right)
    return float(torch.trace(left.T @ left @ right @ right.T).clamp(min=0).sqrt())
