"""Every hook there is. A hook returns values: call it, look at what it returns.

Each is called once, at start-up: return specs, import nothing heavy, print nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import pluggy

if TYPE_CHECKING:
    import click

    from ke_core.specs import DatasetSpec, EditorSpec, JudgeSpec, MetricSpec, ModelSpec, ReproductionSpec

hookspec = pluggy.HookspecMarker("ke")


@hookspec
def ke_editors() -> Iterable[EditorSpec]:
    """Offer editing methods, chosen with ``--editor NAME``.

    :return: one spec per method; an empty list is fine.
    """
    return ()


@hookspec
def ke_datasets() -> Iterable[DatasetSpec]:
    """Offer benchmarks, chosen with ``--dataset NAME``.

    :return: one spec per dataset; variants of one family share a config class and a ``family``.
    """
    return ()


@hookspec
def ke_metrics() -> Iterable[MetricSpec]:
    """Offer metrics, chosen with ``--metric NAME`` or named by a dataset.

    :return: one spec per metric.
    """
    return ()


@hookspec
def ke_judges() -> Iterable[JudgeSpec]:
    """Offer judges, chosen with ``--judge NAME`` or named by a dataset.

    :return: one spec per judge.
    """
    return ()


@hookspec
def ke_models() -> Iterable[ModelSpec]:
    """Offer model sources: what stands before the colon in ``--model source:id``.

    :return: one spec per source. The core's own ``hf`` comes through this hook too.
    """
    return ()


@hookspec
def ke_reproductions() -> Iterable[ReproductionSpec]:
    """Offer published tables and figures that ``ke reproduce FAMILY/NAME`` runs again.

    Called by that command and by ``ke plugins`` alone.

    :return: one spec per table; ``ke_core.plugin.reproductions_in`` makes them from the TOML files of a package.
    """
    return ()


@hookspec
def ke_commands(group: click.Group) -> None:
    """Add commands to ``ke``.

    :param group: the root command; add to it with ``group.add_command``. The core's own commands come
        through this hook too.
    """
