"""Checks of torch and its devices for ``ke doctor``."""

from __future__ import annotations

from collections.abc import Iterator

from ke_core.plugin import HealthFinding

GIB = 2**30
LITTLE_MEMORY = GIB
"""With less memory, the smallest model and its statistics may not fit."""


def check_devices() -> Iterator[HealthFinding]:
    """Check that torch can be imported and that each device computes correctly."""
    try:
        from ke_plugin_hf.devices import devices, unused_gpu  # noqa: PLC0415  imports torch
    except Exception as error:  # noqa: BLE001  a torch that cannot be imported fails in many ways
        yield HealthFinding(
            area="device",
            what=f"torch cannot be imported: {type(error).__name__}: {' '.join(str(error).split())}",
            state="wrong",
            advice="pip install --force-reinstall torch",
        )
        return
    for device in devices():
        free, total = device.free or 0, device.total or 0
        memory = f", {free / GIB:.1f} of {total / GIB:.1f} GiB free" if total else ""
        if device.wrong:
            yield HealthFinding(
                area="device",
                what=f"{device.name} ({device.kind}) cannot be used: {device.wrong}",
                state="wrong",
                advice="use --device cpu, or install a torch for this device: https://pytorch.org/get-started",
            )
            continue
        little = total > 0 and free < LITTLE_MEMORY
        advice = "close other programs, or use a smaller model or --dtype bfloat16" if little else ""
        what = f"{device.name} ({device.kind}){memory}"
        yield HealthFinding(area="device", what=what, state="note" if little else "ok", advice=advice)
    if why := unused_gpu():
        yield HealthFinding(
            area="device",
            what=f"an NVIDIA driver is installed, but torch finds no GPU: {why}",
            state="note",
            advice="https://pytorch.org/get-started lists the torch version for the driver",
        )
