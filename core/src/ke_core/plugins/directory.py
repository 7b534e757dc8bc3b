"""The directory of known components, so that an unknown name gets the pip command that installs it.

The directory comes with ke (``directory.json``); the documentation site publishes it, and a newer one can be read from
there, or from a file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from attrs import frozen

from ke_core.spec.errors import BadConfig, BadData, UnknownComponent
from ke_core.storage.files import read_at_most
from ke_core.storage.json_reading import loads

KINDS = ("editor", "dataset", "metric", "judge", "model")
NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*\Z")  # as in ke_core.spec.specs, which would import the whole data model
LIMIT = 4 << 20  # bytes; limits the memory
SECONDS = 30


@frozen(kw_only=True)
class Known:
    """A component and the distribution that provides it."""

    kind: str
    name: str
    distribution: str
    summary: str


def directory_entries(kind: str = "") -> tuple[Known, ...]:
    """Return the entries of the directory, or those of one kind, in the order of ``directory.json``."""
    return tuple(entry for entry in _directory() if kind in ("", entry.kind))


def elsewhere(where: str) -> tuple[Known, ...]:
    """Read a directory from a file or an ``https`` address. Raises BadData."""
    try:
        text = _behind(where) if "://" in where else Path(where).read_bytes()
        return _entries(loads(text))
    except (OSError, ValueError) as error:
        raise BadData(
            f"{where} is not a directory of plugins: {error}",
            hint='a JSON file such as {"editor": {"mine": ["ke-plugin-mine", "what it does"]}}',
        ) from error


def matching(words: Sequence[str], kind: str = "", among: Sequence[Known] | None = None) -> tuple[Known, ...]:
    """Return the entries that contain every word (case-insensitive) in kind, name, distribution or summary."""
    return tuple(
        entry
        for entry in (directory_entries() if among is None else among)
        if kind in ("", entry.kind)
        and all(
            word.lower() in f"{entry.kind} {entry.name} {entry.distribution} {entry.summary}".lower() for word in words
        )
    )


def distribution_of(name: str) -> str:
    """Return the distribution that provides a component, or the distribution of that name.

    The prefix ``ke-plugin-`` is optional. Raises UnknownComponent if it is not listed, BadConfig if several provide it.
    """
    carriers = dict.fromkeys(
        entry.distribution for entry in directory_entries() if entry.distribution in (name, f"ke-plugin-{name}")
    )
    carriers = carriers or dict.fromkeys(entry.distribution for entry in directory_entries() if entry.name == name)
    if not carriers:
        near = get_close_matches(name, [entry.name for entry in directory_entries()], n=1)
        raise UnknownComponent(
            f"no plugin called {name!r} is known",
            hint=f"did you mean {near[0]!r}?" if near else "ke plugins search lists known plugins; pip installs others",
        )
    if len(carriers) > 1:
        raise BadConfig(f"{name} is provided by several plugins", hint=f"name one of: {', '.join(carriers)}")
    return next(iter(carriers))


@cache
def _directory() -> tuple[Known, ...]:
    return _entries(loads(files("ke_core.plugins").joinpath("directory.json").read_bytes()))


def _entries(raw: Any) -> tuple[Known, ...]:
    """Check the directory: kind to name to distribution and summary. Raises ValueError, since pip installs these
    names.
    """
    found = [(kind, name, entry) for kind, named in _object(raw).items() for name, entry in _object(named).items()]
    for kind, name, entry in found:
        well = isinstance(entry, list) and len(entry) == 2 and all(isinstance(part, str) for part in entry)
        if not (well and kind in KINDS and NAME.match(name) and NAME.match(entry[0])):
            raise ValueError(f"{kind} {name} is {json.dumps(entry)}, not a kind, a name, a distribution and a summary")
    return tuple(Known(kind=kind, name=name, distribution=entry[0], summary=entry[1]) for kind, name, entry in found)


def _object(raw: Any) -> Mapping[str, Any]:
    if not isinstance(raw, dict):
        raise ValueError(f"{json.dumps(raw)[:40]} is not an object")  # noqa: TRY004  of a file's content
    return raw


def _behind(url: str) -> bytes:
    from http.client import HTTPException  # noqa: PLC0415  imported only if it is used
    from urllib.request import urlopen  # noqa: PLC0415  as above

    if not url.startswith("https://"):
        raise ValueError("an address begins with https://")
    try:
        with urlopen(url, timeout=SECONDS) as answer:  # noqa: S310  https only
            return read_at_most(answer, LIMIT)
    except HTTPException as error:
        raise ValueError(f"{type(error).__name__}: {error}") from error
