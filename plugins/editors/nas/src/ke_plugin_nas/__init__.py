"""Update wrapper ``nas``: scale each target to a typical norm (norm-anchor scaling, Liu et al. 2026)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import field, frozen, validators

from ke_core.plugin import hookimpl
from ke_weights import UpdateWrapperSpec, not_negative

if TYPE_CHECKING:
    from ke_weights.plugin import UpdateWrapper

CITE = "Liu et al.: norm-anchor scaling (NAS). 2026, https://arxiv.org/abs/2602.02543"


@frozen(kw_only=True)
class NasConfig:
    """Options of NAS. ``anchor=0`` changes nothing."""

    anchor: float | None = field(
        default=None,
        validator=not_negative,
        metadata={"help": "A: norm of every target; none = the mean over facts on the original model; 0 = no scaling"},
    )
    facts: str = field(
        default="builtin",
        metadata={
            "help": "edits that the mean is computed over: a file of edits, or builtin (capitals, in the package)",
            "file": True,
            "words": ("builtin",),
        },
    )
    samples: int = field(
        default=100,
        validator=validators.ge(2),
        metadata={"help": "number of edits for the mean; published: 1000 of CounterFact"},
    )
    drop: float = field(
        default=0.05,
        validator=[validators.ge(0), validators.lt(1)],
        metadata={"help": "fraction of the largest norms to leave out of the mean"},
    )
    limit: float = field(
        default=2.0,
        validator=validators.gt(0),
        metadata={"help": "abandon an edit whose norm is above this multiple of A"},
    )


def build(config: NasConfig) -> UpdateWrapper:
    """Return the wrapper; imports torch."""
    from ke_plugin_nas.wrapper import Nas  # noqa: PLC0415  built late

    return Nas(config)


@hookimpl(optionalhook=True)
def ke_update_wrappers() -> list[UpdateWrapperSpec]:
    """Register ``nas``."""
    return [
        UpdateWrapperSpec(
            name="nas",
            summary="scales each target to the typical norm of targets",
            config=NasConfig,
            build=build,
            cite=CITE,
        )
    ]
