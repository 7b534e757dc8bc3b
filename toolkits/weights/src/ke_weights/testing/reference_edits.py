"""Reference implementation of keys, values, states and key covariances, for tests of editors.

It processes one text at a time, with full passes and explicit loops. It shares only the corpus with ``ke_weights``:
modules are named here, and the subject's position follows from the tokens of the text up to its end.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from attrs import define, field
from safetensors.torch import load_file
from torch import Tensor

from ke_core.plugin import Edit
from ke_weights.corpus import read_corpus
from ke_weights.optimize import TargetSettings
from ke_weights.rewrites import Rewrite
from ke_weights.testing.reference import ReferenceOptimizer, ReferenceTarget

MODULE_NAMES = {
    "gpt2": ("transformer.h.{}", "mlp", "c_proj"),
    "gptj": ("transformer.h.{}", "mlp", "fc_out"),
    "gptneox": ("gpt_neox.layers.{}", "mlp", "dense_4h_to_h"),
    "llama": ("model.layers.{}", "mlp", "down_proj"),
    "qwen2": ("model.layers.{}", "mlp", "down_proj"),
}
"""By family: the name of a block, and the path from it to the edited projection."""
TRANSPOSED = ("gpt2",)
"""Families that store the weight as [f, d]."""
FLOAT32_PARTS = ("gptj", "llama", "qwen2")
"""Families that compute parts (norms, rotary angles) in float32 for every dtype, which limits the accuracy."""


@define(eq=False)
class ReferenceModel:
    """Reads a tiny model of a family in ``MODULE_NAMES``. ``templates``: of the edit, the bare one first."""

    model: Any
    family: str
    templates: Sequence[str] = ("{}",)
    names: tuple[str, str, str] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.names = MODULE_NAMES[self.family]

    def weight(self, layer: int) -> Tensor:
        """Return a copy of W of ``layer``, [d, f]."""
        stored: Tensor = self._projection(layer).weight.detach().clone()
        return stored.T if self.family in TRANSPOSED else stored

    def add(self, layer: int, update: Tensor) -> None:
        """Add ``update`` [d, f] to W of ``layer``."""
        self._projection(layer).weight.data.add_(update.T if self.family in TRANSPOSED else update)

    def put(self, layer: int, weight: Tensor) -> None:
        """Replace W of ``layer`` by ``weight`` [d, f]."""
        self._projection(layer).weight.data.copy_(weight.T if self.family in TRANSPOSED else weight)

    def change(self, layer: int, before: Tensor) -> Tensor:
        """Return the difference of W of ``layer`` to ``before``, [d, f]."""
        return self.weight(layer) - before

    def key(self, edit: Edit, layer: int) -> Tensor:
        """Return the input of the edited projection at the subject of the bare prompt, [f]."""
        return self._read(edit, "{}", self._projection(layer), inputs=True)

    def keys(self, edit: Edit, layer: int) -> Tensor:
        """Return the key after each template, [templates, f]."""
        return torch.stack([self._read(edit, one, self._projection(layer), inputs=True) for one in self.templates])

    def grouped_key(self, edit: Edit, layer: int) -> Tensor:
        """Return MEMIT's average: half the key of the bare prompt plus half the mean of the others, [f]."""
        every = self.keys(edit, layer)
        return every[0] / 2 + every[1:].mean(0) / 2

    def value(self, edit: Edit, layer: int) -> Tensor:
        """Return the output of the edited projection at the subject of the bare prompt, [d]."""
        return self._read(edit, "{}", self._projection(layer), inputs=False)

    def state(self, edit: Edit, layer: int) -> Tensor:
        """Return the output of the block at the subject of the bare prompt, [d]."""
        return self._read(edit, "{}", self._block(layer), inputs=False)

    def project(self, layer: int, key: Tensor) -> Tensor:
        """Return W k + b with the current W of ``layer``, [d]."""
        bias = self._projection(layer).bias
        value = self.weight(layer) @ key
        return value if bias is None else value + bias.detach()

    def target(self, edit: Edit, layer: int, settings: TargetSettings, *, mlp: bool) -> ReferenceTarget:
        """Return the target of ``edit`` at the output of the MLP (ROME) or of the block."""
        assert edit.cloze is not None
        assert edit.after is not None
        site = self._projection(layer) if mlp else self._block(layer)
        wish = Rewrite(id="", prompt=edit.cloze.prompt, span=edit.cloze.span, target=edit.after.objects[0].label)
        return ReferenceOptimizer(self.model.module, self.model.tokenizer, site).target(wish, self.templates, settings)

    def covariance(self, layer: int, tokens: int, longest: int) -> Tensor:
        """Return C of ``layer``, [f, f]: the mean of k k^T over the first ``tokens`` tokens of the default corpus."""
        total, left = torch.zeros(()), tokens
        for document in read_corpus().documents:
            ids = self.model.encode(document)[: min(longest, left)]
            left -= len(ids)
            keys = self._run(ids, self._projection(layer), inputs=True)
            total = total + keys.T @ keys
            if left == 0:
                break
        return total / tokens

    def _read(self, edit: Edit, template: str, at: Any, *, inputs: bool) -> Tensor:
        assert edit.cloze is not None
        left = template.index("{}")
        text = template[:left] + edit.cloze.prompt
        index = len(self.model.encode(text[: left + edit.cloze.span[1]])) - 1
        return self._run(self.model.encode(text), at, inputs=inputs)[index]

    def _run(self, ids: list[int], at: Any, *, inputs: bool) -> Tensor:
        seen: list[Tensor] = []

        def hook(_module: Any, args: Any, output: Any) -> None:
            found = args[0] if inputs else output[0] if isinstance(output, tuple) else output
            seen.append(found.detach().reshape(len(ids), -1))

        handle = at.register_forward_hook(hook)
        with torch.no_grad():
            self.model.module(input_ids=torch.tensor([ids]))
        handle.remove()
        return seen[0]

    def _block(self, layer: int) -> Any:
        return self.model.module.get_submodule(self.names[0].format(layer))

    def _projection(self, layer: int) -> Any:
        return self._block(layer).get_submodule(".".join(self.names[1:]))


def target_of(root: Path) -> Tensor:
    """Return the z of the only target stored in ``root``, [d]."""
    (path,) = (root / "targets").glob("*.safetensors")
    found: Tensor = load_file(path)["z"]
    return found


def off(one: Tensor, other: Tensor) -> float:
    """Return the norm of the difference, relative to the norm of ``other``."""
    return float((one - other).norm() / other.norm())
