"""The parts of a decoder: blocks, the edited projection, the output head.

They are found by running the model on a few tokens and observing what runs, not by family names (``find_parts``), and
then checked (``module_map``): each block must add exactly the outputs of its attention and its MLP, and the logits must
be head(norm(h)). Other decoders are refused for locate-and-edit methods, because "write at layer l, read at layer Z"
(MEMIT section 4.3) does not hold in them. Methods that train weights by gradients only need the parts.
"""

from __future__ import annotations

import re
from typing import Any

import torch
from attrs import evolve, field, frozen
from torch import Tensor, nn
from torch.func import functional_call
from transformers.pytorch_utils import Conv1D

from ke_core.plugin import KEError
from ke_plugin_hf.guard import NOT_QUANTIZED, quantized, stored_as, whole_instead
from ke_plugin_hf.tensor_parallel import is_split
from ke_weights.hooks import frozen_module
from ke_weights.probe import ForwardProbe, sizes

TOLERANCE = 1e-4  # of what a block adds, in float32
BATCHES = 8  # roundings of the storage dtype between a distance in two batches (measured in bfloat16: at most 6)
ROUNDING = 4  # maximum error of a residual sum, in roundings of the storage dtype
NORMED_ALIKE = 0.01  # of an output's norm: without centering, adding 1 changes it by about its norm
ATTENTION = re.compile(r"attn|attention", re.IGNORECASE)
EXPERTS = re.compile(r"moe|expert|router", re.IGNORECASE)
OTHER_MODEL = "use a pre-norm decoder without experts, such as GPT-2, GPT-J, LLaMA, Mistral or Qwen2"
NO_OFFLOAD = "use --dtype bfloat16, more or larger devices, a smaller model, or a memory editor"
WHOLE = "leave out --tp, use --device-map auto, or use a memory editor"
OTHER_WAY = f"{OTHER_MODEL}, or an editor that trains weights, such as ft"


@frozen(kw_only=True, eq=False)
class Layer:
    """One decoder block. ``projection`` is the last linear layer of its MLP, W: keys [f] to values [d].

    ``attention_out`` is the linear layer through which attention writes to the residual stream. ``expansion`` lists the
    linear layers into the MLP: one, two (gate and value), or one for both of twice the width. ``mlp`` is the module
    whose output is the projection's: the projection itself if a family has no such module, or one that also adds the
    residual stream (BLOOM).
    """

    index: int
    name: str
    block: nn.Module
    attention_out: nn.Module
    mlp: nn.Module
    expansion: tuple[str, ...]
    projection: nn.Module
    projection_name: str

    @property
    def weight_name(self) -> str:
        """The parameter's name in the model."""
        return f"{self.projection_name}.weight"

    @property
    def conv1d(self) -> bool:
        """Whether the weight is stored as [in, out], decided by the module's type, never by its shape."""
        return isinstance(self.projection, Conv1D)

    @property
    def matrix(self) -> Tensor:
        """W as [d, f], without a copy."""
        weight: Tensor = self.projection.get_parameter("weight").detach()
        return weight.T if self.conv1d else weight

    def map_name(self, part: str) -> str:
        """Return the name of a linear map of the MLP: ``down``, its last one, or ``up``, the last one into it."""
        return self.projection_name if part == "down" else self.expansion[-1]


@frozen(kw_only=True, eq=False)
class ModuleMap:
    """The parts of a decoder. ``hidden`` is d, ``inner`` is f (the key dimension).

    ``obstacle``: why a locate-and-edit method cannot edit it; empty if it can.
    """

    module: nn.Module
    layers: tuple[Layer, ...]
    hidden: int
    inner: int
    final_norm: nn.Module
    unembedding: nn.Module
    config: Any = field(repr=False)
    obstacle: str = ""

    @property
    def rms_norm(self) -> bool:
        """Whether states are normalized without centering (LLaMA and similar), not by LayerNorm (GPT).

        Centering removes what is added to all elements equally; class names are unreliable (OLMo's LayerNorm). Tested
        in float32: in half precision, large gains make the rounding of a LayerNorm look like a difference.
        """
        weight = next(self.final_norm.parameters(), self._embedding)
        # Call the module itself with other weights, because accelerate's hooks may be bound to it.
        whole = {name: parameter.float() for name, parameter in self.final_norm.named_parameters()}
        states = torch.linspace(-1, 1, self.hidden, dtype=torch.float32, device=weight.device)[None] ** 3
        with torch.no_grad():
            one, other = (functional_call(self.final_norm, whole, (moved,)) for moved in (states, states + 1))
        return bool((one - other).norm() > NORMED_ALIKE * one.norm())

    @property
    def device(self) -> torch.device:
        """Device of the token ids."""
        return self._embedding.device

    @property
    def dtype(self) -> torch.dtype:
        """Dtype of computations outside the model: float32 for a model in half precision, else its own."""
        return torch.promote_types(self._embedding.dtype, torch.float32)

    @property
    def rounding(self) -> float:
        """How much the distance of a state to another one may differ between batches, relative to the state."""
        return BATCHES * torch.finfo(self._embedding.dtype).eps

    @property
    def _embedding(self) -> Tensor:
        """The embedding: never quantized, and on the device of the first block."""
        found: nn.Embedding = self.module.get_input_embeddings()  # type: ignore[operator]  # untyped in transformers
        return found.weight

    def logits(self, states: Tensor) -> Tensor:
        """Return logits [..., V] of states of the last block [..., d], as float32 or better."""
        found: Tensor = self.unembedding(self.final_norm(states))
        return found.to(self.dtype)

    def check_layers(self, layers: tuple[int, ...]) -> None:
        """Raise KEError unless every layer exists, once, in ascending order."""
        known = len(self.layers)
        wrong = [layer for layer in layers if not 0 <= layer < known]
        if not layers or wrong or list(layers) != sorted(set(layers)):
            raise KEError(
                f"layers {', '.join(map(str, wrong or layers)) or 'none'} do not fit a model of {known} layers",
                hint=f"use distinct layers from 0 to {known - 1} in ascending order",
            )


def module_map(module: nn.Module) -> ModuleMap:
    """Return the parts of a causal language model for a locate-and-edit method (ROME, MEMIT and similar).

    Raises KEError if a part is missing, or if the output of a block is not read unchanged by the later ones.
    """
    found = find_parts(module)
    if found.obstacle:
        raise KEError(f"cannot locate and edit in {type(module).__name__}: {found.obstacle}", hint=OTHER_WAY)
    return found


def find_parts(module: nn.Module) -> ModuleMap:
    """Return the parts of a causal language model, without checks of how blocks use them.

    This is enough for methods that train weights by gradients through the whole model. Raises KEError for a model
    without these parts (an encoder-decoder, a mixture of experts, a state-space model), or with parameters that are
    offloaded or split.
    """
    away = next((name for name, parameter in module.named_parameters() if parameter.is_meta), None)
    if away is not None:
        raise KEError(f"{away} is offloaded, and weight editors need all weights in memory", hint=NO_OFFLOAD)
    if is_split(module):
        raise KEError("the model is split over several processes, and weight editors need whole weights", hint=WHOLE)
    packed = next((name for name, part in module.named_modules() if callable(getattr(part, "weight", None))), None)
    if packed is not None:  # torch.ao.nn.quantized: ``weight`` is a method, and no parameter
        raise KEError(f"{packed} is quantized by torch, and its weights cannot be edited", hint=NOT_QUANTIZED)
    if getattr(module.config, "is_encoder_decoder", False):
        raise _unmapped(module, "it is an encoder-decoder")
    whole: Any = module.config
    config = whole.get_text_config() if hasattr(whole, "get_text_config") else whole
    prefix, blocks = _blocks(module, config)
    probe = ForwardProbe(module, blocks)
    layers = tuple(_layer(module, prefix, index, block, probe) for index, block in enumerate(blocks))
    found = ModuleMap(
        module=module,
        layers=layers,
        hidden=probe.hidden,
        inner=sizes(layers[0].projection)[0],
        final_norm=probe.final_norm(),
        unembedding=probe.unembedding,
        config=config,
    )
    return evolve(found, obstacle=_quantized(found) or _not_added(found, probe) or _not_logits(found, probe))


def _blocks(module: nn.Module, config: Any) -> tuple[str, list[nn.Module]]:
    """Return the list of blocks: the module list whose items have the most parameters."""
    lists = {name: child for name, child in module.named_modules() if isinstance(child, nn.ModuleList)}
    if not lists:
        raise _unmapped(module, "it has no list of blocks")
    name = max(lists, key=lambda key: sum(p.numel() for p in lists[key].parameters()))
    blocks = list(lists[name])
    expected = getattr(config, "num_hidden_layers", len(blocks))
    if len(blocks) != expected:
        raise _unmapped(module, f"its largest module list, {name}, has {len(blocks)} items, not {expected}")
    return name, blocks


def _layer(module: nn.Module, prefix: str, index: int, block: nn.Module, probe: ForwardProbe) -> Layer:
    names = {child: name for name, child in block.named_modules()}
    executed = probe.executed[block]
    attention = [c for c in executed if ATTENTION.search(names[c]) and sizes(c)[1] == probe.hidden]
    rest = [child for child in executed if not ATTENTION.search(names[child])]
    into = {child: _expansion(child, rest, probe.hidden) for child in rest if sizes(child)[1] == probe.hidden}
    writers = [child for child in into if into[child]]
    if any(EXPERTS.search(type(child).__name__) for child in block.modules()):
        raise _unmapped(module, f"block {index} is a mixture of experts, so no single projection stores a fact")
    if not attention or not writers:
        missing = "MLP projection" if attention else "attention output"
        raise _unmapped(module, f"block {index} has no {missing} of width {probe.hidden} among its linear layers")
    projection, name = writers[-1], f"{prefix}.{index}"
    parent = block.get_submodule(names[projection].rpartition(".")[0])
    same = parent in probe.outputs and torch.equal(probe.outputs[parent].flatten(), probe.outputs[projection].flatten())
    return Layer(
        index=index,
        name=name,
        block=block,
        attention_out=attention[-1],
        mlp=parent if same else projection,
        expansion=tuple(f"{name}.{names[child]}" for child in into[projection]),
        projection=projection,
        projection_name=f"{name}.{names[projection]}",
    )


def _expansion(projection: nn.Module, executed: list[nn.Module], hidden: int) -> list[nn.Module]:
    """Return the layers from d to the projection's input that run before it; 2 f if gate and value are one."""
    inner = sizes(projection)[0]
    before = executed[: executed.index(projection)]
    return [child for child in before if sizes(child) in ((hidden, inner), (hidden, 2 * inner))]


def _quantized(found: ModuleMap) -> str:
    for layer in found.layers:
        weight = layer.projection.get_parameter("weight")
        if quantized(weight) or sorted(weight.shape) != sorted((found.hidden, found.inner)):
            stored = f"{stored_as(weight)}, {tuple(weight.shape)}"
            return f"{layer.weight_name} is quantized ({stored}); {whole_instead(weight)}"
    return ""


def _not_added(found: ModuleMap, probe: ForwardProbe) -> str:
    """Return an obstacle unless every block adds attention output and MLP output to its input, and nothing else."""
    for layer, before, after in zip(found.layers, probe.states_in, probe.states_out, strict=True):
        written = [probe.outputs[part].reshape(before.shape) for part in (layer.attention_out, layer.projection)]
        added = written[0].to(found.dtype) + written[1].to(found.dtype)
        # If the model is on several devices, a block's input may be on the previous one.
        off = (after.to(found.dtype) - before.to(after.device, found.dtype) - added).norm(dim=-1)
        rounding = ROUNDING * torch.finfo(after.dtype).eps * after.to(found.dtype).norm(dim=-1)
        if not bool((off <= TOLERANCE * added.norm(dim=-1) + rounding).all()):
            if hasattr(found.module, "peft_config"):
                return f"block {layer.index} has peft adapters; merge them first, with model.merge_and_unload()"
            return (
                f"block {layer.index} does not add attention and MLP output to its input "
                "(a norm after the MLP, or a residual multiplier)"
            )
    return ""


def _not_logits(found: ModuleMap, probe: ForwardProbe) -> str:
    with frozen_module(found.module):
        logits = found.logits(probe.states_out[-1])
    off = (logits - probe.logits.to(logits.device, found.dtype)).abs().max()
    if off > max(TOLERANCE, ROUNDING * torch.finfo(probe.logits.dtype).eps) * logits.abs().max():
        return "its logits are not head(norm(h)): they are scaled, capped or projected"
    return ""


def _unmapped(module: nn.Module, why: str) -> KEError:
    return KEError(f"cannot find the parts of {type(module).__name__} that an edit needs: {why}", hint=OTHER_MODEL)
