"""What a patch file says about itself, and edits with where they come from. Pure values: no torch, no I/O."""

from __future__ import annotations

from typing import Literal

from attrs import field, frozen

from ke_core.app import Component, ModelRef
from ke_core.plugin import Details, SourcedEdit

PATCH_SCHEMA = 1


@frozen(kw_only=True)
class PatchBase:
    """The model that a patch belongs to. ``weights``: the digest of its weights, which decides.

    ``folder``: it was loaded from a folder, so that its id is a name and no reference. ``size``: bytes of its
    weights as loaded.
    """

    model: ModelRef
    weights: str
    size: int
    folder: bool = False

    @property
    def reference(self) -> str:
        """What to write after ``--model``."""
        return self.model.reference


@frozen(kw_only=True)
class WeightChange:
    """What a patch does to one parameter. ``shape`` as a map, [out, in]; ``rank`` for one given by factors.

    ``norm`` is the update's Frobenius norm, ``base_norm`` the weight's. ``sha256``: of each tensor's bytes in the
    file, by the tensor's name.
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
    """Everything about a patch but its numbers. ``edited``: the digest of the weights that base and patch give.

    ``details`` is what the editor put on record (hyperparameters with their reasons, norms, losses).
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
    """A patch in an edited checkpoint: its id, its file beside the originals, the weights it was made for."""

    id: str
    file: str
    base: str
    editor: str
    edits: int


@frozen(kw_only=True)
class History:
    """How an edited checkpoint came about: ``base`` and, in order, the patches added to it.

    ``weights`` is the digest of the checkpoint as it stands.
    """

    schema: int = PATCH_SCHEMA
    base: PatchBase
    weights: str
    patches: tuple[AppliedPatch, ...]
