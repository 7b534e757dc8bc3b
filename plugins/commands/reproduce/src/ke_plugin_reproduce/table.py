"""A published table or figure as data: the published numbers and the run of each cell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from attrs import Attribute, field, frozen, validators

from ke_core.plugin import Form, Phase

Printed = float | str | None
"""A number; words instead of a number (``<1``, ``OOM``); None if nothing is printed (points of a figure).

An empty text: the paper does not have this cell, and it is not run.
"""
Source = Literal["scores", "statistics", "audit"]


@frozen(kw_only=True)
class Setup:
    """The options of ``ke eval`` for a cell.

    ``batch`` is for ``partition``, ``edited`` for ``sample``; both are limited to the number of cases. ``dtype``: set
    if a method requires one (QLoRA: ``nf4``); the default is the user's.
    """

    editor: str = ""
    dataset: str = ""
    judge: str = ""
    metrics: tuple[str, ...] = ()
    styles: tuple[str, ...] = ()
    protocol: Literal["partition", "sample"] = "partition"
    batch: int = 1
    edited: int = 1
    eval_limit: int | None = None
    edited_form: Form | None = None
    prompts: str = ""
    dtype: str = ""
    options: Mapping[str, str] = field(factory=dict)
    seed: int = field(default=0, validator=validators.ge(0))


@frozen(kw_only=True)
class Pick:
    """Selects the number of a cell.

    ``source``: ``scores`` (``metric``, ``aspect``, ``style``, ``phase`` and ``tags`` select one), ``statistics`` (a
    count of the dataset) or ``audit`` (a count of its errors); for the last two, ``aspect`` is the name of the count
    (``ke_plugin_reproduce.running``). ``what``: the score, its ``n``, the ``count`` behind a fraction, or the
    ``negative`` of a difference.
    """

    source: Source = "scores"
    metric: str = ""
    aspect: str = ""
    style: str = ""
    phase: Phase = "after"
    tags: Mapping[str, str] = field(factory=dict)
    what: Literal["value", "n", "count", "negative"] = "value"


@frozen(kw_only=True)
class PaperModel:
    """A model of the paper: its ids on the hub, how it was prompted, or why it is no longer available (``gone``).

    ``options``: as in ``Setup``, for runs with this very model, such as the layers to edit.
    """

    ids: tuple[str, ...] = ()
    chat: bool = False
    dtype: str = ""
    gone: str = ""
    options: Mapping[str, str] = field(factory=dict)


@frozen(kw_only=True)
class ColumnLayout:
    """A column. ``set`` and ``pick`` complete those of the table; ``parts``: several numbers in each cell."""

    heading: str
    set: Mapping[str, Any] = field(factory=dict)
    pick: Mapping[str, Any] = field(factory=dict)
    parts: tuple[Mapping[str, Any], ...] = ()
    over: tuple[Mapping[str, Any], ...] = ()
    note: str = ""


@frozen(kw_only=True)
class RowLayout:
    """A row: its labels, the paper's model, and the published numbers.

    ``over``: settings whose runs are averaged. ``picks``: a ``pick`` per column, if row and column together select the
    number. ``unclear``: missing information in the paper, because of which the row cannot be run.
    """

    labels: tuple[str, ...]
    printed: tuple[Any, ...]
    model: str = ""
    set: Mapping[str, Any] = field(factory=dict)
    pick: Mapping[str, Any] = field(factory=dict)
    picks: tuple[Mapping[str, Any], ...] = ()
    over: tuple[Mapping[str, Any], ...] = ()
    note: str = ""
    unclear: str = ""


def _some(_instance: object, attribute: Attribute[Any], value: tuple[Any, ...]) -> None:
    if not value:
        raise ValueError(f"{attribute.name} is empty")


@frozen(kw_only=True)
class Reproduction:
    """One table or figure. ``set`` and ``pick`` apply to all cells; columns override them, and rows override columns.

    ``labels``: the headings of the row labels. ``notes``: differences from the paper in every cell.
    """

    paper: str
    title: str
    labels: tuple[str, ...]
    columns: tuple[ColumnLayout, ...] = field(validator=_some)
    rows: tuple[RowLayout, ...] = field(validator=_some)
    set: Mapping[str, Any] = field(factory=dict)
    pick: Mapping[str, Any] = field(factory=dict)
    models: Mapping[str, PaperModel] = field(factory=dict)
    notes: tuple[str, ...] = ()
