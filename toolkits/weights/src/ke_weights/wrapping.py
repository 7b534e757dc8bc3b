"""Apply update wrappers to the edits of a locate-and-edit editor.

One batch of a wrapped editor::

    before(work)                                     for each wrapper: prepare the weights
    in a trial, whose weights are restored at its end:
        targets                                      optimized, then changed by each wrapper
        for each layer: solve, filter, add           filters of wrappers that act inside the loop over layers
    for each layer: filter, add                      filters of wrappers that act after the loop
    after(work) of the editor                        read the keys of its history
    after(work)                                      for each wrapper: update its state, correct the weights

In each line, wrappers are called in the order of the editor's name. A correction of the weights is subtracted before
the next batch is solved, so the editor reads its keys without it.

State lasts as long as the edit that made it: a wrapper keeps it by ``LocateContext`` and enters its removal on
``work.closing``, so it ends with the weights of that edit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Generic, TypeVar
from weakref import WeakKeyDictionary

from attrs import define, evolve, field
from torch import Tensor

from ke_core.plugin import BadConfig, Details, Editor, uninterruptible_context
from ke_plugin_hf.guard import Delta
from ke_weights.edit_targets import EditTargets
from ke_weights.locate import LocateContext, ResolveSettings
from ke_weights.locate_editor import EditInProgress, LocateEditor
from ke_weights.optimize import TargetSettings
from ke_weights.spread import WeightWriter, site_states, summed, write

T = TypeVar("T")


class UpdateWrapper:
    """Changes what a locate-and-edit editor computes. A subclass overrides what its method changes.

    ``inside``: ``filter`` acts in the loop over layers, so that later layers are solved on the filtered weights.
    ``low_rank``: updates stay low-rank.
    """

    inside: bool = True
    low_rank: ClassVar[bool] = True

    @property
    def changes_normal_matrix(self) -> bool:
        """Whether it adds a term to the normal matrix of the solve, with ``ridge`` or ``earlier_keys``."""
        return False

    def before(self, work: EditInProgress) -> None:
        """Prepare the weights for a batch of edits."""

    def target_settings(self, work: EditInProgress, settings: TargetSettings) -> TargetSettings:
        """Return how targets are optimized."""
        return settings

    def targets(self, work: EditInProgress, targets: EditTargets, settings: TargetSettings) -> EditTargets:
        """Return the targets to write, from the optimized ones."""
        return targets

    def ridge(self, work: EditInProgress) -> float:
        """Return the weight of the identity in the normal matrix."""
        return 0.0

    def earlier_keys(self, work: EditInProgress, layer: int) -> Sequence[Tensor]:
        """Return keys [f, M] whose outputs the update should not change: K K^T is added to the normal matrix."""
        return ()

    def filter(self, work: EditInProgress, layer: int, update: Delta) -> Delta:
        """Return the update [d, f] to write, from the solved one. ``work.matrix(layer)`` is the weight before it."""
        return update

    def after(self, work: EditInProgress) -> Details:
        """Update state and weights after a batch. Return details for the record."""
        return {}


@define(eq=False)
class EditState(Generic[T]):
    """Values of the open edits of each model, the newest last."""

    _values: WeakKeyDictionary[LocateContext, list[T]] = field(factory=WeakKeyDictionary, init=False)

    def of(self, work: EditInProgress) -> list[T]:
        """Return the values of the edits that are active."""
        return self._values.setdefault(work.context, [])

    def keep(self, work: EditInProgress, value: T) -> None:
        """Add a value while the current edit is active."""
        work.closing.enter_context(_appended(self.of(work), value))


@uninterruptible_context
def _appended(values: list[T], value: T) -> Iterator[None]:
    values.append(value)
    try:
        yield
    finally:
        values.pop()


@define(eq=False)
class _FilteredWriter:
    """Adds updates to ``weights`` behind the filters that act inside the loop over layers, and keeps their sums."""

    work: EditInProgress
    weights: WeightWriter
    made: dict[int, Delta] = field(factory=dict, init=False)

    def add(self, name: str, delta: Delta) -> None:
        """Filter ``delta`` and add it to the parameter called ``name``."""
        (layer,) = (at for at, one in enumerate(self.work.context.modules.layers) if one.weight_name == name)
        delta = _filtered(self.work, layer, delta, inside=True)
        self.made[layer] = summed(self.made.get(layer), delta)
        self.weights.add(name, delta)

    def relative_norm(self, name: str) -> float | None:
        """Return the relative change of the parameter so far."""
        return self.weights.relative_norm(name)


def _filtered(work: EditInProgress, layer: int, update: Delta, *, inside: bool) -> Delta:
    for wrapper in work.wrappers.values():
        if wrapper.inside == inside:
            update = wrapper.filter(work, layer, update)
    return update


def write_wrapped(editor: LocateEditor, work: EditInProgress) -> Details:
    """Write the edits of ``work`` with its wrappers, and call ``editor.after``.

    Return details, which describe the written weights.
    """
    for wrapper in work.wrappers.values():
        wrapper.before(work)
    with work.session.model.patch() as trial:
        writer = _FilteredWriter(work, trial)
        made = editor.write(evolve(work, weights=writer))
    modules = work.context.modules
    for layer, solved in writer.made.items():
        update = _filtered(work, layer, solved, inside=False)
        for targets, _settings in work.optimized:
            targets.record_filtered(layer, update)
        write(work.weights, modules, layer, update)
    editor.after(work)
    told = {name: wrapper.after(work) for name, wrapper in work.wrappers.items()}  # it may change the weights, too
    names = {layer: modules.layers[layer].weight_name for layer in writer.made}
    norms = {str(layer): work.weights.relative_norm(name) or 0.0 for layer, name in names.items()}
    return {**made, **work.context.details(norms, _report(work)), "wrappers": told}


def _report(work: EditInProgress) -> dict[str, Any]:
    """Return each edit's optimization result and its distance from the target in the written weights."""
    found: dict[str, Any] = {}
    for targets, settings in work.optimized:
        states = site_states(work.context.modules, targets.rows, settings.layer, settings.site)
        found |= targets.report(targets.z.to(states.device) - states)
    return found


def wrapped(editor: Editor, name: str, wrappers: Mapping[str, UpdateWrapper], resolve: ResolveSettings) -> LocateEditor:
    """Return ``editor`` with ``wrappers``. Raises BadConfig if one of them does not fit it."""
    if not isinstance(editor, LocateEditor):
        raise BadConfig(
            f"editor {name} does not support update wrappers",
            hint="use a locate-and-edit editor, such as memit; its class extends ke_weights.plugin.LocateEditor",
        )
    for one, wrapper in wrappers.items():
        if wrapper.changes_normal_matrix and not editor.normal_matrix:
            raise BadConfig(
                f"{one} adds a term to the normal matrix of the solve, and {name} takes none",
                hint=f"use memit+{one}, pmet+{one} or emmet+{one}",
            )
    editor.wrappers, editor.contexts.resolve = wrappers, resolve
    return editor
