"""Update wrapper ``revive``: keep updates out of the weight's dominant singular subspace (Zhang et al. 2026)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import field, frozen, validators

from ke_core.plugin import hookimpl
from ke_weights import UpdateWrapperSpec

if TYPE_CHECKING:
    from ke_weights.plugin import UpdateWrapper

CITE = (
    "Zhang, Zhang, Ye, Cheng, Zhou, Zhou, Ren, Chen: Spectral Characterization and Mitigation of Sequential Knowledge "
    "Editing Collapse. 2026, https://arxiv.org/abs/2601.11042"
)


@frozen(kw_only=True)
class ReviveConfig:
    """Options of REVIVE. ``energy=0`` changes nothing."""

    energy: float = field(
        validator=[validators.ge(0), validators.lt(1)],
        metadata={"help": "tau: protect the leading singular directions that carry this fraction of |W|^2"},
    )


def build(config: ReviveConfig) -> UpdateWrapper:
    """Return the wrapper; imports torch."""
    from ke_plugin_revive.wrapper import Revive  # noqa: PLC0415  built late

    return Revive(config)


@hookimpl(optionalhook=True)
def ke_update_wrappers() -> list[UpdateWrapperSpec]:
    """Register ``revive``."""
    return [
        UpdateWrapperSpec(
            name="revive",
            summary="keeps updates out of the weight's dominant singular subspace",
            config=ReviveConfig,
            build=build,
            cite=CITE,
        )
    ]
