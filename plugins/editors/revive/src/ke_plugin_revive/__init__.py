"""Update wrapper ``revive``: keep updates out of the weight's dominant singular subspace (Zhang et al. 2026)."""

from __future__ import annotations

from attrs import field, frozen, validators

from ke_core.plugin import hookimpl
from ke_weights import UpdateWrapperSpec

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


@hookimpl(optionalhook=True)
def ke_update_wrappers() -> list[UpdateWrapperSpec]:
    """Register ``revive``."""
    return [
        UpdateWrapperSpec(
            name="revive",
            summary="keeps updates out of the weight's dominant singular subspace",
            config=ReviveConfig,
            build="ke_plugin_revive.wrapper:Revive",
            cite=CITE,
        )
    ]
