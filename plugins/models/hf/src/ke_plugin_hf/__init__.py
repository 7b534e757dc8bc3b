"""Model source ``hf``: models that transformers loads into this process. Only ``build`` imports torch."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ke_core.plugin import HealthFinding, LazyCommand, ModelSpec, hookimpl

if TYPE_CHECKING:
    import click


@hookimpl
def ke_models() -> list[ModelSpec]:
    """Register ``hf:ID``."""
    from ke_plugin_hf.spec import hf_spec  # noqa: PLC0415  only a command that needs models reads it

    return [hf_spec]


@hookimpl
def ke_commands(group: click.Group) -> None:
    """Add ``ke models``, imported when it is used."""
    group.add_command(LazyCommand("models", "ke_plugin_hf.cli:command", "List, fetch and describe models.", "Prepare"))


@hookimpl
def ke_doctor() -> Iterable[HealthFinding]:
    """Check torch and the devices it finds, and show the size of the hub's cache."""
    try:
        from ke_plugin_hf.devices import check_devices, check_hub_cache  # noqa: PLC0415  imports torch
    except Exception as error:  # noqa: BLE001  a torch that cannot be imported fails in many ways
        what = f"torch cannot be imported: {type(error).__name__}: {' '.join(str(error).split())}"
        advice = "pip install --force-reinstall torch"
        return [HealthFinding(area="device", what=what, state="wrong", advice=advice)]
    return (*check_devices(), *check_hub_cache())
