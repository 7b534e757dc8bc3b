"""Compare a file of facts with a model: which facts it knows already, and which edits are needed.

A version is made from the base with all its edits at once, never on top of the version before it. So a version depends
only on the file and the settings, not on the order in which facts were added.

========= ======================================================================
action    the fact
========= ======================================================================
held      the unedited model answers it, so no edit is needed
unchanged it is in the current version with the same edit
add       it is new
change    it is in the current version with another edit
remove    it is in the current version, and no longer in the file
refuse    the editor cannot make the edit
========= ======================================================================
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from attrs import evolve, field, frozen

from ke_core.app import CallProgress, Catalog, Component, ModelChoice, Options, reject_unused, resolve_component
from ke_core.plugin import BadConfig
from ke_plugin_facts.fact_file import FactFile, ManagedFact, file_digest, require_facts
from ke_plugin_facts.versions import Lock, LockedFact, ManagedFolder
from ke_weights.completions import Completion, PromptWithObjects, complete_prompts
from ke_weights.editing import EditJob, LoadedModel, edit_job, open_model_for_edits
from ke_weights.editor_choice import refuse_unsaveable
from ke_weights.low_rank import refuse_without_adapter
from ke_weights.save_targets import Format

Action = Literal["held", "unchanged", "add", "change", "remove", "refuse"]
CHANGES: tuple[Action, ...] = ("add", "change", "remove")


@frozen(kw_only=True)
class Target:
    """What the facts are edited into, and how. ``least`` and ``most``: bounds, as after ``--min`` and ``--max``."""

    choice: ModelChoice
    editor: str
    options: Options = field(factory=dict)
    seed: int = 0
    format: Format = "merged"
    least: tuple[str, ...] = ()
    most: tuple[str, ...] = ()


@frozen(kw_only=True)
class PlannedFact:
    """One fact and what happens to it. ``answer``: of the unedited model. ``reason``: why it is refused or changed."""

    action: Action
    id: str
    statement: str
    fact: ManagedFact | None = None
    answer: str = ""
    reason: str = ""


@frozen(kw_only=True)
class ModelPlan:
    """What would change. ``job``: the edits of the next version; None if it has none. ``component``: the editor.

    ``rebuild``: why a version is made although no edit changed; empty if there is no reason.
    """

    loaded: LoadedModel
    current: Lock | None
    facts: tuple[PlannedFact, ...]
    job: EditJob | None
    component: Component
    rebuild: str = ""

    def of(self, *actions: Action) -> list[PlannedFact]:
        """Return the facts with one of these actions."""
        return [one for one in self.facts if one.action in actions]

    @property
    def changes(self) -> bool:
        """Whether the model would change."""
        return bool(self.of(*CHANGES) or self.rebuild)

    @property
    def edited(self) -> list[ManagedFact]:
        """The facts of the next version that need an edit."""
        return [one.fact for one in self.of("add", "change", "unchanged") if one.fact is not None]

    @property
    def held(self) -> list[ManagedFact]:
        """The facts that the unedited model answers."""
        return [one.fact for one in self.of("held") if one.fact is not None]


def make_plan(
    file: FactFile, target: Target, folder: ManagedFolder, catalog: Catalog, progress: CallProgress
) -> ModelPlan:
    """Load the model, ask it every fact, and compare it with the current version. Nothing is written or changed.

    Raises KEErrors: a file without facts, unknown names, options that do not exist, a model that ke edited already.
    """
    current = folder.current()
    require_facts(file)
    chosen = resolve_component(catalog, "editor", target.editor, target.options)
    refuse_unsaveable(chosen.spec, catalog)
    if chosen.spec.adaptor:
        raise BadConfig(
            f"editor {target.editor} is an adaptor, and ke apply writes weights",
            hint="use ke edit --out, or a weight editor",
        )
    reject_unused(target.options, [chosen.spec])
    if target.format == "peft":
        refuse_without_adapter(chosen, catalog)
    _ = chosen.built  # raises for wrong options before the model is loaded
    loaded = open_model_for_edits(target.choice, catalog, progress, seed=target.seed)
    if loaded.past is not None:
        raise BadConfig(
            f"{target.choice.reference} contains edits already",
            hint="use the base model; ke apply writes all edits into it",
        )
    answers = complete_prompts(loaded.session, _prompts(file.facts))
    edited = current.edited if current else {}
    planned = [_planned(one, answers[one.id], edited.get(one.id)) for one in file.facts]
    given = [one.fact.given for one in planned if one.fact is not None and one.action != "held"]
    given.sort(key=lambda one: one.edit.id)  # the order in the file has no effect
    job = edit_job(chosen, target.choice, loaded, given, progress)
    refused = chosen.spec.refused(chosen.built, loaded.session, [one.edit for one in job.edits]) if job.edits else {}
    planned = [evolve(one, action="refuse", reason=refused[one.id]) if one.id in refused else one for one in planned]
    planned += [_removed(one) for one in _no_longer(edited, planned)]
    found = ModelPlan(
        loaded=loaded, current=current, facts=tuple(planned), job=job if job.edits else None, component=chosen.component
    )
    lost = current is not None and not folder.has_model(current.version)
    return evolve(
        found,
        rebuild=_rebuild(found, file, target, current)
        or ("the model of the current version is missing" if lost else ""),
    )


def _prompts(facts: Sequence[ManagedFact]) -> list[PromptWithObjects]:
    return [PromptWithObjects(id=one.id, prompt=one.given.prompt, expect=(one.given.target,)) for one in facts]


def _planned(fact: ManagedFact, answer: Completion, before: LockedFact | None) -> PlannedFact:
    action: Action = "add"
    if answer.begins_with([fact.given.target]):
        action = "held"
    elif before is not None:
        action = "unchanged" if before.digest == fact.digest else "change"
    statement = fact.given.edit.statement
    reason = f"was: {before.statement}" if action == "change" and before and before.statement != statement else ""
    return PlannedFact(action=action, id=fact.id, statement=statement, fact=fact, answer=answer.text, reason=reason)


def _no_longer(edited: Mapping[str, LockedFact], planned: Sequence[PlannedFact]) -> list[LockedFact]:
    kept = {one.id for one in planned if one.action != "held"}
    return [one for id_, one in edited.items() if id_ not in kept]


def _removed(one: LockedFact) -> PlannedFact:
    return PlannedFact(action="remove", id=one.id, statement=one.statement)


def _rebuild(plan: ModelPlan, file: FactFile, target: Target, current: Lock | None) -> str:
    """Return why the current version is not what the file and the settings make, or an empty text."""
    if current is None:
        return "there is no version yet"
    component, before = plan.component, {one.id: (one.source, one.date, one.owner) for one in current.facts}
    differ = {
        "the base model": current.base.weights != plan.loaded.base.weights,
        "the sources, dates or owners": any(
            one.id in before and before[one.id] != (one.given.source, one.given.date, one.owner) for one in file.facts
        ),
        # The digest includes what the facts themselves state.
        "the tests or the bounds": not plan.of(*CHANGES)
        and current.file_digest != file_digest(file, (*target.least, *target.most)),
    }
    if current.patch:
        differ |= {
            "the editor": current.editor.name != component.name,
            "the editor's version": (current.editor.version, current.editor.code)
            != (component.version, component.code),
            "the editor's options": current.editor.options != component.options,
            "the seed": current.seed != target.seed,
            "the format": current.format != target.format,
        }
    names = [name for name, differs in differ.items() if differs]
    return f"{', '.join(names)} changed" if names else ""
