"""Where things are inside a decoder: blocks, the edited projection, the way to the logits.

Found by running the model on a few tokens and looking at what is executed, not by the names of families,
and then checked: each block must add exactly what its attention and its MLP write, and the logits must be
head(norm(h)). A decoder for which that is not so is refused, because "write at layer l, read at layer Z"
(MEMIT section 4.3) would not hold in it.
"""

from __future__ import annotations

import re
from typing import Any

import torch
from attrs import field, frozen
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from ke_core.errors import KEError
from ke_core.whitebox.hooks import Hooks, first, forward, frozen_module, hidden_in

PROBE_TOKENS = 6
TOLERANCE = 1e-4  # of what a block adds, in float32
ROUNDING = 16  # roundings of the storage type that a residual sum may be off by
ATTENTION = re.compile(r"attn|attention", re.IGNORECASE)
EXPERTS = re.compile(r"moe|expert|router", re.IGNORECASE)
OTHER_MODEL = "choose a pre-norm decoder without experts, such as GPT-2, GPT-J, LLaMA, Mistral or Qwen2"


@frozen(kw_only=True, eq=False)
class Layer:
    """One decoder block. ``projection`` is the last linear map of its MLP, W: keys [f] to values [d].

    ``attention_out`` is the linear map through which attention writes to the residual stream; ``expansion``
    names the linear maps that lead into the MLP.
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
    """A decoder taken apart. ``hidden`` is d, ``inner`` is f (the length of a key)."""

    module: nn.Module
    layers: tuple[Layer, ...]
    hidden: int
    inner: int
    final_norm: nn.Module
    unembedding: nn.Module
    config: Any = field(repr=False)

    @property
    def rms_norm(self) -> bool:
        """Whether states are normed without centring (LLaMA and its kin), not by LayerNorm (GPT)."""
        return not isinstance(self.final_norm, nn.LayerNorm)

    @property
    def device(self) -> torch.device:
        """Where token ids go."""
        return next(self.module.parameters()).device

    @property
    def dtype(self) -> torch.dtype:
        """What is computed outside the model in: float32 for a model in half precision, else its own."""
        return torch.promote_types(self.layers[0].matrix.dtype, torch.float32)

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
    """Take a causal language model apart. Raises KEError for one that does not have the expected form."""
    if getattr(module.config, "is_encoder_decoder", False):
        raise _unmapped(module, "it is an encoder-decoder")
    whole: Any = module.config
    config = whole.get_text_config() if hasattr(whole, "get_text_config") else whole
    prefix, blocks = _blocks(module, config)
    probe = _Probe(module, blocks)
    hidden = int(getattr(config, "hidden_size", probe.states_in[0].shape[-1]))
    layers = tuple(_layer(module, prefix, index, block, probe) for index, block in enumerate(blocks))
    found = ModuleMap(
        module=module,
        layers=layers,
        hidden=hidden,
        inner=_sizes(layers[0].projection)[0],
        final_norm=probe.final_norm(),
        unembedding=probe.unembedding,
        config=config,
    )
    _check_residuals(found, probe)
    _check_logits(found, probe)
    return found


class _Probe:
    """One forward pass over a few tokens, with everything noted that the search needs."""

    def __init__(self, module: nn.Module, blocks: list[nn.Module]) -> None:
        self.module = module
        self.unembedding: nn.Module = module.get_output_embeddings()  # type: ignore[operator]  # transformers' own
        self.executed: dict[nn.Module, list[nn.Module]] = {block: [] for block in blocks}
        self.outputs: dict[nn.Module, Tensor] = {}
        self.states_in: list[Tensor] = []
        self.states_out: list[Tensor] = []
        self.after_blocks: list[nn.Module] = []
        embedding: nn.Embedding = module.get_input_embeddings()  # type: ignore[operator]  # as above
        count = embedding.weight.shape[0]
        ids = torch.arange(1, PROBE_TOKENS + 1, device=embedding.weight.device)[None] * count // (PROBE_TOKENS + 2)
        with frozen_module(module), Hooks() as hooks:
            self._watch(hooks, blocks)
            self.logits: Tensor = forward(module, ids, torch.ones_like(ids)).logits

    def _watch(self, hooks: Hooks, blocks: list[nn.Module]) -> None:
        inside = {child for block in blocks for child in block.modules()}
        for block in blocks:
            hooks.before(block, lambda args, kwargs: self.states_in.append(hidden_in(args, kwargs)))
            hooks.after(block, self.states_out.append)
            for child in block.modules():
                if _is_projection(child):
                    hooks.after(child, lambda output, b=block, c=child: self._note(b, c, output))  # type: ignore[misc]
                elif child is not block:
                    hooks.after(child, lambda output, c=child: self.outputs.__setitem__(c, output))  # type: ignore[misc]
        for child in self.module.modules():
            if child not in inside and not list(child.children()):
                hooks.after(child, lambda _output, c=child: self._outside(c))  # type: ignore[misc]

    def _note(self, block: nn.Module, child: nn.Module, output: Tensor) -> None:
        self.executed[block].append(child)
        self.outputs[child] = output

    def _outside(self, child: nn.Module) -> None:
        if len(self.states_out) == len(self.executed) and child is not self.unembedding:
            self.after_blocks.append(child)

    def final_norm(self) -> nn.Module:
        """The last module executed between the last block and the unembedding."""
        return self.after_blocks[-1] if self.after_blocks else nn.Identity()


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


def _layer(module: nn.Module, prefix: str, index: int, block: nn.Module, probe: _Probe) -> Layer:
    names = {child: name for name, child in block.named_modules()}
    hidden = probe.states_in[0].shape[-1]
    writers = [child for child in probe.executed[block] if _sizes(child)[1] == hidden]
    attention = [child for child in writers if ATTENTION.search(names[child])]
    rest = [child for child in writers if not ATTENTION.search(names[child])]
    if not attention or not rest:
        missing = "attention output" if not attention else "MLP projection"
        raise _unmapped(module, f"block {index} has no {missing} of width {hidden}{_experts(block)}")
    projection = rest[-1]
    parent = names[projection].rpartition(".")[0]
    inner = _sizes(projection)[0]
    into = [child for child in probe.executed[block] if child is not projection and _sizes(child) == (hidden, inner)]
    name = f"{prefix}.{index}"
    weight = projection.get_parameter("weight")
    if not weight.is_floating_point() or sorted(weight.shape) != sorted((hidden, inner)):
        raise KEError(
            f"the weight of {name}.{names[projection]} is quantised ({weight.dtype}, {tuple(weight.shape)})",
            hint="load the model with --dtype float32 or bfloat16 to edit it",
        )
    return Layer(
        index=index,
        name=name,
        block=block,
        attention_out=attention[-1],
        mlp=block.get_submodule(parent) if parent else projection,
        expansion=tuple(f"{name}.{names[c]}" for c in into if not ATTENTION.search(names[c])),
        projection=projection,
        projection_name=f"{name}.{names[projection]}",
    )


def _check_residuals(found: ModuleMap, probe: _Probe) -> None:
    """Every block must add attention output and MLP output to what it received, and nothing else."""
    for layer, before, after in zip(found.layers, probe.states_in, probe.states_out, strict=True):
        attention, mlp = probe.outputs[layer.attention_out], first(probe.outputs[layer.mlp])
        added = (attention.reshape(before.shape) + mlp.reshape(before.shape)).to(found.dtype)
        off = (after.to(found.dtype) - before.to(found.dtype) - added).norm(dim=-1)
        rounding = ROUNDING * torch.finfo(after.dtype).eps * after.to(found.dtype).norm(dim=-1)
        if not bool((off <= TOLERANCE * added.norm(dim=-1) + rounding).all()):
            raise _unmapped(
                found.module,
                f"block {layer.index} does not add attention and MLP output to its input "
                f"(a norm after the MLP, or a residual multiplier){_experts(layer.block)}",
            )


def _check_logits(found: ModuleMap, probe: _Probe) -> None:
    with frozen_module(found.module):
        logits = found.logits(probe.states_out[-1])
    off = (logits - probe.logits.to(found.dtype)).abs().max()
    if off > max(TOLERANCE, ROUNDING * torch.finfo(probe.logits.dtype).eps) * logits.abs().max():
        raise _unmapped(found.module, "its logits are not head(norm(h)): they are scaled or capped")


def _is_projection(module: nn.Module) -> bool:
    return isinstance(module, nn.Linear | Conv1D)


def _sizes(projection: nn.Module) -> tuple[int, int]:
    """(in, out) of a linear map."""
    if isinstance(projection, Conv1D):
        shape = projection.weight.shape
        return int(shape[0]), int(shape[1])
    assert isinstance(projection, nn.Linear)
    return projection.in_features, projection.out_features


def _experts(block: nn.Module) -> str:
    kinds = {type(child).__name__ for child in block.modules()}
    return ": a mixture of experts" if any(EXPERTS.search(kind) for kind in kinds) else ""


def _unmapped(module: nn.Module, why: str) -> KEError:
    return KEError(f"cannot find the parts of {type(module).__name__} that an edit needs: {why}", hint=OTHER_MODEL)
