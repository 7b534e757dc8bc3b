"""Tables of ``ke patch``: content of a patch, and overlap of two."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType

from ke_core.app import count_noun, literal, one_line, plain_table
from ke_core.plugin import to_json
from ke_weights.patches.info import PatchInfo, WeightChange

if TYPE_CHECKING:
    from ke_weights.patches.compare import PatchComparison

ROWS = 20
KILO = 1000


def info_report(name: str, info: PatchInfo, size: int) -> Group:
    """Return base, editor, edits, weights, and the size relative to the checkpoint; ``size`` in bytes."""
    base = info.base
    share = f"{size / base.size:.2%} of the checkpoint's {bytes_(base.size)}" if base.size else ""
    where = "a folder with that name" if base.folder else base.reference
    lines = {
        "patch": name,
        "base": f"{base.model.id} in {base.model.dtype} ({where}), weights {base.weights}",
        "edited": f"weights {info.edited}",
        "editor": f"{info.editor.name} ({info.editor.distribution} {info.editor.version}, ke-core {info.ke})",
        "options": ", ".join(f"{key}={value}" for key, value in info.editor.options.items() if value is not None),
        "derived": ", ".join(f"{key}={value}" for key, value in derived_values(info).items()),
        "size": f"{bytes_(size)}, {share}",
    }
    parts: list[RenderableType] = [literal(f"{label:8} {text}") for label, text in lines.items() if text]
    return Group(*parts, _edits(info), _weights(info.weights))


def info_json(name: str, info: PatchInfo, size: int) -> dict[str, Any]:
    """Return everything as JSON values."""
    return {"id": name, "bytes": size, **to_json(info)}


def derived_values(info: PatchInfo) -> dict[str, Any]:
    """Return the hyperparameters that the editor derived, because no option sets them.

    A value that differs between edits made one after another is ``varies``.
    """
    edits = info.details.get("edits")
    each = edits.values() if isinstance(edits, Mapping) else ()
    found: dict[str, Any] = {}
    for details in (info.details, *each):
        values = details.get("hyperparameters") if isinstance(details, Mapping) else None
        for name, value in values.items() if isinstance(values, Mapping) else ():
            if name != "reasons" and info.editor.options.get(name) is None:
                found[name] = value if found.get(name, value) == value else "varies"
    return found


def diff_report(names: tuple[str, str], found: PatchComparison) -> Group:
    """Return the weights and facts that both patches change."""
    parts: list[RenderableType] = [
        literal(f"{names[0]} and {names[1]}: {'same base' if found.same_base else 'different bases, not stackable'}"),
        literal(
            f"weights in both: {len(found.weights)}; only in first: {found.only[0]}; only in second: {found.only[1]}"
        ),
        literal(f"facts in both: {len(found.common)}; contradicting: {len(found.clashes)}"),
    ]
    parts += [literal(f"  {one.prompt!r}: {one.targets[0]!r} and {one.targets[1]!r}") for one in found.clashes]
    if found.weights:
        table = plain_table("weight", "norm", "norm", "cosine")
        for one in found.weights:
            cosine = "-" if one.cosine is None else f"{one.cosine:.4f}"
            table.add_row(*(literal(cell) for cell in (one.name, *(f"{norm:.4g}" for norm in one.norms), cosine)))
        parts.append(table)
    return Group(*parts)


def bytes_(number: int) -> str:
    """``4.2 MB``, powers of ten."""
    size = float(number)
    for unit in ("bytes", "kB", "MB"):
        if size < KILO:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= KILO
    return f"{size:.1f} GB"


def _edits(info: PatchInfo) -> RenderableType:
    table = plain_table("fact", "new object", "source", "date")
    for one in info.edits[:ROWS]:
        cells = (one_line(one.prompt, 60), one_line(one.target, 30), one_line(one.source, 40), one.date)
        table.add_row(*(literal(cell) for cell in cells))
    more = len(info.edits) - ROWS
    return (
        Group(table, literal(f"... and {count_noun(more, 'more edit')}; --json shows all", "dim"))
        if more > 0
        else table
    )


def _weights(weights: Sequence[WeightChange]) -> RenderableType:
    table = plain_table("weight", "kind", "rank", "size", "norm", "relative norm")
    for one in weights:
        rank = "" if one.rank is None else str(one.rank)
        share = f"{one.norm / one.base_norm:.3%}" if one.base_norm else "-"
        size = " x ".join(map(str, one.shape))
        table.add_row(*(literal(cell) for cell in (one.name, one.kind, rank, size, f"{one.norm:.4g}", share)))
    return table
