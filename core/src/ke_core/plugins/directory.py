"""Components that are known to exist, installed or not: so that an unknown name gets the pip command for it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from difflib import get_close_matches
from functools import cache
from importlib.resources import files

from attrs import frozen

from ke_core.errors import BadConfig, UnknownComponent


@frozen(kw_only=True)
class Known:
    """A component that some distribution brings."""

    kind: str
    name: str
    distribution: str
    summary: str


def known(kind: str = "") -> tuple[Known, ...]:
    """The directory, or its entries of one kind, as ``directory.json`` lists them."""
    return tuple(entry for entry in _directory() if kind in ("", entry.kind))


def matching(words: Sequence[str], kind: str = "") -> tuple[Known, ...]:
    """Those entries in which every word occurs, in any case: in the kind, the name, the distribution, the summary."""
    return tuple(
        entry
        for entry in known(kind)
        if all(
            word.lower() in f"{entry.kind} {entry.name} {entry.distribution} {entry.summary}".lower() for word in words
        )
    )


def distribution_of(name: str) -> str:
    """Who brings a component; or the distribution of that name, with or without ``ke-plugin-``.

    Raises UnknownComponent for what the directory does not know, BadConfig where several distributions bring it.
    """
    carriers = dict.fromkeys(
        entry.distribution for entry in known() if entry.distribution in (name, f"ke-plugin-{name}")
    )
    carriers = carriers or dict.fromkeys(entry.distribution for entry in known() if entry.name == name)
    if not carriers:
        near = get_close_matches(name, [entry.name for entry in known()], n=1)
        raise UnknownComponent(
            f"no plugin called {name!r} is known",
            hint=f"did you mean {near[0]!r}?"
            if near
            else "ke plugins search lists what is known; pip installs any other",
        )
    if len(carriers) > 1:
        raise BadConfig(f"{name} is brought by several plugins", hint=f"say which: {', '.join(carriers)}")
    return next(iter(carriers))


@cache
def _directory() -> tuple[Known, ...]:
    raw = json.loads(files("ke_core.plugins").joinpath("directory.json").read_text(encoding="utf-8"))
    return tuple(
        Known(kind=kind, name=name, distribution=distribution, summary=summary)
        for kind, entries in raw.items()
        for name, (distribution, summary) in entries.items()
    )
