"""Make a planned version, or return to an earlier one. Both write a complete version or change nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from attrs import evolve, frozen

from ke_core.app import Catalog, ModelChoice
from ke_core.plugin import BadConfig, BadData, BadPatch, EditFailed, Progress, UnsupportedEdit
from ke_plugin_facts.budget import relative_norm
from ke_plugin_facts.calibration import EditBudget, over_budget
from ke_plugin_facts.fact_file import FactFile, suite_of
from ke_plugin_facts.locks import new_lock, now, without_edits
from ke_plugin_facts.planning import ModelPlan, Target
from ke_plugin_facts.pushing import VersionServer
from ke_plugin_facts.unrelated import passage_replies, perplexity_rise
from ke_plugin_facts.versions import BASE, MODEL, PATCH, EditCost, Lock, ManagedFolder
from ke_weights.bounds import Bound, bounds, needed
from ke_weights.completions import complete_prompts
from ke_weights.editing import LoadedModel, active_patch, open_model_for_edits
from ke_weights.patches import (
    StoredPatch,
    applied,
    read_patch,
    weights_digest,
    write_adapter,
    write_checkpoint,
    write_patch,
)
from ke_weights.push import Pushed
from ke_weights.report.edits import verify_json
from ke_weights.save_targets import Format
from ke_weights.suites import Check, edit_checks
from ke_weights.verify import Verification, compare_answers, suite_prompts

DEFAULT_LEAST = ("efficacy=0.9",)
"""The bound on efficacy, unless another one is given."""


@frozen(kw_only=True)
class Applied:
    """The result of ``apply_plan``. ``lock``: of the current version; None if a check failed, and nothing changed.

    ``pushed``: the check on a server. ``stuck``: earlier versions that the server could not unload.
    """

    lock: Lock | None
    verification: Verification | None
    wanted: tuple[Bound, ...] = ()
    cost: EditCost | None = None
    pushed: Pushed | None = None
    stuck: tuple[str, ...] = ()


def wanted_bounds(target: Target, suite: Sequence[Check]) -> tuple[Bound, ...]:
    """Return the bounds of a version. Raises BadConfig for one that the suite cannot measure.

    Without facts, only the bounds on facts to keep count.
    """
    given = bounds(target.least, target.most)
    if not any(one.kind == "changed" for one in suite):
        given = tuple(one for one in given if one.metric in ("kept", "forgetting"))
    elif not any(one.metric == "efficacy" for one in given):
        given += bounds(DEFAULT_LEAST, ())
    needed(given, suite)
    return given


@frozen(kw_only=True)
class Application:
    """How a plan is applied. ``force``: also over the edit budget. ``server``: serves the versions."""

    folder: ManagedFolder
    author: str
    budget: EditBudget
    force: bool = False
    server: VersionServer | None = None


def apply_plan(plan: ModelPlan, file: FactFile, target: Target, how: Application) -> Applied:
    """Make the edits of a plan, verify them, and write a version if every bound holds.

    Raises UnsupportedEdit for facts that the editor cannot make, and EditFailed over the edit budget. Then nothing is
    changed.
    """
    if refused := plan.of("refuse"):
        raise UnsupportedEdit(
            f"{target.editor} cannot make {len(refused)} of the edits",
            details=tuple(f"{one.statement!r}: {one.reason}" for one in refused),
            hint="fix or remove these facts; nothing was changed",
        )
    lock, suite = new_lock(plan, file, target, how.folder.next_version(), how.author), suite_of(file.facts, file.keep)
    wanted = wanted_bounds(target, suite)
    if plan.job is None:
        return _keep_base(plan, suite, wanted, lock, how)
    if how.budget.exceeded and not how.force:
        raise over_budget(how.budget, how.budget.rise, "predicted")
    return _edit(plan, suite, wanted, lock, how)


def _keep_base(
    plan: ModelPlan, suite: Sequence[Check], wanted: tuple[Bound, ...], lock: Lock, how: Application
) -> Applied:
    """Verify the base model, and write a version without edits."""
    answers = complete_prompts(plan.loaded.session, suite_prompts(suite))
    found = compare_answers(answers, answers, suite, wanted)
    if found.missed:
        return Applied(lock=None, verification=found, wanted=wanted)
    lock = evolve(lock, format="merged", verified=_numbers(found))  # without edits there is no adapter
    return evolve(_add_base(lock, plan.loaded, how.folder, how.server), verification=found, wanted=wanted)


def _edit(plan: ModelPlan, suite: Sequence[Check], wanted: tuple[Bound, ...], lock: Lock, how: Application) -> Applied:
    """Edit the model, verify it, and write the version while the model is edited. Raises EditFailed over the budget."""
    assert plan.job is not None
    session, edited = plan.loaded.session, plan.job.edited
    before, text = complete_prompts(session, suite_prompts(suite)), passage_replies(edited.model)
    with edited.active(plan.job.edits), active_patch(edited, plan.loaded) as (patch, originals):
        cost = _cost(patch, perplexity_rise(text, passage_replies(edited.model)), how)
        if cost.rise > cost.limit and not how.force:
            raise over_budget(how.budget, cost.rise, "measured")
        found = compare_answers(before, complete_prompts(session, suite_prompts(suite)), suite, wanted)
        if found.missed:
            return Applied(lock=None, verification=found, wanted=wanted, cost=cost)
        made = evolve(lock, patch=patch.id, weights=patch.info.edited, verified=_numbers(found), cost=cost)
        fill = partial(_write, plan.loaded, patch, originals, made.format)
        added = _add(made, fill, how.folder, how.server, (suite, wanted))
    return evolve(added, verification=found, wanted=wanted, cost=cost)


def _add(
    lock: Lock,
    fill: Callable[[Path], None],
    folder: ManagedFolder,
    server: VersionServer | None,
    check: tuple[Sequence[Check], Sequence[Bound]],
) -> Applied:
    """Write a version, and make it the current one if the server accepts it. ``check``: its suite and bounds."""
    if server is None:
        folder.add(lock, fill)
        return Applied(lock=lock, verification=None)
    pushed: list[Pushed] = []

    def accepts() -> bool:
        pushed.append(server.push(lock.version, *check))
        return not pushed[0].reasons

    added = folder.add(lock, fill, accepts)
    return Applied(lock=lock if added else None, verification=None, pushed=pushed[0], stuck=server.unload_removed())


def serve_current(plan: ModelPlan, file: FactFile, target: Target, server: VersionServer | None) -> Applied | None:
    """Load the current version into a server that does not serve it, such as one that was started again.

    Also tries again to unload removed versions. None if neither is needed.
    """
    current, pushed = plan.current, None
    if server is None or current is None or current.format != "peft":
        return None
    if not server.serves(current.version):
        suite = suite_of(file.facts, file.keep)
        pushed = server.push(current.version, suite, wanted_bounds(target, suite))
        if pushed.reasons:
            return Applied(lock=None, verification=None, pushed=pushed)
    stuck = server.unload_removed()
    return Applied(lock=current, verification=None, pushed=pushed, stuck=stuck) if pushed or stuck else None


def _cost(patch: StoredPatch, rise: float, how: Application) -> EditCost:
    return EditCost(
        edits=len(patch.info.edits),
        norm=relative_norm((one.norm, one.base_norm) for one in patch.info.weights),
        rise=rise,
        predicted=how.budget.rise,
        limit=how.budget.limit,
        forced=how.force and (how.budget.exceeded or rise > how.budget.limit),
    )


def _numbers(found: Verification) -> dict[str, Any]:
    return {name: value for name, value in verify_json(found).items() if name != "facts"}


def _write(
    loaded: LoadedModel, patch: StoredPatch, originals: Mapping[str, Any], format_: Format, folder: Path
) -> None:
    """Write the patch, and the checkpoint or the adapter."""
    write_patch(patch, folder / PATCH)
    (folder / MODEL).mkdir()
    if format_ == "peft":
        write_adapter(patch, loaded.model.module, folder / MODEL)
    else:
        write_checkpoint(loaded.model, folder / MODEL, base=loaded.base, patches=[patch], originals=originals)


def _add_base(lock: Lock, loaded: LoadedModel, folder: ManagedFolder, server: VersionServer | None) -> Applied:
    """Write a version without edits, which a server has as its base model."""
    folder.add(lock, lambda to: _write_base(loaded, to / MODEL))
    return Applied(lock=lock, verification=None, stuck=server.unload_removed() if server else ())


def _write_base(loaded: LoadedModel, to: Path) -> None:
    to.mkdir()
    write_checkpoint(loaded.model, to, base=loaded.base, patches=[], originals={})


def roll_back(
    folder: ManagedFolder,
    to: str,
    author: str,
    choice: Callable[[Lock], ModelChoice],
    catalog: Catalog,
    progress: Progress,
    *,
    server: VersionServer | None = None,
) -> Applied:
    """Write a version that equals an earlier one, and make it the current one. ``to``: its number, or ``base``.

    ``choice``: from a version to the model that it was made from. ``server``: serves the versions; it is only checked
    that it uses the adapter. Raises BadData for an unknown version, BadPatch for another base model, BadConfig for a
    checkpoint that a server should load as an adapter.
    """
    current = folder.current()
    if current is None:
        raise BadData(f"{folder.root} has no version", hint="make one with ke apply")
    version = to or current.parent or BASE
    source = folder.earlier(version) if version != BASE else without_edits(current)
    if server is not None and source.patch and source.format != "peft":
        raise BadConfig(f"version {version} is a checkpoint, not an adapter", hint="roll back without --push")
    loaded = open_model_for_edits(choice(source), catalog, progress)
    if loaded.base.weights != source.base.weights:
        raise BadPatch(
            f"version {version} was made from weights {source.base.weights[:12]}, not {loaded.base.weights[:12]}",
            hint="pass the base model with --model",
        )
    lock = evolve(
        source,
        version=folder.next_version(),
        parent=current.version,
        action="rollback",
        restores=version,
        created=now(),
        author=author,
    )
    if not lock.patch:
        return _add_base(lock, loaded, folder, server)
    patch = read_patch(folder.folder(version) / PATCH)
    with applied(loaded.model, patch) as weights:
        if weights_digest(loaded.model.module) != lock.weights:
            raise EditFailed(
                f"version {version} cannot be restored bit for bit on this device",
                hint="use the device and the software that its facts.lock.json records",
            )
        fill = partial(_write, loaded, patch, weights.originals(), lock.format)
        return _add(lock, fill, folder, server, ([edit_checks(one)[0] for one in patch.info.edits], ()))
