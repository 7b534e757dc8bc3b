"""Plot a trace with matplotlib: heat maps by token role, and curves at the last subject token."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ke_core.plugin import KEError, write_atomic
from ke_weights.report.trace import LABELS, TITLES, suggested_layers
from ke_weights.trace.effects import LAST_SUBJECT, Effects
from ke_weights.tracing import Traced

FORMATS = ("svg", "png")


def plot(traced: Traced) -> list[Path]:
    """Write ``heat-CURVE`` for each curve with several roles, and ``last-subject``, as SVG and PNG.

    The suggested layers are marked: dotted lines in heat maps, shaded bands in the curves.

    Raises KEError if matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415  an extra of ke-core
    except ImportError as error:
        raise KEError("cannot plot: matplotlib is not installed", hint="pip install 'ke-weights[plot]'") from error
    found, marked = traced.effects, suggested_layers(traced)
    figures: dict[str, Any] = {}
    for curve, lines in found.lines.items():
        if len(lines) > 1:
            figures[f"heat-{curve}"] = _heat(Figure(figsize=(9, 3), layout="constrained"), found, curve, marked)
    figures["last-subject"] = _curves(Figure(figsize=(7, 4), layout="constrained"), found, marked)
    written = []
    for name, figure in figures.items():
        figure.suptitle(f"{traced.folder.spec.model.id}, {found.facts} facts", fontsize="medium")
        for ending in FORMATS:
            path = traced.folder.path / f"{name}.{ending}"
            # Without a date, plots of the same trace are identical.
            about = {"Date": None} if ending == "svg" else {}
            write_atomic(path, partial(figure.savefig, format=ending, dpi=150, metadata=about))
            written.append(path)
    return written


def _heat(figure: Any, found: Effects, curve: str, marked: Sequence[int]) -> Any:
    lines = found.lines[curve]
    roles = [role for role in LABELS if role in lines]
    axes = figure.add_subplot()
    image = axes.imshow(
        [[max(value, 0.0) for value in lines[role].effect] for role in roles], aspect="auto", cmap="magma", vmin=0
    )
    axes.set_yticks(range(len(roles)), [LABELS[role] for role in roles])
    for layer in marked:
        axes.axvline(layer, color="white", linestyle=":", linewidth=1)
    axes.set_xlabel(_axis_label(marked))
    axes.set_title(TITLES[curve], fontsize="small")
    figure.colorbar(image, label="average indirect effect")
    return figure


def _curves(figure: Any, found: Effects, marked: Sequence[int]) -> Any:
    axes = figure.add_subplot()
    for curve, lines in found.lines.items():
        line = lines[LAST_SUBJECT]
        layers = range(len(line.effect))
        low, high = zip(*((e - i, e + i) for e, i in zip(line.effect, line.interval, strict=True)), strict=True)
        axes.plot(layers, line.effect, label=curve)
        axes.fill_between(layers, low, high, alpha=0.2)
    for at, layer in enumerate(marked):
        label = "suggested layers" if at == 0 else None
        axes.axvspan(layer - 0.5, layer + 0.5, color="gray", alpha=0.15, linewidth=0, label=label)
    axes.set_xlabel(_axis_label(marked))
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_ylabel("average indirect effect")
    axes.set_title("at the last subject token, with 95% intervals", fontsize="small")
    axes.legend(fontsize="small")
    return figure


def _axis_label(marked: Sequence[int]) -> str:
    return f"layer (suggested: {', '.join(map(str, marked))})" if marked else "layer"
