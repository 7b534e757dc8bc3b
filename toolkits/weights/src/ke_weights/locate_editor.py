"""Base class of locate-and-edit methods: a subclass holds only its algorithm."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, ClassVar

from attrs import evolve, field, frozen
from torch import Tensor

from ke_core.plugin import BadConfig, Details, Edit, Edited, PassthroughModel, Session, UnsupportedEdit
from ke_plugin_hf.decoding.float64 import double
from ke_plugin_hf.guard import LowRank
from ke_weights.covariance import KeyCovariance
from ke_weights.edit_inputs import EditInputs
from ke_weights.edit_targets import EditTargets
from ke_weights.edit_trace import EditTrace
from ke_weights.given_inputs import GivenInputs
from ke_weights.hyperparameters import RankOneConfig, single_layer_settings
from ke_weights.keys import average_keys, bare_values
from ke_weights.locate import LocateContext, LocateContextCache
from ke_weights.offset_rows import Site
from ke_weights.optimize import TargetSettings
from ke_weights.spread import WeightWriter, write

if TYPE_CHECKING:
    from ke_weights.wrapping import UpdateWrapper


@frozen(kw_only=True, eq=False)
class EditInProgress:
    """Everything that ``LocateEditor.write`` needs. Contexts entered on ``closing`` are left when the edit ends."""

    session: Session[Any]
    context: LocateContext
    edits: Sequence[Edit]
    weights: WeightWriter
    closing: ExitStack
    wrappers: Mapping[str, UpdateWrapper] = field(factory=dict)
    optimized: list[tuple[EditTargets, TargetSettings]] = field(factory=list)
    upcoming: Callable[[], Sequence[Edit]] = tuple

    def edit_targets(self, layer: int, site: Site, *, kl_stop: float | None = None) -> EditTargets:
        """Return the targets of the edits at ``layer``, given or optimized on the current model. Raises EditFailed."""
        settings = evolve(self.context.target_settings(layer, site), kl_stop=kl_stop)
        for wrapper in self.wrappers.values():
            settings = wrapper.target_settings(self, settings)
        targets = self.context.edit_targets(self.session, self.edits, settings, self.upcoming)
        for wrapper in self.wrappers.values():
            targets = wrapper.targets(self, targets, settings)
        targets = targets.traced(self.context.trace)
        self.optimized.append((targets, settings))
        return targets

    def edit_keys(self, layer: int) -> Tensor:
        """Return the keys of the edits on the current model, averaged over left contexts, [f, N]."""
        (targets, _settings), *_more = self.optimized
        return average_keys(self.context.modules, targets.rows, layer)

    def covariance(self, layer: int, weight: float) -> KeyCovariance:
        """Return C of ``layer`` plus the ridges of the wrappers; ``weight`` is that of C in the normal matrix."""
        ridge = sum(wrapper.ridge(self) for wrapper in self.wrappers.values())
        return self.context.covariances[layer].plus_ridge(ridge / weight)

    def earlier_keys(self, layer: int) -> list[Tensor]:
        """Return the keys [f, M] that the wrappers preserve, in parts."""
        return [keys for wrapper in self.wrappers.values() for keys in wrapper.earlier_keys(self, layer)]

    def matrix(self, layer: int) -> Tensor:
        """Return the current weight of ``layer`` as float64 [d, f]."""
        return double(self.context.modules.layers[layer].matrix)


class LocateEditor(ABC):
    """An editor defined by its ``write`` method.

    Set ``name`` if the method makes one edit at a time: the error message for a larger batch uses it. Set
    ``normal_matrix`` if it solves with ``work.covariance`` and ``work.earlier_keys``, which update wrappers extend.
    """

    name: ClassVar[str] = ""
    normal_matrix: ClassVar[bool] = False

    def __init__(self, contexts: LocateContextCache) -> None:
        self.contexts = contexts
        self.wrappers: Mapping[str, UpdateWrapper] = {}

    @abstractmethod
    def write(self, work: EditInProgress) -> Details:
        """Write the edits into ``work.weights``. Return details for the record. Raises EditFailed."""

    def after(self, work: EditInProgress) -> None:  # noqa: B027  optional
        """Read what later edits need from the edited model.

        Update wrappers have filtered the updates, and have not corrected the weights: later edits are solved without
        a correction.
        """

    def check(self, session: Session[Any], edits: Sequence[Edit]) -> Mapping[str, str]:
        """Return the edits that cannot be made, by id, with the reason.

        Without edits: raise a KEError if the model cannot be edited with these options.
        """
        if not edits:
            self.contexts.check_model(session)
        return self.contexts.unsupported_edits(session, edits)

    def use(self, inputs: object, edits: Sequence[Edit]) -> None:
        """Use ``inputs``, an ``EditInputs`` or None, for ``edits``. Raises BadConfig."""
        given = EditInputs() if inputs is None else inputs
        if not isinstance(given, EditInputs):
            raise BadConfig(f"inputs is a {type(given).__name__}", hint="use ke_weights.EditInputs(...)")
        if given.covariance and not self.contexts.needs_covariance:
            raise BadConfig(
                "inputs.covariance would not be used: mom2_adjustment is false", hint="remove one of the two"
            )
        if given.contexts is not None and self.contexts.config.templates is not None:
            raise BadConfig("left contexts are given twice", hint="remove the option templates, or inputs.contexts")
        if given.covariance or given.contexts is not None:
            if self.contexts.is_open:
                raise BadConfig(
                    "the covariance and the contexts of the active edits cannot be changed",
                    hint="give them to ke.edit; edited.add uses them too",
                )
            self.contexts.inputs = GivenInputs.of(given)
        self.contexts.inputs.set_targets(given.targets, edits)

    def traced(self) -> EditTrace:
        """Record later edits, and return the record."""
        self.contexts.trace = EditTrace()
        return self.contexts.trace

    @contextmanager
    def edit(self, session: Session[Any], edits: Sequence[Edit]) -> Iterator[Edited]:
        """Make ``edits`` in addition to those that are active. Raises UnsupportedEdit and EditFailed."""
        if not edits:
            yield PassthroughModel(session)
            return
        if self.name and len(edits) > 1:
            raise UnsupportedEdit(
                f"{self.name} makes one edit at a time, not {len(edits)}", hint="make one after another"
            )
        trace = nullcontext() if self.contexts.trace is None else self.contexts.trace.undone_on_error()
        upcoming = tuple if self.contexts.is_open else session.upcoming  # those are edits of the unedited model
        opened = self.contexts.open(session, edits)
        with opened as context, trace, session.model.patch() as weights, ExitStack() as closing:
            # EditInProgress has no name here, so it is freed while this and later edits are active.
            made = self._write(
                EditInProgress(
                    session=session,
                    context=context,
                    edits=edits,
                    weights=weights,
                    closing=closing,
                    wrappers=self.wrappers,
                    upcoming=upcoming,
                )
            )
            del context  # freed inside its context, because Python ignores interrupts while weak references end
            yield PassthroughModel(session, made)

    def _write(self, work: EditInProgress) -> Details:
        from ke_weights.wrapping import write_wrapped  # noqa: PLC0415  it imports this module

        if work.wrappers:
            return with_size_warning(write_wrapped(self, work))  # it calls after, before the wrappers' own
        made = self.write(work)
        self.after(work)
        return with_size_warning(made)


def with_size_warning(details: Details) -> Details:
    """Return ``details`` with a warning if an update is larger than its weight, before the editor's own warning."""
    large = [layer for layer, norm in details.get("relative_update_norms", {}).items() if norm > 1]
    if not large:
        return details
    size = f"the update of layer {', '.join(large)} exceeds the weight: expect damage to the rest of the model"
    return {**details, "warning": f"{size}; {details['warning']}" if "warning" in details else size}


class RankOneEditor(LocateEditor):
    """Base class of ROME (Meng et al. 2022, section 3.1) and methods that differ from it in their keys."""

    def __init__(self, config: RankOneConfig) -> None:
        super().__init__(
            LocateContextCache.single_layer(config, single_layer_settings, needs_covariance=config.mom2_adjustment)
        )

    def write_rank_one(
        self, work: EditInProgress, targets: EditTargets, *, key: Tensor, value: Tensor, along: Tensor
    ) -> Details:
        """Make ``key`` [f] map to the target instead of ``value`` [d], by W += (z - value) u^T / (key . u).

        u is ``along`` [f], normalized. Every q with u . q = 0 keeps its value. Return details for the record.
        """
        context = work.context
        layer = context["layer"]
        direction = along / along.norm()
        change = (targets.z[:, 0] - value) / (key @ direction)
        update = LowRank(left=change[:, None], right=direction[None])
        targets.record(layer, key[:, None], targets.z - value[:, None], update)
        relative = write(work.weights, context.modules, layer, update)
        left = targets.z - double(bare_values(context.modules, targets.rows, layer))
        return context.details({str(layer): relative}, targets.report(left))
