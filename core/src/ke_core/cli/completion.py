"""Shell completion of values: names of components, models and run folders, and options of components."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from attrs import fields
from click.shell_completion import CompletionItem

from ke_core.cli.app import App

if TYPE_CHECKING:
    from ke_core.plugins.catalog import Catalog

Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def completes(names: Callable[[Catalog, click.Context], Iterator[str]]) -> Complete:
    """Return a ``shell_complete`` callback that offers those of ``names`` that begin with the incomplete word."""

    def complete(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
        app = context.find_object(App)
        found = sorted(set(names(app.catalog, context))) if app else []
        return [CompletionItem(name) for name in found if name.startswith(incomplete)]

    return complete


def component(*kinds: str) -> Complete:
    """Complete the names of installed components of these kinds."""
    return completes(lambda catalog, _context: (name for kind in kinds for name in catalog.names(kind)))


@completes
def model(catalog: Catalog, _context: click.Context) -> Iterator[str]:
    """Complete the models that are known by name."""
    from ke_core.engine.models import known_models  # noqa: PLC0415  imports the data model

    return iter(known_models(catalog))


@completes
def option(catalog: Catalog, context: click.Context) -> Iterator[str]:
    """Complete ``NAME.OPTION=`` for the components on the command line, or for all if there are none."""
    given = {name for value in context.params.values() for name in (value if isinstance(value, tuple) else (value,))}
    specs: list[Any] = [one.spec for found in catalog.registrations.values() for one in found.values()]
    for spec in [spec for spec in specs if spec.name in given] or specs:
        yield from (f"{spec.prefix}.{field.name}=" for field in fields(spec.config))


def run(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the run folders in ``runs``, else any folder."""
    from ke_core.results.folder import RUN  # noqa: PLC0415  imports the data model

    found = sorted(str(path.parent) for path in Path("runs").rglob(RUN))
    return [CompletionItem(path) for path in found if path.startswith(incomplete)] or [
        CompletionItem(incomplete, type="dir")
    ]
