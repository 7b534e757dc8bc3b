"""What ``ke.edit(..., trace=True)`` records about locate-and-edit methods, as NumPy arrays. Imports no torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from attrs import define, evolve, field, frozen

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from ke_core.app import Table

    Matrix = NDArray[np.float64]


def _size(array: Matrix) -> str:
    return str(list(array.shape))


@frozen(kw_only=True, eq=False)
class LayerTrace:
    """One layer's keys K, residuals R and update, float64. One column of K and R per edit.

    ``keys`` [f, N] are averaged over left contexts (rome, r-rome: the key in the denominator). ``residuals`` [d, N] are
    z - h over the number of layers from this one to the last (rome, r-rome: z minus the current value of the key). The
    update is ``left`` [d, r] times ``right`` [r, f]; ``left`` is the identity if an update wrapper raised its rank. A
    method that writes a layer in several passes has the columns of each pass, one after another.
    """

    keys: Matrix = field(repr=_size)
    residuals: Matrix = field(repr=_size)
    left: Matrix = field(repr=_size)
    right: Matrix = field(repr=_size)

    @property
    def update(self) -> Matrix:
        """What was added to W, [d, f]: the transposed weight in GPT-2."""
        product: Matrix = self.left @ self.right
        return product

    def plus(self, later: LayerTrace) -> LayerTrace:
        """Return this trace with the columns of a later pass."""
        import numpy as np  # noqa: PLC0415  imported late

        return LayerTrace(
            keys=np.hstack([self.keys, later.keys]),
            residuals=np.hstack([self.residuals, later.residuals]),
            left=np.hstack([self.left, later.left]),
            right=np.vstack([self.right, later.right]),
        )


@frozen(kw_only=True, eq=False)
class BatchTrace:
    """One batch of edits, with their ids in order. Methods that make one edit at a time have one batch per edit.

    ``targets`` z [d, N], float64. ``losses`` of each edit, [evaluations, 4], float64, in nats: the weighted terms NLL,
    KL and decay, and their sum. It is empty for given targets. ``layers``: the trace of each edited layer.
    """

    edits: tuple[str, ...]
    targets: Matrix = field(repr=_size)
    losses: Mapping[str, Matrix] = field(repr=False)
    layers: dict[int, LayerTrace] = field(factory=dict)

    def record(self, layer: int, keys: Tensor, residuals: Tensor, *, left: Tensor, right: Tensor) -> None:
        """Record the update of one layer, in addition to those of earlier passes."""
        made = LayerTrace(keys=_array(keys), residuals=_array(residuals), left=_array(left), right=_array(right))
        self.layers[layer] = self.layers[layer].plus(made) if layer in self.layers else made

    def replace_update(self, layer: int, *, left: Tensor, right: Tensor) -> None:
        """Replace the recorded update of one layer."""
        self.layers[layer] = evolve(self.layers[layer], left=_array(left), right=_array(right))


@define(eq=False)
class EditTrace:
    """The active batches of edits, in the order in which they were made: ``edited.trace``."""

    batches: list[BatchTrace] = field(factory=list)

    @property
    def losses(self) -> Table:
        """One row per evaluation of an edit's loss. Its columns are batch, edit, step, nll, kl, decay, total."""
        from ke_core.app import Table  # noqa: PLC0415  imports the runner
        from ke_weights.optimize import LOSSES  # noqa: PLC0415  imports torch

        return Table.of(
            {"batch": number, "edit": edit, "step": step} | dict(zip(LOSSES, values, strict=True))
            for number, batch in enumerate(self.batches)
            for edit, rows in batch.losses.items()
            for step, values in enumerate(rows.tolist())
        )

    def begin(self, edits: Sequence[str], targets: Tensor, losses: Mapping[str, Tensor]) -> BatchTrace:
        """Add a batch and return it. Its layers are recorded later."""
        found = {edit: _array(rows) for edit, rows in losses.items()}
        self.batches.append(BatchTrace(edits=tuple(edits), targets=_array(targets), losses=found))
        return self.batches[-1]

    @contextmanager
    def undone_on_error(self) -> Iterator[None]:
        """Remove the batches that the block added if it raises an exception."""
        count = len(self.batches)
        try:
            yield
        except BaseException:
            del self.batches[count:]
            raise


def _array(tensor: Tensor) -> Matrix:
    array: Any = tensor.detach().cpu().double().numpy()
    found: Matrix = array.copy()
    return found
