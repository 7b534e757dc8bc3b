"""Update wrapper ``prune``: bound the singular values of the sum of all updates (PRUNE, Ma et al. 2024)."""

from __future__ import annotations

import math

from attrs import frozen, validators

from ke_core.plugin import hookimpl, option
from ke_weights import UpdateWrapperSpec

CITE = (
    "Ma, Wang, Xu, Ling, Gu: Perturbation-Restrained Sequential Model Editing. ICLR 2025, "
    "https://arxiv.org/abs/2405.16821"
)


@frozen(kw_only=True)
class PruneConfig:
    """Options of PRUNE. A huge ``bound`` changes nothing."""

    base: float = option(
        "base of the logarithm that compresses singular values above the bound; e = natural", math.e, validators.gt(1)
    )
    bound: float | None = option(
        "m: compress singular values above it; none = the largest one of the original weight",
        None,
        validators.optional(validators.gt(0)),
    )


@hookimpl(optionalhook=True)
def ke_update_wrappers() -> list[UpdateWrapperSpec]:
    """Register ``prune``."""
    return [
        UpdateWrapperSpec(
            name="prune",
            summary="bounds the singular values of the sum of all updates",
            config=PruneConfig,
            build="ke_plugin_prune.wrapper:Prune",
            cite=CITE,
        )
    ]
