"""Update wrapper ``key-history``: updates that leave the outputs for the keys of earlier edits unchanged."""

from __future__ import annotations

from typing import Literal

from attrs import frozen, validators

from ke_core.plugin import hookimpl, option
from ke_weights import UpdateWrapperSpec

CITE = (
    "Fang, Jiang, Wang, Ma, Shi, Wang, He, Chua: AlphaEdit: Null-Space Constrained Knowledge Editing for Language "
    "Models. ICLR 2025, https://arxiv.org/abs/2410.02355 (its baseline MEMIT with history)"
)


@frozen(kw_only=True)
class KeyHistoryConfig:
    """Options of the history of keys. ``weight=0`` changes nothing."""

    weight: float = option("weight of the earlier edits relative to the current ones", 1.0, validators.ge(0))
    keys: Literal["edited", "solved"] = option(
        "edited = keys on the model after the batch, as AlphaEdit's code; solved = the keys of the solve, as ENCORE",
        "edited",
    )


@hookimpl(optionalhook=True)
def ke_update_wrappers() -> list[UpdateWrapperSpec]:
    """Register ``key-history``."""
    return [
        UpdateWrapperSpec(
            name="key-history",
            summary="updates that keep the outputs for the keys of earlier edits",
            config=KeyHistoryConfig,
            build="ke_plugin_key_history.wrapper:KeyHistory",
            cite=CITE,
        )
    ]
