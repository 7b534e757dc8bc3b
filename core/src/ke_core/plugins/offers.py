"""What a hook returned, looked at before anybody uses it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from attrs import NOTHING, fields

from ke_core.errors import PluginBroken
from ke_core.specs import Spec

S = TypeVar("S", bound=Spec[Any])
SHOWN = 80  # characters of a value that does not belong there


def returned(hook: str, found: Any, expected: type[S]) -> list[S]:
    """What a hook returned, as specs. Raises PluginBroken that says what stands there instead."""
    many = isinstance(found, Iterable) and not isinstance(found, str | bytes | Mapping)
    if not many:
        raise PluginBroken(
            f"{hook} returned {_shown(found)}, not a list of {expected.__name__}",
            hint=f"return a list of {expected.__name__} from {hook}, an empty one for nothing",
        )
    specs = list(found)
    for spec in specs:
        if not isinstance(spec, expected):
            raise PluginBroken(
                f"{hook} returned {_shown(spec)} in its list, not {_a(expected.__name__)}",
                hint=f"every item that {hook} returns is {_a(expected.__name__)} from ke_core.plugin",
            )
        no_mutable_default(spec)
    return specs


def no_mutable_default(spec: Spec[Any]) -> None:
    """Raises PluginBroken for an option whose default every config would share, and any could change."""
    for option in fields(spec.config):
        if option.default is NOTHING:
            continue
        try:
            hash(option.default)  # a factory is made for each config, and has a hash
        except TypeError:
            raise PluginBroken(
                f"option {option.name} of {spec.name} has a mutable default, {_shown(option.default)}",
                hint=f"make the default of {spec.config.__name__}.{option.name} a tuple, text, number or frozen class",
            ) from None


def _shown(value: object) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def _a(name: str) -> str:
    return f"an {name}" if name[0] in "AEIOU" else f"a {name}"
