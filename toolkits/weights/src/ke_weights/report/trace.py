"""Print a trace in the terminal: heat maps, the strongest layers, and the suggested layers."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from statistics import fmean

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ke_core.app import count_noun, literal, plain_table, titled
from ke_weights.trace.effects import LAST, LAST_SUBJECT, EffectCurve, Effects, Role
from ke_weights.tracing import Traced

TITLES: Mapping[str, str] = {
    "states": "states of single layers restored",
    "mlp": "MLP outputs restored, in windows of layers",
    "attention": "attention outputs restored, in windows of layers",
    "severed-mlp": "states restored, with the subject's MLPs above held as corrupted",
    "severed-attention": "states restored, with the subject's attention above held as corrupted",
}
LABELS: Mapping[Role, str] = {
    "first subject": "first subject token",
    "middle subject": "middle subject",
    LAST_SUBJECT: "last subject token",
    "next": "next token",
    "further": "further tokens",
    LAST: "last token",
}
MARKS = " .:-=+*#%@"  # least to most effect; plain characters, readable without color
COLORS = (
    "gray35",
    "purple4",
    "purple3",
    "magenta3",
    "deep_pink3",
    "indian_red",
    "orange3",
    "orange1",
    "gold1",
    "yellow1",
)
CELLS = 72  # characters of a row at most
LABEL = 20  # characters before a row
SUGGESTED = "^"


def trace_page(traced: Traced) -> Group:
    """Return all results of a trace."""
    found = traced.effects
    marked = suggested_layers(traced)
    shown: list[RenderableType] = [literal(_head(traced), "bold"), literal(_noise(traced)), ""]
    for curve, lines in found.lines.items():
        shown += [heat_map(TITLES[curve], lines, marked), ""]
    return Group(
        *shown, titled("Where the effect is largest", _peaks(found)), *(literal(line) for line in _suggestion(traced))
    )


def suggested_layers(traced: Traced) -> tuple[int, ...]:
    """Return the layers that the trace suggests for editing; empty without a suggestion."""
    found = traced.suggestion
    return tuple(sorted({found.rome_layer, *found.memit_layers})) if found is not None else ()


def heat_map(title: str, lines: Mapping[Role, EffectCurve], marked: Collection[int] = ()) -> Group:
    """Draw a row for each token role and a mark for each layer, or for several if there are many.

    Negative effects are blank. The last row points at the layers in ``marked``, which are suggested for editing.
    """
    blocks = len(next(iter(lines.values())).effect)
    step = -(-blocks // CELLS)
    wide = 2 if blocks * 2 <= CELLS else 1
    most = max(max(line.effect) for line in lines.values())
    each = "" if step == 1 else f", {step} layers per mark"
    rows: list[Text] = [literal(f"{title} (blank: 0, {MARKS[-1]}: {max(most, 0):.3g}{each})", "bold")]
    for role, label in LABELS.items():
        if role in lines:
            row = Text(label.ljust(LABEL))
            effect = lines[role].effect
            for start in range(0, blocks, step):
                level = _level(fmean(effect[start : start + step]), most)
                row.append(MARKS[level] * wide, style=COLORS[level])
            rows.append(row)
    rows.append(Text(" " * LABEL + _ruler(blocks, step, wide), style="dim"))
    if marked:
        groups = {layer // step for layer in marked}
        pointers = "".join((SUGGESTED if at in groups else " ") * wide for at in range(-(-blocks // step)))
        rows.append(Text("suggested layers".ljust(LABEL) + pointers.rstrip()))
    return Group(*rows)


def _level(value: float, most: float) -> int:
    return round(max(value, 0) / most * (len(MARKS) - 1)) if most > 0 else 0


def _ruler(blocks: int, step: int, wide: int) -> str:
    """Return the layer numbers under every fifth mark."""
    made = ""
    for layer in range(0, blocks, 5 * step):
        made = made.ljust(layer // step * wide) + str(layer)
    return made


def _head(traced: Traced) -> str:
    spec, found = traced.folder.spec, traced.effects
    skipped = ", ".join(f"{count} {reason}" for reason, count in traced.skipped.items())
    return f"{spec.model.id}: {count_noun(found.facts, 'fact')} of {spec.facts} traced" + (
        f", {sum(traced.skipped.values())} skipped ({skipped})" if skipped else ""
    )


def _noise(traced: Traced) -> str:
    found, settings = traced.effects, traced.folder.spec.settings
    return (
        f"noise {settings.noise} (sigma {traced.sigma:.4g}), {count_noun(settings.samples, 'sample')}: the answer's "
        f"probability falls from {found.high:.3f} to {found.low:.3f}, a total effect of {found.total:.3f}"
    )


def _peaks(found: Effects) -> Table:
    table = plain_table("restored", "at the last subject token", "at the last token")
    for curve, lines in found.lines.items():
        table.add_row(literal(curve), *(literal(_peak(lines.get(role))) for role in (LAST_SUBJECT, LAST)))
    return table


def _peak(line: EffectCurve | None) -> str:
    if line is None:
        return ""
    return f"layer {line.best}: {line.effect[line.best]:.3f} +- {line.interval[line.best]:.3f}"


def _suggestion(traced: Traced) -> list[str]:
    found = traced.suggestion
    if found is None:
        return ["no suggested layers: they need --kinds states,mlp and --sever mlp"]
    layers = ",".join(map(str, found.memit_layers))
    return [
        f"suggested: layer {found.rome_layer} for one edit, layers {layers} for a batch",
        f"  {found.rule}",
        "  use them with -o rome.layer=trace or -o memit.layers=trace; try the neighboring layers too",
    ]
