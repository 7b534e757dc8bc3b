"""A published table or figure as data: what its authors printed, and which run gives each cell here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from attrs import Attribute, field, frozen

from ke_core.plugin import Form, Phase

Printed = float | str | None
"""A number; words in its place (``<1``, ``OOM``); None where nothing is printed (a figure's points), and no words
where the table has no cell: that is not run."""
Source = Literal["scores", "statistics", "audit"]


@frozen(kw_only=True)
class Setup:
    """What ``ke eval`` is to run for a cell: its options, by their names there.

    ``batch`` belongs to ``partition``, ``edited`` to ``sample``: both are cut to the number of cases that are taken.
    ``dtype``: of the model, where a method takes no other (QLoRA: ``nf4``); else the user's.
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
    seed: int = 0


@frozen(kw_only=True)
class Pick:
    """Which number of a run is a cell's.

    ``source``: ``scores`` are a metric's, and then ``metric``, ``aspect``, ``style``, ``phase`` and ``tags`` name one;
    ``statistics`` count the dataset itself, ``audit`` what is wrong with it, and ``aspect`` names one of their counts
    (``ke_plugin_reproduce.running``). ``what``: the score; over how many it was taken (``n``); how many of these it
    holds for (``count``, of a share); the score with its sign turned round (``negative``, of a difference).
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
    """A model of the paper: its ids on the hub, how it was asked, or why nobody can ask it any more (``gone``).

    ``options``: as in ``Setup``, where this model answers for itself, such as the layers that were edited in it.
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
    """A row: its labels, the paper's model, and what is printed in each column.

    ``over``: the cell is the mean of one run for each of these settings. ``picks``: a ``pick`` for each column, where
    neither the row nor the column alone says which number it is. ``unclear``: what the paper does not say, so that the
    row cannot be run.
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
    """One table or figure. What ``set`` and ``pick`` say holds for all cells; columns say more, rows the last word.

    ``labels`` are the headings of the row labels. ``notes`` say what differs from the paper in every cell.
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
