"""The settings of a training, as JSON values that identify it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ke_core.plugin import Setting


def with_given(config: object, profile: Mapping[str, Setting]) -> dict[str, Setting]:
    """Return the settings of ``profile``, replaced by the options of ``config`` that have a value."""
    found = dict(profile)
    for name, setting in profile.items():
        given = getattr(config, name, None)
        if given is not None:
            found[name] = Setting(given, "given" if given != setting.value else setting.reason)
    return found


def setting_values(settings: Mapping[str, Setting]) -> dict[str, Any]:
    """Return the values only, as JSON."""
    every = {name: setting.value for name, setting in settings.items()}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in every.items()}
