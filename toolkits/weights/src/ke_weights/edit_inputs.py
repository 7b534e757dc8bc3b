"""Intermediate results that a researcher gives to ``ke.edit`` instead of having them computed. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from attrs import field, frozen

if TYPE_CHECKING:
    from numpy.typing import ArrayLike
    from torch import Tensor


@frozen(kw_only=True, eq=False)
class EditInputs:
    """Key covariance, targets and left contexts for ``ke.edit(..., inputs=EditInputs(...))``.

    Locate-and-edit methods use them as they are. What is not given is computed as usual. Given values are never cached.

    ``covariance``: C = E[k k^T] of each edited layer, [f, f], or the ``.npz`` file of ROME's or MEMIT's released code
    with its sum and its number of tokens. Other layers are ignored.

    ``targets``: z, [d, N], one column per edit, in the order of the edits. It replaces the output of the last edited
    block (memit, alphaedit, emmet), or of the MLP of the edited block (rome, r-rome), at the subject's last token.

    ``contexts``: left contexts, each ending in ``{}``, as the option ``templates``, but they may contain commas. The
    bare prompt is added.
    """

    covariance: Mapping[int, ArrayLike | Tensor | str | Path] = field(factory=dict)
    targets: ArrayLike | Tensor | None = None
    contexts: Sequence[str] | None = None
