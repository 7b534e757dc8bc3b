"""The directory of known components and commands (``directory.json``), for the pip command in the error of an unknown
name.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.resources import files

from attrs import frozen

from ke_core.spec.errors import BadConfig, UnknownComponent, did_you_mean
from ke_core.storage.json_reading import loads


@frozen(kw_only=True)
class Known:
    """A component or command, and the distribution that provides it."""

    kind: str
    name: str
    distribution: str
    summary: str


def directory_entries(kind: str = "") -> tuple[Known, ...]:
    """Return the entries of the directory, or those of one kind, in the order of ``directory.json``."""
    return tuple(entry for entry in _directory() if kind in ("", entry.kind))


def matching(words: Sequence[str], kind: str = "") -> tuple[Known, ...]:
    """Return the entries that contain every word (case-insensitive) in kind, name, distribution or summary."""
    return tuple(
        entry
        for entry in directory_entries(kind)
        if all(
            word.lower() in f"{entry.kind} {entry.name} {entry.distribution} {entry.summary}".lower() for word in words
        )
    )


def distribution_of(name: str) -> str:
    """Return the distribution that provides a component, or the distribution of that name.

    The prefix ``ke-plugin-`` is optional. Raises UnknownComponent if it is not listed, BadConfig if several provide it.
    """
    names = (name, f"ke-plugin-{name}")
    carriers = dict.fromkeys(entry.distribution for entry in directory_entries() if entry.distribution in names)
    carriers = carriers or dict.fromkeys(entry.distribution for entry in directory_entries() if entry.name == name)
    if not carriers:
        known = [entry.name for entry in directory_entries()]
        raise UnknownComponent(
            f"no plugin called {name!r} is known",
            hint=did_you_mean(name, known, "ke plugins search lists known plugins; pip installs others"),
        )
    if len(carriers) > 1:
        raise BadConfig(f"{name} is provided by several plugins", hint=f"name one of: {', '.join(carriers)}")
    return next(iter(carriers))


@cache
def _directory() -> tuple[Known, ...]:
    """Read ``directory.json``: by kind and name, the distribution and the summary."""
    raw = loads(files("ke_core.plugins").joinpath("directory.json").read_bytes())
    return tuple(
        Known(kind=kind, name=name, distribution=distribution, summary=summary)
        for kind, named in raw.items()
        for name, (distribution, summary) in named.items()
    )
