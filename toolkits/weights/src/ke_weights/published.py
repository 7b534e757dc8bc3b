"""Hyperparameters that were published for a model, looked up by the dimensions of its architecture."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import evolve, frozen

Key = tuple[str, int, int, int]
"""transformers' model type, blocks, hidden size, key dimension."""


@frozen
class Published:
    """Published values for one shape, with their source. ``also``: other published values for a model of that shape.

    ``lender``: the method that they were published for, if another method uses them.
    """

    source: str
    values: Mapping[str, Any]
    also: str = ""
    lender: str = ""

    @property
    def reason(self) -> str:
        """Source of the values."""
        lender = f"{self.lender}'s, " if self.lender else ""
        return f"{lender}published for {self.source}" + (f" ({self.also})" if self.also else "")

    def borrowed_from(self, method: str) -> Published:
        """Return the same values for another method than ``method``, which they were published for."""
        return evolve(self, lender=method)


_MEMIT = {"layers": (3, 4, 5, 6, 7, 8), "steps": 25, "lr": 0.5, "weight_decay": 0.5, "clamp": 0.75}
_EASYEDIT = _MEMIT | {"layers": (4, 5, 6, 7, 8), "weight_decay": 1e-3, "clamp": 4.0}
_WITHOUT = "with mom2_adjustment off"
_ROME = {"steps": 20, "lr": 0.5, "weight_decay": 0.5, "clamp": 4.0}

PUBLISHED_MULTI_LAYER: Mapping[Key, Published] = {
    ("gpt2", 48, 1600, 6400): Published(
        "GPT-2 XL by MEMIT's authors", _MEMIT | {"layers": (13, 14, 15, 16, 17), "steps": 20}
    ),
    ("gptj", 28, 4096, 16384): Published("GPT-J by MEMIT's authors", _MEMIT),
    ("gpt_neox", 44, 6144, 24576): Published("GPT-NeoX by MEMIT's authors", _MEMIT | {"layers": (6, 7, 8, 9, 10)}),
    ("llama", 32, 4096, 11008): Published(
        "LLaMA-2-7B by EasyEdit",
        _EASYEDIT,
        "MQuAKE edits layers 5-9 of Vicuna-7B with a weight decay of 0.5 and a clamp of 0.75; "
        "for Tulu-7B none are published",
    ),
    ("llama", 32, 4096, 14336): Published(
        "LLaMA-3-8B by AlphaEdit's authors",
        _MEMIT | {"layers": (4, 5, 6, 7, 8), "lr": 0.1},
        "CompKE edits layers 3-8 of LLaMA-3.1-8B with a rate of 0.5, a weight decay of 0.001 and a clamp of 4",
    ),
    ("llama", 28, 3072, 8192): Published("LLaMA-3.2-3B by EasyEdit", _EASYEDIT),
    ("mistral", 32, 4096, 14336): Published("Mistral-7B by EasyEdit", _EASYEDIT),
    ("qwen2", 28, 3584, 18944): Published("Qwen2.5-7B by EasyEdit", _EASYEDIT, "CompKE edits layers 3-8 in 15 steps"),
    ("qwen2", 36, 2048, 11008): Published(
        "Qwen2.5-3B in CompKE", _EASYEDIT | {"layers": (3, 4, 5, 6, 7, 8), "steps": 15}
    ),
}
"""Layers and targets of MEMIT, which AlphaEdit and EMMET use if they have no published values.

GPT-NeoX's authors released no steps and learning rate; these are GPT-J's.
"""


def with_memit_values(own: Mapping[Key, Published]) -> dict[Key, Published]:
    """Return the table of a method that uses MEMIT's layers and targets where ``own``, its published values, has none.

    For a model that is not in ``own``, the reasons state that the values are MEMIT's.
    """
    borrowed = {key: known.borrowed_from("MEMIT") for key, known in PUBLISHED_MULTI_LAYER.items()}
    return borrowed | {
        key: evolve(known, values={**PUBLISHED_MULTI_LAYER[key].values, **known.values}) for key, known in own.items()
    }


PUBLISHED_SINGLE_LAYER: Mapping[Key, Published] = {
    ("gpt2", 24, 1024, 4096): Published("GPT-2 medium by ROME's authors", _ROME | {"layer": 8, "clamp": 3.0}),
    ("gpt2", 36, 1280, 5120): Published("GPT-2 large by ROME's authors", _ROME | {"layer": 12}),
    ("gpt2", 48, 1600, 6400): Published("GPT-2 XL by ROME's authors", _ROME | {"layer": 17}),
    ("gptj", 28, 4096, 16384): Published("GPT-J by ROME's authors", _ROME | {"layer": 5}),
    ("gpt_neox", 44, 6144, 24576): Published("GPT-NeoX by ROME's authors", _ROME | {"layer": 15}),
    ("llama", 32, 4096, 11008): Published(
        "LLaMA-7B in RippleEdits",
        _ROME | {"layer": 5},
        "EasyEdit edits LLaMA-2-7B in 25 steps with a weight decay of 0.001 and mom2_adjustment off; "
        "MQuAKE edits layer 9 of Vicuna-7B",
    ),
    ("llama", 32, 4096, 14336): Published(
        "LLaMA-3-8B by EasyEdit", _ROME | {"layer": 5, "steps": 25, "weight_decay": 1e-3}, _WITHOUT
    ),
    ("llama", 28, 3072, 8192): Published(
        "LLaMA-3.2-3B by EasyEdit", _ROME | {"layer": 5, "steps": 25, "weight_decay": 1e-3}, _WITHOUT
    ),
    ("mistral", 32, 4096, 14336): Published(
        "Mistral-7B by EasyEdit", _ROME | {"layer": 5, "steps": 25, "weight_decay": 1e-3}, _WITHOUT
    ),
    ("qwen2", 28, 3584, 18944): Published(
        "Qwen2.5-7B by EasyEdit",
        _ROME | {"layer": 5, "steps": 25, "weight_decay": 1e-3},
        f"{_WITHOUT}; CompKE uses 15 steps",
    ),
    ("qwen2", 36, 2048, 11008): Published(
        "Qwen2.5-3B in CompKE", _ROME | {"layer": 5, "steps": 15, "weight_decay": 1e-3}, _WITHOUT
    ),
}
"""Layer and target of ROME and R-ROME."""

_LONG = {"layer": 7, "steps": 25, "lr": 0.5, "weight_decay": 1e-3, "clamp": 4.0}
PUBLISHED_LONG_ANSWERS: Mapping[Key, Published] = {
    ("llama", 32, 4096, 14336): Published("LLaMA-3-8B by AnyEdit's authors", _LONG),
    ("qwen2", 28, 3584, 18944): Published("Qwen2.5-7B by AnyEdit's authors", _LONG),
}
"""Block and target of UnKE, and of AnyEdit with UnKE as its base."""
