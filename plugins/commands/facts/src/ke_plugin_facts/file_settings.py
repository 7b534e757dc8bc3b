"""The settings of a file of facts, next to its facts: model, editor, options and bounds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ke_core.plugin import BadData
from ke_weights.suites import METRICS

SETTINGS: Mapping[str, type | tuple[type, ...]] = {
    "model": str, "dtype": str, "editor": str, "seed": int, "out": str, "format": str, "options": dict, "bounds": dict,
    "max-rise": (int, float),
}  # fmt: skip
SIDES = ("min", "max")


def check_settings(raw: Mapping[str, Any], path: Path) -> None:
    """Raise BadData for a setting of a wrong type."""
    for key, wanted in SETTINGS.items():
        if key in raw and (not isinstance(raw[key], wanted) or (key == "max-rise" and not 0 <= raw[key] < math.inf)):
            raise BadData(f"{key} cannot be {raw[key]!r} ({path})", hint="docs/facts-as-code.md shows the file")
    if raw.get("format", "merged") not in ("merged", "peft"):
        raise BadData(f"format cannot be {raw['format']!r} ({path})", hint="use merged or peft")
    for name, table in raw.get("options", {}).items():
        if not isinstance(table, dict):
            raise BadData(f"options.{name} is not a table ({path})", hint=f"write [options.{name}] and its keys below")
    _check_bounds(raw.get("bounds", {}), path)


def _check_bounds(raw: Mapping[str, Any], path: Path) -> None:
    """Raise BadData for an unknown number and for a bound that is no fraction."""
    for side, table in raw.items():
        if side not in SIDES or not isinstance(table, dict):
            raise BadData(f"bounds.{side} is not known ({path})", hint="write [bounds.min] or [bounds.max]")
        for name, rate in table.items():
            if name not in METRICS:
                raise BadData(f"bounds.{side}.{name} is not known ({path})", hint=f"use one of {', '.join(METRICS)}")
            if not isinstance(rate, (int, float)) or not 0 <= rate <= 1:
                raise BadData(f"bounds.{side}.{name} cannot be {rate!r} ({path})", hint="use a number from 0 to 1")
