"""Resolve the dataset that a subcommand of ``ke datasets`` names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ke_core.app import DATA_DIR, App, ResolvedComponent, reject_unused, resolve_component, split_options, with_flag


def resolve_dataset(app: App, name: str, given: tuple[str, ...], data_dir: Path | None) -> ResolvedComponent[Any]:
    """A dataset by its name, with its options."""
    spec, options = app.catalog.spec("dataset", name), split_options(given)
    reject_unused(options, [spec])
    return resolve_component(app.catalog, "dataset", name, with_flag(spec, options, DATA_DIR, str(data_dir or "")))
