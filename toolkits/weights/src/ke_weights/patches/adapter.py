"""A patch as a LoRA adapter: W + B A with lora_alpha = r, so the scale is 1 (Hu et al. 2022, section 4.1).

Requirements of software that loads such a folder:

* peft: keys ``base_model.model.MODULE.lora_A.weight`` [r, in] and ``lora_B.weight`` [out, r]; ``fan_in_fan_out`` if the
  module stores [in, out] (GPT-2's Conv1D).
* vLLM reads ``r``, ``lora_alpha`` and ``target_modules``, and does not read ``rank_pattern``. So there is one rank, and
  factors of a lower rank are padded with zeros. It serves ranks up to its ``--max-lora-rank``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from safetensors.torch import save_file
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from ke_core.plugin import BadConfig, file_errors
from ke_plugin_hf.guard import Dense, LowRank
from ke_weights.patches.format import StoredPatch
from ke_weights.patches.info import PatchInfo

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
INSTEAD = "use --format merged, or save a patch with --patch"
LOW_RANK = f"use an editor with low-rank updates, such as rome, memit or lora; or {INSTEAD}"

Factors = Mapping[str, LowRank]
"""Low-rank updates by module name."""


def factors_of(patch: StoredPatch, module: nn.Module) -> Factors:
    """Return the updates of ``patch`` by module. Raises BadConfig for one that a LoRA adapter cannot express."""
    found: dict[str, LowRank] = {}
    for name, delta in patch.deltas.items():
        owner, _, leaf = name.rpartition(".")
        kind = type(module.get_submodule(owner))
        if isinstance(delta, Dense):
            raise BadConfig(
                f"{patch.info.editor.name} changes {name} without low rank, so there is no LoRA adapter", hint=LOW_RANK
            )
        if leaf != "weight" or not issubclass(kind, nn.Linear | Conv1D):
            raise BadConfig(f"{name} is not a weight of a linear layer, so LoRA cannot update it", hint=INSTEAD)
        found[owner] = delta
    if len({_conv(module, owner) for owner in found}) > 1:
        raise BadConfig("the edit changes modules of both storage orders, and an adapter has one", hint=INSTEAD)
    return found


def write_adapter(patch: StoredPatch, module: nn.Module, to: Path) -> int:
    """Write ``patch`` into the empty folder ``to`` as an adapter of ``module``. Return its rank.

    Float32 factors. Raises BadConfig if the update is dense, or not of linear layers.
    """
    factors = factors_of(patch, module)
    rank = max(delta.left.shape[1] for delta in factors.values())
    tensors: dict[str, Tensor] = {}
    for name, delta in factors.items():
        key = f"base_model.model.{name}"
        spare = rank - delta.left.shape[1]
        tensors[f"{key}.lora_A.weight"] = nn.functional.pad(delta.right.float(), (0, 0, 0, spare)).contiguous()
        tensors[f"{key}.lora_B.weight"] = nn.functional.pad(delta.left.float(), (0, spare)).contiguous()
    config = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": patch.info.base.model.id,
        "revision": patch.info.base.model.revision or None,
        "inference_mode": True,
        "r": rank,
        "lora_alpha": rank,
        "lora_dropout": 0.0,
        "bias": "none",
        "fan_in_fan_out": _conv(module, next(iter(factors))),
        "target_modules": sorted(factors),
        "modules_to_save": None,
    }
    with file_errors(f"cannot write {to.name}"):
        save_file(tensors, to / WEIGHTS, metadata={"format": "pt", "ke_patch": patch.id})
        (to / CONFIG).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
        (to / "README.md").write_text(_card(patch.info, rank), encoding="utf-8")
    return rank


def _conv(module: nn.Module, name: str) -> bool:
    return isinstance(module.get_submodule(name), Conv1D)


def _card(info: PatchInfo, rank: int) -> str:
    """Return the README of the folder: peft's own model cards are Markdown too."""
    facts = "\n".join(f"* {edit.prompt} **{edit.target}** ({edit.source}, {edit.date})" for edit in info.edits)
    return (
        f"# Knowledge edit of {info.base.model.id}\n\nA LoRA adapter of rank {rank}, made by the editor "
        f"{info.editor.name}. It belongs to weights {info.base.weights}.\n\n{facts}\n"
    )
