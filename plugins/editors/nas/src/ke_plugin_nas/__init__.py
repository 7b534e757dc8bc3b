"""Update wrapper ``nas``: scale each target to a typical norm (norm-anchor scaling, Liu et al. 2026)."""

from __future__ import annotations

from attrs import frozen, validators

from ke_core.plugin import hookimpl, option
from ke_weights import UpdateWrapperSpec, not_negative

CITE = "Liu et al.: norm-anchor scaling (NAS). 2026, https://arxiv.org/abs/2602.02543"


@frozen(kw_only=True)
class NasConfig:
    """Options of NAS. ``anchor=0`` changes nothing."""

    anchor: float | None = option(
        "A: norm of every target; none = the mean over facts on the original model; 0 = no scaling", None, not_negative
    )
    facts: str = option(
        "edits that the mean is computed over: a file of edits, or builtin (capitals, in the package)",
        "builtin",
        file=True,
        words=("builtin",),
    )
    samples: int = option("number of edits for the mean; published: 1000 of CounterFact", 100, validators.ge(2))
    drop: float = option(
        "fraction of the largest norms to leave out of the mean", 0.05, [validators.ge(0), validators.lt(1)]
    )
    limit: float = option("abandon an edit whose norm is above this multiple of A", 2.0, validators.gt(0))


@hookimpl(optionalhook=True)
def ke_update_wrappers() -> list[UpdateWrapperSpec]:
    """Register ``nas``."""
    return [
        UpdateWrapperSpec(
            name="nas",
            summary="scales each target to the typical norm of targets",
            config=NasConfig,
            build="ke_plugin_nas.wrapper:Nas",
            cite=CITE,
        )
    ]
