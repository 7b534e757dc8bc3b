"""Targets z of many edits: loaded if they are cached, else optimized together."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from attrs import asdict, evolve

from ke_core.plugin import Edit, KEError, Session, loads, locked
from ke_plugin_hf.decoding.memory import halved, of_device
from ke_weights.modules import ModuleMap
from ke_weights.optimize import OptimizedTarget, TargetRows, TargetSettings, optimize_targets, target_rows
from ke_weights.rewrites import Rewrite, rewrite
from ke_weights.state_files import load_intact, save_state

KIND = "targets"  # the key has no version: a change of the result needs a new kind, such as targets-2
LABEL = "optimizing targets"
LATER = (("stop_hits", 0), ("kl_stop", None))  # settings that are not in the key at these values
# By type of device, enough to keep it busy. A GPU takes nearly as long for a small step as for a large one.
AHEAD = {"cpu": 16, "cuda": 128}  # edits optimized together with upcoming ones; more are enough by themselves
TOGETHER = {"cpu": 640, "cuda": 8192}  # tokens from the subject on, of all rows, whose activations one step keeps

_alone: set[Path] = set()  # targets of upcoming edits that are not optimized ahead again, because one of them failed


def optimized_targets(
    session: Session[Any],
    modules: ModuleMap,
    rewrites: Sequence[Rewrite],
    templates: Sequence[str],
    settings: TargetSettings,
    upcoming: Callable[[], Sequence[Edit]] = tuple,
) -> list[OptimizedTarget]:
    """Return the target of each rewrite, in order; a target depends on the other edits only by rounding.

    Targets are cached on disk under everything that determines them: weights, texts, templates and settings. A damaged
    one is computed again. If any is computed, those of the ``upcoming`` edits are computed and cached with it, because
    many together take less time than one after another.
    """
    path_of = _path_of(session, modules, templates, settings)
    paths = [path_of(made) for made in rewrites]
    place = modules.layers[settings.layer].matrix.device  # device of the states to compare with
    known = _known(paths, place)
    if not known.keys() >= set(paths):
        lock = min(paths).with_suffix(".lock")
        with locked(lock):  # processes that share a run need the same ones at the same time
            known = _known(paths, place)
            missing = {path: made for path, made in zip(paths, rewrites, strict=True) if path not in known}
            free = of_device(AHEAD, modules.device) - len(missing)
            later = map(rewrite, upcoming()[:free]) if missing and free > 0 else ()
            found = {path_of(made): made for made in later}
            more = {
                path: made for path, made in found.items() if not (path in missing or path in _alone or path.exists())
            }
            known |= _made(session, modules, missing, more, templates, settings)
            with suppress(PermissionError):  # Windows deletes no open file
                lock.unlink(missing_ok=True)  # a process that waits finds the targets, whichever file it then locks
    return [known[path] for path in paths]


def _known(paths: Sequence[Path], place: torch.device) -> dict[Path, OptimizedTarget]:
    return {path: target for path in paths if (target := _load(path, place)) is not None}


def _made(
    session: Session[Any],
    modules: ModuleMap,
    missing: Mapping[Path, Rewrite],
    more: Mapping[Path, Rewrite],
    templates: Sequence[str],
    settings: TargetSettings,
) -> dict[Path, OptimizedTarget]:
    """Optimize the ``missing`` targets, and ``more`` with them. Each is saved as soon as its group is done."""
    made: dict[Path, OptimizedTarget] = {}

    def optimize(some: Mapping[Path, Rewrite]) -> None:
        paths = [*some]
        plans = [target_rows(session.model.tokenizer, each, templates) for each in some.values()]

        def save(place: int, target: OptimizedTarget) -> None:
            _save(paths[place], target)
            made[paths[place]] = evolve(target, z=target.z.to(modules.layers[settings.layer].matrix.device))

        optimize_in_groups(session, modules, plans, settings, save)

    if more:
        _alone.update(more)
        with suppress(KEError):  # an upcoming edit that fails must not fail the current ones
            optimize({**missing, **more})
            _alone.difference_update(more)
    optimize({path: each for path, each in missing.items() if path not in made})
    return made


def optimize_in_groups(
    session: Session[Any],
    modules: ModuleMap,
    plans: Sequence[TargetRows],
    settings: TargetSettings,
    done: Callable[[int, OptimizedTarget], None],
) -> None:
    """Optimize the targets of ``plans`` in groups that fit into memory. Call ``done(place, target)`` for each."""
    finished = 0

    def make(places: Sequence[int]) -> None:
        for place, target in zip(
            places, optimize_targets(modules, [plans[at] for at in places], settings), strict=True
        ):
            done(place, target)

    session.progress.advance(LABEL, 0, len(plans))
    for group in _groups(plans, of_device(TOGETHER, modules.device)):
        halved(group, make, "edit's target")
        finished += len(group)
        session.progress.advance(LABEL, finished, len(plans))


def _groups(plans: Sequence[TargetRows], tokens: int) -> list[list[int]]:
    """Group edits of similar length, of up to ``tokens`` tokens in all. Return their places."""
    groups: list[list[int]] = []
    for place in sorted(range(len(plans)), key=lambda at: -plans[at].suffix):
        first = plans[groups[-1][0]] if groups else plans[place]
        if groups and (len(groups[-1]) + 1) * len(first.rows) * first.suffix <= tokens:
            groups[-1].append(place)
        else:
            groups.append([place])
    return groups


def _path_of(
    session: Session[Any], modules: ModuleMap, templates: Sequence[str], settings: TargetSettings
) -> Callable[[Rewrite], Path]:
    """Return the function from a rewrite to the file of its target, for the model as it is now."""
    shared = {
        "model": session.model.plain.digest,
        "block": modules.layers[settings.layer].name,
        "templates": list(templates),
        "settings": {name: value for name, value in asdict(settings).items() if (name, value) not in LATER},
        "dtype": str(modules.dtype),
    }
    return lambda each: session.artifacts.path(KIND, {**shared, "rewrite": asdict(each) | {"id": ""}}, ".safetensors")


def _save(path: Path, target: OptimizedTarget) -> None:
    save_state(path, {"z": target.z, "losses": target.losses}, {"change": json.dumps(target.change)})


def _load(path: Path, place: torch.device) -> OptimizedTarget | None:
    """Return the target in a file; None if it is missing or damaged, or was written before files had losses."""
    found = load_intact(path, place)
    if found is None or "losses" not in found[0]:
        return None
    return OptimizedTarget(z=found[0]["z"], losses=found[0]["losses"].cpu(), change=loads(found[1]["change"]))
