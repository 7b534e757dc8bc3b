"""One forward pass over a few tokens, recorded for the search for a decoder's parts."""

from __future__ import annotations

import re
from typing import Any

import torch
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from ke_plugin_hf.adaptors import hidden_in
from ke_weights.hooks import Hooks, forward, frozen_module

PROBE_TOKENS = 6
LORA = re.compile(r"\blora_[AB]\b")
"""Names of the factors in a peft adapter, which are not parts of the decoder."""


class ForwardProbe:
    """Records one forward pass over a few tokens."""

    def __init__(self, module: nn.Module, blocks: list[nn.Module]) -> None:
        self.module = module
        self.unembedding: nn.Module = module.get_output_embeddings()  # type: ignore[operator]  # untyped in transformers
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
            for name, child in block.named_modules():
                if _is_projection(child) and not LORA.search(name):
                    hooks.after(child, lambda output, b=block, c=child: self._note(b, c, output))  # type: ignore[misc]
                elif child is not block:
                    hooks.after(child, lambda output, c=child: self._keep(c, output))  # type: ignore[misc]
        for child in self.module.modules():
            if child not in inside and not list(child.children()):
                hooks.after(child, lambda _output, c=child: self._outside(c))  # type: ignore[misc]

    @property
    def hidden(self) -> int:
        """Dimension of the residual stream, d."""
        return self.states_in[0].shape[-1]

    def _note(self, block: nn.Module, child: nn.Module, output: Tensor) -> None:
        self.executed[block].append(child)
        self._keep(child, output)

    def _keep(self, child: nn.Module, output: Any) -> None:
        """Copy the output: some families modify a module's output in place (Falcon, Llama 4)."""
        if isinstance(output, Tensor):
            self.outputs[child] = output.clone()

    def _outside(self, child: nn.Module) -> None:
        if len(self.states_out) == len(self.executed) and child is not self.unembedding:
            self.after_blocks.append(child)

    def final_norm(self) -> nn.Module:
        """Return the last module that runs between the last block and the unembedding."""
        return self.after_blocks[-1] if self.after_blocks else nn.Identity()


def _is_projection(module: nn.Module) -> bool:
    return isinstance(module, nn.Linear | Conv1D)


def sizes(projection: nn.Module) -> tuple[int, int]:
    """Return dimensions (in, out) of a linear layer, for either storage order."""
    if isinstance(projection, Conv1D):
        shape = projection.weight.shape
        return int(shape[0]), int(shape[1])
    assert isinstance(projection, nn.Linear)
    return projection.in_features, projection.out_features
