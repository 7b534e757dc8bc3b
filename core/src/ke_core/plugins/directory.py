"""Components that are known to exist, installed or not: so that an unknown name gets the pip command for it."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files

from attrs import frozen


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


@cache
def _directory() -> tuple[Known, ...]:
    raw = json.loads(files("ke_core.plugins").joinpath("directory.json").read_text(encoding="utf-8"))
    return tuple(
        Known(kind=kind, name=name, distribution=distribution, summary=summary)
        for kind, entries in raw.items()
        for name, (distribution, summary) in entries.items()
    )
