"""The base of all specifications: a name, a config class, and what builds the component."""

from __future__ import annotations

import re
from collections.abc import Callable
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from attrs import field, frozen, has, validators

if TYPE_CHECKING:
    from attrs import Attribute

T = TypeVar("T")
NAME = r"[a-z0-9]+(-[a-z0-9]+)*"
NAME_PATTERN = re.compile(rf"{NAME}\Z")


def _is_attrs(_instance: object, _attribute: Attribute[Any], value: Any) -> None:
    if not has(value):
        raise TypeError(f"config must be an attrs class, not {value!r}")


def imported_when_called(build: Callable[[Any], Any] | str) -> Callable[[Any], Any]:
    """Return ``build``, or for a text ``"package.module:Class"`` a function that imports the class and calls it.

    The class is called with the config, or without arguments if that is ``NoOptions``.
    """
    if not isinstance(build, str):
        return build
    return lambda config: resolve_name(build)(*(() if isinstance(config, NoOptions) else (config,)))


@frozen(kw_only=True)
class NoOptions:
    """The config of a component without options."""


@frozen(kw_only=True)
class Spec(Generic[T]):
    """The specification of a component. Without options, it needs no ``config``.

    ``family``: the prefix in ``-o family.option=value``. It is the name unless several components share a config class
    (``mquake`` for ``mquake-cf-3k``). The metadata of a config field holds its ``"help"``. ``"file": True`` marks a
    field that may name a file or folder; a run's specification then contains the digest of its content. ``"words"``
    lists values that are not file names. ``"option"`` is the full name of an option with another prefix (``rect.keep``
    of ``memit+rect``).
    """

    name: str = field(validator=validators.matches_re(rf"{NAME}(\+{NAME})*"))
    summary: str
    config: type = field(default=NoOptions, validator=_is_attrs)
    build: Callable[[Any], T] = field(converter=imported_when_called)
    cite: str = ""
    family: str = ""

    @property
    def prefix(self) -> str:
        """The prefix of this component's options."""
        return self.family or self.name
