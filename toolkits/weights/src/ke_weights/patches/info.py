"""The metadata of a patch file, and edits with their sources. Pure values: no torch, no I/O."""

from __future__ import annotations

from typing import Literal

from attrs import field, frozen

from ke_core.app import Component, ModelRef
from ke_core.plugin import Details, SourcedEdit

PATCH_SCHEMA = 1


@frozen(kw_only=True)
class PatchBase:
    """The model that a patch belongs to. ``weights``: the digest of its weights, which identifies it.

    ``folder``: it was loaded from a folder, so its id is only a name. ``size``: bytes of its weights as loaded.
    """

    model: ModelRef
    weights: str
    size: int
    folder: bool = False

    @property
    def reference(self) -> str:
        """The argument of ``--model``."""
        return self.model.reference


@frozen(kw_only=True)
class WeightChange:
    """A patch's change of one parameter. ``shape``: [out, in]; ``rank``: of a low-rank update.

    ``norm`` is the update's Frobenius norm, ``base_norm`` the weight's. ``sha256``: of each tensor's bytes in the file,
    by the tensor's name.
    """

    name: str
    kind: Literal["low-rank", "dense"]
    shape: tuple[int, ...]
    norm: float
    base_norm: float
    sha256: dict[str, str]
    rank: int | None = None


@frozen(kw_only=True)
class PatchInfo:
    """Everything about a patch except its numbers. ``edited``: the digest of the base's weights with the patch.

    ``details``: what the editor recorded (hyperparameters with their reasons, norms, losses).
    """

    schema: int = PATCH_SCHEMA
    ke: str
    base: PatchBase
    editor: Component
    edits: tuple[SourcedEdit, ...]
    weights: tuple[WeightChange, ...]
    edited: str = ""
    details: Details = field(factory=dict)


@frozen(kw_only=True)
class AppliedPatch:
    """A patch in an edited checkpoint: its id, its file, and the weights that it was made for."""

    id: str
    file: str
    base: str
    editor: str
    edits: int


@frozen(kw_only=True)
class History:
    """History of an edited checkpoint: ``base``, and the patches applied to it, in order.

    ``weights`` is the digest of the checkpoint.
    """

    schema: int = PATCH_SCHEMA
    base: PatchBase
    weights: str
    patches: tuple[AppliedPatch, ...]
