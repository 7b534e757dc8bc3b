"""The reproductions that a plugin ships: TOML files in its package."""

from __future__ import annotations

from functools import partial

from ke_core.specs import ReproductionSpec

FOLDER = "reproductions"


def reproductions_in(package: str, family: str) -> list[ReproductionSpec]:
    """One spec for each file ``reproductions/NAME.toml`` of ``package``, called ``FAMILY/NAME``."""
    from importlib.resources import files  # noqa: PLC0415  one command needs it, and every plugin imports this module

    names = sorted(file.name for file in (files(package) / FOLDER).iterdir() if file.name.endswith(".toml"))
    return [
        ReproductionSpec(name=f"{family}/{name.removesuffix('.toml')}", text=partial(_read, package, name))
        for name in names
    ]


def _read(package: str, name: str) -> str:
    from importlib.resources import files  # noqa: PLC0415  as above

    return (files(package) / FOLDER / name).read_text(encoding="utf-8")
