"""Parse options of components, such as ``-o memit.layers=4,5,6``, by the types of the config's fields."""

from __future__ import annotations

import math
import re
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from attrs import NOTHING, fields, fields_dict, frozen
from cattrs import BaseValidationError

from ke_core.spec.codec import from_json
from ke_core.spec.component import Spec
from ke_core.spec.errors import BadConfig

VALUE = re.compile(r": [^:]*$| \(got .*", re.DOTALL)
"""The end of a message of attrs' validators: the value."""
TRUE, FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


@frozen(kw_only=True)
class Option:
    """One option of a component, for ``ke show``."""

    name: str
    type: str
    default: str
    help: str


def split_options(given: Iterable[str]) -> dict[str, dict[str, str]]:
    """Parse ``prefix.field=value`` texts to ``{prefix: {field: value}}``. The same option twice is an error."""
    found: dict[str, dict[str, str]] = {}
    for text in given:
        path, equals, value = text.partition("=")
        prefix, dot, name = path.strip().partition(".")
        if not (equals and dot and prefix and name):
            raise BadConfig(f"bad option {text!r}", hint="write it as -o component.option=value")
        if name in found.setdefault(prefix, {}):
            raise BadConfig(f"option {prefix}.{name} is given twice", hint="give it once")
        found[prefix][name] = value.strip()
    return found


def option_text(value: Any, at: str) -> str:
    """Return a value of Python or TOML in the form that ``-o`` accepts. Raises BadConfig that names ``at``."""
    if isinstance(value, list | tuple):
        return ",".join(option_text(part, at) for part in value)
    if not isinstance(value, str | int | float | None):
        raise BadConfig(f"{at} cannot be {value!r}", hint="a text, a number, true, false, or a list of these")
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


def check_mapping(options: Mapping[str, Any], hint: str) -> Mapping[str, Any]:
    """Return ``options``. Raises BadConfig for another type."""
    if not isinstance(options, Mapping):
        raise BadConfig(f"options is {options!r}, not a mapping", hint=hint)
    return options


def option_texts(options: Mapping[str, Any]) -> dict[str, str]:
    """Return option values as the command line has them."""
    return {name: option_text(value, name) for name, value in options.items()}


def configure(spec: Spec[Any], given: Mapping[str, str] | None = None) -> Any:
    """Return the config of a component: its defaults and the given options."""
    hints, named = get_type_hints(spec.config), option_fields(spec)
    raw: dict[str, Any] = {}
    for name, text in (given or {}).items():
        if name not in named:
            raise BadConfig(f"{spec.name} has no option {name!r}", hint=_hint(spec, name, list(named)))
        path, hint = option_path(spec, name), hints[named[name]]
        try:
            raw[named[name]] = _convert(text, hint)
        except ValueError as error:
            raise BadConfig(f"{path} cannot be {text!r}", hint=type_name(hint)) from error
    try:
        return from_json(raw, spec.config, of=f"options of {spec.name}", hint=f"ke show {spec.name}")
    except BadConfig as error:
        raise refused(error, spec, given or {}) from error


def option_fields(spec: Spec[Any]) -> dict[str, str]:
    """Return the names of a component's options (with the prefix if it is another one) and of their config fields."""
    return {each.metadata.get("option", each.name): each.name for each in fields(spec.config)}


def prefixes(spec: Spec[Any]) -> list[str]:
    """Return the prefix of a component, and the other prefixes of its options."""
    return list(dict.fromkeys([spec.prefix, *(name.partition(".")[0] for name in option_fields(spec) if "." in name)]))


def own_options(spec: Spec[Any], given: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Return the given options of a component by name, with the prefix if it is another one."""
    paths = {f"{prefix}.{name}": text for prefix in prefixes(spec) for name, text in given.get(prefix, {}).items()}
    return {path.removeprefix(f"{spec.prefix}."): text for path, text in paths.items()}


def option_path(spec: Spec[Any], name: str) -> str:
    """Return the full name of an option, for ``-o``."""
    return name if "." in name else f"{spec.prefix}.{name}"


def reject_unused(given: Mapping[str, Mapping[str, str]], specs: Sequence[Spec[Any]]) -> None:
    """Raise BadConfig for an option of a component that is not in use. The hint names an option that exists."""
    known = list(dict.fromkeys(prefix for spec in specs for prefix in prefixes(spec)))
    for prefix, options in given.items():
        if options and prefix not in known:
            name = next(iter(options))
            near = get_close_matches(prefix, [spec.prefix for spec in specs if name in fields_dict(spec.config)], n=1)
            raise BadConfig(
                f"option {prefix}.{name} is for {prefix!r}, which this run does not use",
                hint=f"did you mean {near[0]}.{name}?" if near else f"in use: {', '.join(known)}",
            )


def describe(spec: Spec[Any]) -> list[Option]:
    """Return every option with its type, default and help."""
    hints = get_type_hints(spec.config)
    return [
        Option(name=name, type=type_name(hints[f.name]), default=_default(f), help=f.metadata.get("help", ""))
        for name, f in zip(option_fields(spec), fields(spec.config), strict=True)
    ]


def kind_of(spec: Spec[Any]) -> str:
    """Return the kind of a spec: ``editor`` for an EditorSpec, and so on."""
    return type(spec).__name__.removesuffix("Spec").lower()


def type_name(hint: Any) -> str:
    """Return a type in words."""
    if hint in (str, int, float, bool):
        return {str: "text", int: "whole number", float: "number", bool: "true or false"}[hint]
    arguments = get_args(hint)
    if get_origin(hint) is Literal:
        return " | ".join(str(choice) for choice in arguments)
    if get_origin(hint) is tuple:
        return f"{type_name(arguments[0])}s, separated by commas"
    if _is_union(hint):
        return " or ".join(type_name(part) for part in arguments if part is not types.NoneType) + ", or none"
    return getattr(hint, "__name__", str(hint))


def _convert(text: str, hint: Any) -> Any:
    """Return the value of a text. Raises ValueError."""
    arguments = get_args(hint)
    if _is_union(hint):
        if text.lower() == "none" and types.NoneType in arguments:
            return None
        parts = [part for part in arguments if part is not types.NoneType]
        named = [part for part in parts if get_origin(part) is Literal and text in map(str, get_args(part))]
        return _convert(text, (named or parts)[0])
    if get_origin(hint) is tuple:
        return [_convert(part.strip(), arguments[0]) for part in text.split(",") if part.strip()]
    if get_origin(hint) is Literal:
        return arguments[[str(choice) for choice in arguments].index(text)]
    if hint is bool:
        return (TRUE + FALSE).index(text.lower()) < len(TRUE)
    number = hint(text)
    if hint is float and not math.isfinite(number):  # JSON has no such numbers
        raise ValueError(text)
    return number


def _is_union(hint: Any) -> bool:
    return get_origin(hint) in (Union, types.UnionType)


def _default(attribute: Any) -> str:
    value = attribute.default
    if value is NOTHING:
        return "required"
    if getattr(value, "factory", None) is not None:
        value = value.factory()
    return "derived" if value is None and attribute.metadata.get("derived") else option_text(value, attribute.name)


def _hint(spec: Spec[Any], name: str, names: list[str]) -> str:
    near = get_close_matches(name, names, n=1)
    return f"did you mean {option_path(spec, near[0])}?" if near else f"its options: {', '.join(names) or 'none'}"


def refused(error: BadConfig, spec: Spec[Any], given: Mapping[str, str]) -> BadConfig:
    """Return ``error`` with the name of the option on the command line, if it concerns one of ``given``."""
    found = [*_leaves(error.__cause__)] if error.__cause__ else []
    if len(found) != 1 or type(found[0]) is not ValueError:
        return error
    words = str(found[0].args[0]) if found[0].args else ""
    known = option_fields(spec)
    named = [name for name in given if re.search(rf"\b{re.escape(known[name])}\b", words)]
    if len(named) != 1:
        return BadConfig(f"options of {spec.name} do not fit: {words}", hint=error.hint)
    hint = VALUE.sub("", words).removeprefix(f"'{known[named[0]]}' ")
    return BadConfig(f"{option_path(spec, named[0])} cannot be {_shown(given[named[0]])}", hint=hint)


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseValidationError):
        for one in error.exceptions:
            yield from _leaves(one)
    else:
        yield error


def _shown(text: str) -> str:
    """Return a number unchanged, and other text in quotes."""
    try:
        float(text)
    except ValueError:
        return repr(text)
    return text
