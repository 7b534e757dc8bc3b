"""The learned edits in their order: the database and the LoRA blocks follow from them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from attrs import frozen
from torch import Tensor

from ke_core.plugin import BadData, Edit, from_json, loads, to_json
from ke_plugin_melo.training import BlockTraining, Factors
from ke_weights.plugin import AS_SAVED, load_state, save_state


@frozen(kw_only=True, eq=False)
class LearnedBatch:
    """Edits that share a LoRA block, their queries [edits, d] in CPU memory, their target tokens, and the factors."""

    edits: tuple[Edit, ...]
    queries: Tensor
    labels: tuple[tuple[int, ...], ...]
    factors: Mapping[str, Factors]


def stacked_blocks(learned: Sequence[LearnedBatch], name: str) -> dict[str, Tensor]:
    """Return ``A`` [blocks, r, in] and ``B`` [blocks, out, r] of all blocks in the layer ``name``."""
    downs, ups = zip(*(batch.factors[name] for batch in learned), strict=True)
    return {"A": torch.stack(downs), "B": torch.stack(ups)}


def save_batches(path: Path, learned: Sequence[LearnedBatch], names: Sequence[str], seed: int) -> None:
    """Write the learned edits and the seed of their LoRA blocks to a safetensors file with a checksum."""
    tensors: dict[str, Tensor] = {}
    if learned:
        tensors = {f"{part} {name}": one for name in names for part, one in stacked_blocks(learned, name).items()}
        tensors["queries"] = torch.cat([batch.queries for batch in learned])
    about = {
        "edits": json.dumps([[to_json(edit) for edit in batch.edits] for batch in learned]),
        "labels": json.dumps([batch.labels for batch in learned]),
        "seed": json.dumps(seed),
    }
    save_state(path, tensors, about)


def load_batches(path: Path, how: BlockTraining, width: int) -> tuple[tuple[LearnedBatch, ...], int]:
    """Read a file of ``save_batches``; ``width``: of a query.

    Raises BadData if it is damaged, or was made for other layers or another rank.
    """
    tensors, about = load_state(path)
    edits, labels, seed = (loads(about[name]) for name in ("edits", "labels", "seed"))
    if not edits:
        return (), seed
    wanted = {"queries": (width,)} | {
        f"{part} {name}": size for name in how.names for part, size in zip("AB", how.sizes(name), strict=True)
    }
    if {name: tuple(one.shape[1:]) for name, one in tensors.items()} != wanted:
        raise BadData(f"{path} has LoRA blocks for other layers, or of other sizes", hint=AS_SAVED)
    queries = torch.split(tensors["queries"], [len(batch) for batch in edits])
    blocks = {name: tuple(tensors[f"{part} {name}"].to(how.device(name)) for part in "AB") for name in how.names}
    learned = tuple(
        LearnedBatch(
            edits=tuple(from_json(edit, Edit, of=str(path)) for edit in batch),
            queries=queries[at],
            labels=tuple(tuple(label) for label in labels[at]),
            factors={name: (downs[at], ups[at]) for name, (downs, ups) in blocks.items()},
        )
        for at, batch in enumerate(edits)
    )
    return learned, seed
