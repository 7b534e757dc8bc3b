"""The given inputs of edits, checked: ``EditInputs`` as tensors that fit the model."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from attrs import define, field, frozen
from torch import Tensor

from ke_core.plugin import BadConfig, Edit
from ke_weights.covariance import KeyCovariance, require_tokens
from ke_weights.covariance_files import load_npz
from ke_weights.edit_inputs import EditInputs
from ke_weights.modules import ModuleMap
from ke_weights.templates import explicit_templates

SYMMETRIC = 1e-4  # of the largest element: rounding of a float32 sum


@frozen(kw_only=True, eq=False)
class GivenTarget:
    """A target z [d] that was given, so it has no losses."""

    z: Tensor

    def report(self) -> dict[str, Any]:
        """Return JSON values for the record."""
        return {"given": True}


@define(eq=False)
class GivenInputs:
    """Inputs of the edits of one model: covariance and contexts of all edits, targets by the id of their edit."""

    covariance: Mapping[int, Any] = field(factory=dict)
    contexts: tuple[str, ...] | None = None
    targets: dict[str, Tensor] = field(factory=dict)
    _loaded: dict[int, tuple[KeyCovariance, dict[str, Any]]] = field(factory=dict, init=False)

    @classmethod
    def of(cls, inputs: EditInputs) -> GivenInputs:
        """Return the inputs that all edits share. Raises BadConfig for a context without its slot."""
        contexts = None if inputs.contexts is None else explicit_templates(inputs.contexts)
        return cls(dict(inputs.covariance), contexts)

    def set_targets(self, targets: Any, edits: Sequence[Edit]) -> None:
        """Use the columns of ``targets`` [d, N] for ``edits``. None: their targets are optimized. Raises BadConfig."""
        for edit in edits:
            self.targets.pop(edit.id, None)
        if targets is None:
            return
        z = as_tensor(targets, "targets")
        if z.ndim != 2 or z.shape[1] != len(edits):
            raise BadConfig(
                f"inputs.targets has the shape {list(z.shape)}, and there are {len(edits)} edits",
                hint="give [d, N]: one column per edit, also for one edit",
            )
        _require_finite(z, "targets")
        self.targets |= {edit.id: column for edit, column in zip(edits, z.T, strict=True)}

    def targets_of(self, ids: Sequence[str], modules: ModuleMap, layer: int) -> list[GivenTarget]:
        """Return the targets of these edits; none if they are to be optimized. Raises BadConfig for another width."""
        if not all(name in self.targets for name in ids):
            return []
        found = [self.targets[name].to(modules.layers[layer].matrix.device) for name in ids]
        if len(found[0]) != modules.hidden:
            raise BadConfig(
                f"inputs.targets has {len(found[0])} rows, and the hidden size of the model is {modules.hidden}",
                hint="give [d, N]: one column per edit",
            )
        return [GivenTarget(z=z) for z in found]

    def require_layers(self, layers: Sequence[int]) -> None:
        """Raise BadConfig if the covariance of one of ``layers`` is missing."""
        missing = [layer for layer in layers if layer not in self.covariance]
        if missing:
            raise BadConfig(
                f"inputs.covariance has no layer {missing[0]}: the edited layers are {', '.join(map(str, layers))}",
                hint="give the covariance of every edited layer, or edit other layers with the option layers or layer",
            )

    def covariances(self, modules: ModuleMap, layers: Sequence[int]) -> dict[int, KeyCovariance]:
        """Return the covariance of each of ``layers``. Raises BadConfig, BadData, and EditFailed for too few tokens."""
        self.require_layers(layers)
        for layer in layers:
            if layer not in self._loaded:
                self._loaded[layer] = _covariance(layer, self.covariance[layer], modules)
        return {layer: self._loaded[layer][0] for layer in layers}

    def details(self, ids: Sequence[str]) -> dict[str, Any]:
        """Return which inputs of these edits were given, as JSON values for the record."""
        about = {str(layer): about for layer, (_covariance, about) in self._loaded.items()}
        targets = [name for name in ids if name in self.targets]
        found = {"covariance": about, "targets": targets, "contexts": list(self.contexts or ())}
        return {name: value for name, value in found.items() if value}


def _covariance(layer: int, given: Any, modules: ModuleMap) -> tuple[KeyCovariance, dict[str, Any]]:
    """Return C and JSON values for the record: its source, its checksum, and the number of its tokens if known."""
    about: dict[str, Any] = {"source": "array"}
    tokens = 0
    if isinstance(given, str | Path):
        path = Path(given)
        given, tokens = load_npz(path)
        require_tokens(tokens, modules.inner)
        about = {"source": path.name, "tokens": tokens}
    matrix = as_tensor(given, f"covariance of layer {layer}")
    _require_covariance(matrix, layer, modules.inner)
    about["sha256"] = hashlib.sha256(matrix.contiguous().numpy().data).hexdigest()
    return KeyCovariance(matrix, tokens, modules.layers[layer].matrix.device), about


def _require_covariance(matrix: Tensor, layer: int, size: int) -> None:
    if matrix.shape != (size, size):
        raise BadConfig(
            f"the given covariance of layer {layer} has the shape {list(matrix.shape)}, and not [{size}, {size}]",
            hint="give E[k k^T] of the inputs of the last projection of the layer's MLP",
        )
    _require_finite(matrix, f"covariance of layer {layer}")
    if float((matrix - matrix.T).abs().max()) > SYMMETRIC * float(matrix.abs().max()):
        raise BadConfig(
            f"the given covariance of layer {layer} is not symmetric", hint="give E[k k^T], and not its Cholesky factor"
        )


def _require_finite(found: Tensor, what: str) -> None:
    if not bool(found.isfinite().all()):
        raise BadConfig(f"the given {what} contains NaN or infinity", hint="check how it was computed")


def as_tensor(given: Any, what: str) -> Tensor:
    """Return an array or a tensor as a copy in CPU memory, float32 or float64. Raises BadConfig for other values."""
    try:
        found = torch.as_tensor(given).detach().cpu().clone()
    except (TypeError, ValueError, RuntimeError) as error:
        raise BadConfig(f"the given {what} cannot be used: {error}", hint="give an array or a tensor") from error
    return found if found.dtype == torch.float32 else found.double()
