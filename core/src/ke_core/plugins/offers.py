"""What hooks return, looked at before anybody uses it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar, get_type_hints

from attrs import NOTHING, Attribute, fields
from cattrs.errors import StructureHandlerNotFoundError

from ke_core.data.codec import converter
from ke_core.errors import PluginBroken
from ke_core.plugins.manager import Plugins
from ke_core.specs import Spec

S = TypeVar("S")
SHOWN = 80  # characters of a value that does not belong there
READABLE = "text, numbers, bool, Literal, tuples of these, or one of these and None"


def registered_specs(plugins: Plugins, hook: str, expected: type[S]) -> Iterator[tuple[str, list[S]]]:
    """(plugin, its specs) of every plugin with that hook. One that fails or returns a wrong type is marked broken."""
    for impl in plugins.implementations(hook):
        specs: list[S] | None = None
        with plugins.running(impl.plugin_name):
            specs = returned(hook, impl.function(), expected)
        if specs is not None:
            yield impl.plugin_name, specs


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
        if isinstance(spec, Spec):
            _look_at_options(spec)
    return specs


def _look_at_options(spec: Spec[Any]) -> None:
    """Raises PluginBroken for a default that could change, and for a type that no option can have."""
    owner = spec.config.__name__
    try:
        hints = get_type_hints(spec.config)
    except NameError as error:
        raise PluginBroken(
            f"the types of the options of {spec.name} cannot be told: {error}",
            hint=f"import what the annotations of {owner} name, and not under TYPE_CHECKING alone",
        ) from error
    for option in fields(spec.config):
        if option.name not in hints:
            raise PluginBroken(
                f"option {option.name} of {spec.name} has no type",
                hint=f"annotate {owner}.{option.name}: {READABLE}",
            )
        _no_mutable_default(option, spec)
        _readable(option.name, hints[option.name], spec)


def _no_mutable_default(option: Attribute[Any], spec: Spec[Any]) -> None:
    """Every config would share that default, and any could change it."""
    if option.default in (NOTHING, None):
        return
    kind: Any = type(option.default)
    by_identity = kind.__hash__ is object.__hash__  # an object of its own, not a value
    try:
        hash(option.default)  # a factory is made for each config, and has a hash
    except TypeError:
        by_identity = True
    if by_identity:
        raise PluginBroken(
            f"option {option.name} of {spec.name} has a mutable default, {_shown(option.default)}",
            hint=f"make the default of {spec.config.__name__}.{option.name} a tuple, text, number or frozen class",
        )


def _readable(name: str, hint: Any, spec: Spec[Any]) -> None:
    """What stands after ``-o``, and in a run's specification, must become a value of that type."""
    try:
        converter().get_structure_hook(hint)
    except StructureHandlerNotFoundError as error:
        said = getattr(hint, "__name__", str(hint))
        raise PluginBroken(
            f"option {name} of {spec.name} is of type {said}, which no text can be turned into",
            hint=f"change the type of {spec.config.__name__}.{name}: {READABLE}",
        ) from error


def _shown(value: object) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def _a(name: str) -> str:
    return f"an {name}" if name[0] in "AEIOU" else f"a {name}"
