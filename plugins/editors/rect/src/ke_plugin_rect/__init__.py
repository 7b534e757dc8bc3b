"""Update wrapper ``rect``: write only the largest relative changes of an update (RECT, Gu et al. 2024)."""

from __future__ import annotations

from typing import Literal

from attrs import frozen, validators

from ke_core.plugin import hookimpl, option
from ke_weights import UpdateWrapperSpec

CITE = (
    "Gu, Xu, Ma, Lu, Ling, Chang, Peng: Model Editing Harms General Abilities of Large Language Models: Regularization "
    "to the Rescue. EMNLP 2024, https://arxiv.org/abs/2401.04700"
)


@frozen(kw_only=True)
class RectConfig:
    """Options of RECT. ``keep=1`` changes nothing."""

    keep: float = option(
        "fraction of the entries of each update to write, those with the largest relative change",
        0.4,
        [validators.gt(0), validators.le(1)],
    )
    when: Literal["after", "inside"] = option(
        "after = solve all layers with whole updates first, as the published code; inside = filter in the "
        "loop over layers, so that later layers make up for what is dropped",
        "after",
    )


@hookimpl(optionalhook=True)
def ke_update_wrappers() -> list[UpdateWrapperSpec]:
    """Register ``rect``."""
    return [
        UpdateWrapperSpec(
            name="rect",
            summary="writes only the largest relative changes of each update",
            config=RectConfig,
            build="ke_plugin_rect.wrapper:Rect",
            cite=CITE,
        )
    ]
