"""Targets z of many edits: found again where they are known, optimised together where they are not."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from attrs import asdict
from safetensors import safe_open
from safetensors.torch import save_file

from ke_core.files import write_atomic
from ke_core.protocols import Session
from ke_core.whitebox.modules import ModuleMap
from ke_core.whitebox.optimise import Plan, Target, ZSettings, optimise, plan
from ke_core.whitebox.rewrites import Rewrite

TOGETHER = 1024  # tokens from the subject on, of all rows: what one step keeps activations of


def optimised(
    session: Session[Any],
    modules: ModuleMap,
    rewrites: Sequence[Rewrite],
    templates: Sequence[str],
    settings: ZSettings,
) -> list[Target]:
    """The target of each rewrite, in order; an edit's target does not depend on the others beyond rounding.

    Kept on disk under all that determines it: weights, texts, templates and settings (pitfall E6).
    """
    tokenizer = session.model.tokenizer
    paths = [_path(session, modules, rewrite, templates, settings) for rewrite in rewrites]
    plans = {
        path: plan(tokenizer, rewrite, templates)
        for path, rewrite in zip(paths, rewrites, strict=True)
        if not path.exists()
    }
    finished = 0
    for group in _groups(plans):
        made = optimise(modules, [plans[path] for path in group], settings)
        for path, target in zip(group, made, strict=True):
            _save(path, target)
        finished += len(group)
        session.progress.advance("targets", finished, len(plans))
    return [_load(path, modules) for path in paths]


def _groups(plans: dict[Path, Plan]) -> list[list[Path]]:
    """Edits of like length together, as many as memory should hold."""
    groups: list[list[Path]] = []
    for path, made in sorted(plans.items(), key=lambda item: -item[1].suffix):
        first = plans[groups[-1][0]] if groups else made
        if groups and (len(groups[-1]) + 1) * len(first.rows) * first.suffix <= TOGETHER:
            groups[-1].append(path)
        else:
            groups.append([path])
    return groups


def _path(
    session: Session[Any], modules: ModuleMap, rewrite: Rewrite, templates: Sequence[str], settings: ZSettings
) -> Path:
    key = {
        "model": session.model.digest,
        "block": modules.layers[settings.layer].name,
        "rewrite": asdict(rewrite) | {"id": ""},
        "templates": list(templates),
        "settings": asdict(settings),
        "dtype": str(modules.dtype),
    }
    return session.artifacts.path("targets", key, ".safetensors")


def _save(path: Path, target: Target) -> None:
    about = {name: value for name, value in asdict(target).items() if name != "z"}
    tensors = {"z": target.z.cpu().contiguous()}
    write_atomic(path, lambda new: save_file(tensors, new, metadata={"target": json.dumps(about)}))


def _load(path: Path, modules: ModuleMap) -> Target:
    with safe_open(path, framework="pt") as found:
        z: torch.Tensor = found.get_tensor("z").to(modules.device)
        return Target(z=z, **json.loads(found.metadata()["target"]))
