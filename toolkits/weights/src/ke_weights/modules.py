"""Where things are inside a decoder: blocks, the edited projection, the way to the logits.

Found by running the model on a few tokens and looking at what is executed, not by the names of families
(``find_parts``), and then checked (``module_map``): each block must add exactly what its attention and its MLP
write, and the logits must be head(norm(h)). A decoder for which that is not so is refused to methods that locate
and edit, because "write at layer l, read at layer Z" (MEMIT section 4.3) would not hold in it. Methods that train
weights by gradients need the parts alone.
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
from ke_plugin_hf.guard import quantized, whole_instead
from ke_weights.hooks import frozen_module
from ke_weights.probe import ForwardProbe, sizes

TOLERANCE = 1e-4  # of what a block adds, in float32
ROUNDING = 4  # roundings of the storage type that a residual sum may be off by
NORMED_ALIKE = 0.01  # of an output's norm: without centring, adding 1 moves it by about as much as it is long
ATTENTION = re.compile(r"attn|attention", re.IGNORECASE)
EXPERTS = re.compile(r"moe|expert|router", re.IGNORECASE)
OTHER_MODEL = "choose a pre-norm decoder without experts, such as GPT-2, GPT-J, LLaMA, Mistral or Qwen2"
AT_HAND = "take --dtype bfloat16, more or larger devices, a smaller model, or an editor that leaves weights alone"
OTHER_WAY = f"{OTHER_MODEL}; or an editor that trains weights, such as ft"


@frozen(kw_only=True, eq=False)
class Layer:
    """One decoder block. ``projection`` is the last linear map of its MLP, W: keys [f] to values [d].

    ``attention_out`` is the linear map through which attention writes to the residual stream; ``expansion``
    names the linear maps that lead into the MLP: one, two (gate and value), or one for both of twice the width.
    ``mlp`` is the module whose output is the projection's: the projection itself where a family has no such
    module, or one that adds the residual stream too (BLOOM).
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
        """Whether the weight is stored as [in, out]: decided by the module's type, never by its shape."""
        return isinstance(self.projection, Conv1D)

    @property
    def matrix(self) -> Tensor:
        """W as a map, [d, f], without a copy."""
        weight: Tensor = self.projection.get_parameter("weight").detach()
        return weight.T if self.conv1d else weight


@frozen(kw_only=True, eq=False)
class ModuleMap:
    """A decoder taken apart. ``hidden`` is d, ``inner`` is f (the length of a key).

    ``obstacle`` says why a method that locates and edits cannot write into it; empty for one where it can.
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
        """Whether states are normed without centring (LLaMA and its kin), not by LayerNorm (GPT).

        Centring takes away what is added to all elements alike; class names are no guide (OLMo's LayerNorm). Asked
        in float32: in half precision large gains make the rounding of a LayerNorm look like a difference.
        """
        weight = next(self.final_norm.parameters(), self._embedding)
        # The module itself, which hooks of accelerate may be bound to, with other weights for a moment.
        whole = {name: parameter.float() for name, parameter in self.final_norm.named_parameters()}
        states = torch.linspace(-1, 1, self.hidden, dtype=torch.float32, device=weight.device)[None] ** 3
        with torch.no_grad():
            one, other = (functional_call(self.final_norm, whole, (moved,)) for moved in (states, states + 1))
        return bool((one - other).norm() > NORMED_ALIKE * one.norm())

    @property
    def device(self) -> torch.device:
        """Where token ids go."""
        return self._embedding.device

    @property
    def dtype(self) -> torch.dtype:
        """What is computed outside the model in: float32 for a model in half precision, else its own."""
        return torch.promote_types(self._embedding.dtype, torch.float32)

    @property
    def _embedding(self) -> Tensor:
        """Never quantized, and in a model spread over devices where the first block is."""
        found: nn.Embedding = self.module.get_input_embeddings()  # type: ignore[operator]  # transformers' own
        return found.weight

    def logits(self, states: Tensor) -> Tensor:
        """Logits [..., V] of states of the last block [..., d], as float32 or better."""
        found: Tensor = self.unembedding(self.final_norm(states))
        return found.to(self.dtype)

    def check_layers(self, layers: tuple[int, ...]) -> None:
        """Raise KEError unless every layer exists, each once, in ascending order (pitfall E13)."""
        known = len(self.layers)
        if not layers or list(layers) != sorted(set(layers)) or layers[0] < 0 or layers[-1] >= known:
            raise KEError(
                f"layers {', '.join(map(str, layers)) or 'none'} do not fit a model of {known} layers",
                hint=f"give distinct layers from 0 to {known - 1}, lowest first; they do not carry over between sizes",
            )


def module_map(module: nn.Module) -> ModuleMap:
    """Take a causal language model apart for a method that locates and edits (ROME, MEMIT and their kin).

    Raises KEError for one without the parts, or in which a write at one block is not read unchanged above it.
    """
    found = find_parts(module)
    if found.obstacle:
        raise KEError(f"cannot locate and edit in {type(module).__name__}: {found.obstacle}", hint=OTHER_WAY)
    return found


def find_parts(module: nn.Module) -> ModuleMap:
    """Take a causal language model apart, whatever its blocks do with what their parts write.

    Enough for methods that train weights by gradients through the whole model. Raises KEError for a model
    without these parts (an encoder-decoder, a mixture of experts, a state-space model), or of which some lie elsewhere.
    """
    away = next((name for name, parameter in module.named_parameters() if parameter.is_meta), None)
    if away is not None:
        raise KEError(f"{away} is offloaded, and an editor of weights needs all of them at hand", hint=AT_HAND)
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
    """The list of blocks: the module list whose items hold most parameters."""
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
        raise _unmapped(module, f"block {index} is a mixture of experts, so no one projection holds a fact")
    if not attention or not writers:
        missing = "MLP projection" if attention else "attention output"
        raise _unmapped(module, f"block {index} has no {missing} of width {probe.hidden} among its linear maps")
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
    """The maps from d to the width of the projection's keys that run before it; 2 f where gate and value are one."""
    inner = sizes(projection)[0]
    before = executed[: executed.index(projection)]
    return [child for child in before if sizes(child) in ((hidden, inner), (hidden, 2 * inner))]


def _quantized(found: ModuleMap) -> str:
    for layer in found.layers:
        weight = layer.projection.get_parameter("weight")
        if quantized(weight) or sorted(weight.shape) != sorted((found.hidden, found.inner)):
            return f"{layer.weight_name} is quantized ({weight.dtype}, {tuple(weight.shape)}); {whole_instead(weight)}"
    return ""


def _not_added(found: ModuleMap, probe: ForwardProbe) -> str:
    """Every block must add attention output and MLP output to what it received, and nothing else."""
    for layer, before, after in zip(found.layers, probe.states_in, probe.states_out, strict=True):
        written = [probe.outputs[part].reshape(before.shape) for part in (layer.attention_out, layer.projection)]
        added = written[0].to(found.dtype) + written[1].to(found.dtype)
        # Where the model lies on several devices, a block's input may come from the one before.
        off = (after.to(found.dtype) - before.to(after.device, found.dtype) - added).norm(dim=-1)
        rounding = ROUNDING * torch.finfo(after.dtype).eps * after.to(found.dtype).norm(dim=-1)
        if not bool((off <= TOLERANCE * added.norm(dim=-1) + rounding).all()):
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
