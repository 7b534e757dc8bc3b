"""The specification of an update wrapper, which ``composing`` combines with an editor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attrs import fields, fields_dict, frozen

from ke_core.plugin import ModelFacts, Setting, Spec


@frozen(kw_only=True)
class UpdateWrapperSpec(Spec[Any]):
    """The specification of an update wrapper. ``build`` returns a ``ke_weights.plugin.UpdateWrapper``.

    ``settings``: the options that depend on the model, with reasons, from the config and the model's facts.
    """

    settings: Callable[[Any, ModelFacts], Mapping[str, Setting]] | None = None

    def config_in(self, composed: object) -> Any:
        """Return the wrapper's own config from the config of a composed editor."""
        return self.config(**{name: getattr(composed, field_name(self, name)) for name in fields_dict(self.config)})

    def resolved(self, composed: object, facts: ModelFacts) -> dict[str, Setting]:
        """Return every option of the wrapper by its full name, with the reason for its value."""
        config = self.config_in(composed)
        found = {one.name: _setting(getattr(config, one.name), one.default) for one in fields(self.config)}
        found |= self.settings(config, facts) if self.settings else {}
        return {f"{self.prefix}.{name}": setting for name, setting in found.items()}


def field_name(wrapper: UpdateWrapperSpec, option: str) -> str:
    """Return the config field of a wrapper's option in a composed editor."""
    return f"{wrapper.prefix.replace('-', '_')}_{option}"


def _setting(value: Any, default: Any) -> Setting:
    return Setting(value, "default" if value == default else "given")
