"""Reproductions included in a plugin: TOML files in its package."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

from attrs import field, frozen, validators

FOLDER = "reproductions"
REPRODUCTION = re.compile(r"[a-z0-9-]+/[a-z0-9-]+\Z")


@frozen(kw_only=True)
class ReproductionSpec:
    """A published table or figure. ``name`` is ``FAMILY/NAME``; ``text`` returns its TOML (docs/reproducing.md)."""

    name: str = field(validator=validators.matches_re(REPRODUCTION))
    text: Callable[[], str]


def reproductions_in(package: str, family: str) -> list[ReproductionSpec]:
    """Return one spec for each file ``reproductions/NAME.toml`` of ``package``, called ``FAMILY/NAME``."""
    from importlib.resources import files  # noqa: PLC0415  one command needs it, and every plugin imports this module

    names = sorted(file.name for file in (files(package) / FOLDER).iterdir() if file.name.endswith(".toml"))
    return [
        ReproductionSpec(name=f"{family}/{name.removesuffix('.toml')}", text=partial(_read, package, name))
        for name in names
    ]


def _read(package: str, name: str) -> str:
    from importlib.resources import files  # noqa: PLC0415  as above

    return (files(package) / FOLDER / name).read_text(encoding="utf-8")
