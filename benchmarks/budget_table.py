"""How well the edit budget predicts measurements that it was not fitted to.

    python benchmarks/budget_table.py
    python benchmarks/budget_table.py --ship

Reads ``budget.json`` (``benchmarks/budget.py``) and ``lifelong.json`` (``benchmarks/lifelong.py``), and prints the
tables of docs/facts-as-code-results.md: early points predict late ones, and the other editors predict an editor that
was left out. D is the natural logarithm of the ratio of the perplexities after and before editing. ``--ship`` writes
the measurements to the plugin's calibration file.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Any

from attrs import evolve

import ke_plugin_facts
from ke_core.app import installed_catalog, resolve_component
from ke_core.plugin import to_json
from ke_plugin_facts.budget import (
    DEFAULT_LIMIT,
    NOISE,
    DecayPoint,
    damage_of,
    decay_law,
    fit_power_law,
    norm_law,
    rise_of,
)
from ke_plugin_facts.calibration import BudgetCalibration, CalibratedEditor

HERE = Path(__file__).parent
AT_ONCE = {"memit": (1000, 119.6, 2.50), "alphaedit": (1000, 137.2, None)}
"""1,000 edits at once: perplexity, and relative norm (docs/weight-editor-results.md)."""
EARLY = (30, 100)
ALIKE = ("memit", "alphaedit", "emmet", "memit+rect")
"""Editors that solve for updates of the MLP outputs of the same layers with the key covariance."""
SMALLEST = 2 * NOISE
"""Smaller measured damages are mostly noise, so they are not predicted."""


def at_once(measured: Mapping[str, Any], lifelong: Mapping[str, Any]) -> dict[str, tuple[DecayPoint, ...]]:
    """Return the points of each editor whose edits were made at once."""
    found: dict[str, tuple[DecayPoint, ...]] = {}
    for curve in measured["curves"].values():
        if not curve["step"]:
            found[curve["editor"]] = (*found.get(curve["editor"], ()), *map(point, curve["points"]))
    for name, curve in damages(lifelong, measured["perplexity"], sequence=False).items():
        more = tuple(DecayPoint(edits=edits, damage=damage) for edits, damage in curve.items())
        found[name] = (*found.get(name, ()), *more)
    return found


def damages(lifelong: Mapping[str, Any], base: float, *, sequence: bool) -> dict[str, dict[int, float]]:
    """Return the damage of each editor after a number of edits, in sequence or at once."""
    return {
        name: {
            one["edits"]: math.log(one["perplexity"] / base)
            for one in method["points"]
            if one["sequence"] == sequence and "perplexity" in one
        }
        for name, method in lifelong["methods"].items()
        if method["editor"] == name and not method["options"]
    }


def point(raw: Mapping[str, Any]) -> DecayPoint:
    """Return a measured point."""
    norm = math.sqrt(sum(one["norm"] ** 2 for one in raw["weights"].values()))
    return DecayPoint(edits=raw["edits"], norm=norm, damage=math.log(raw["perplexity"] / raw["base"]))


def late(name: str, points: Sequence[DecayPoint], base: float) -> list[DecayPoint]:
    """Return the points of an editor, with those of 1,000 edits."""
    if name not in AT_ONCE:
        return list(points)
    edits, perplexity, norm = AT_ONCE[name]
    return [*points, DecayPoint(edits=edits, norm=norm, damage=math.log(perplexity / base))]


def row(*cells: object) -> str:
    """Return a row of a Markdown table."""
    return f"| {' | '.join(map(str, cells))} |"


def early_points(once: Mapping[str, Sequence[DecayPoint]], base: float) -> Iterator[str]:
    """Yield the table in which the points of few edits predict those of more edits at once."""
    yield row(
        "editor",
        "fitted to",
        "exponent",
        "predicted for",
        "perplexity, predicted",
        "measured",
        "D, predicted / measured",
    )
    yield row(*["---"] * 7)
    for name, points in once.items():
        every = late(name, points, base)
        for most in EARLY:
            law = decay_law([one for one in every if one.edits <= most])
            for held_out in sorted({one.edits for one in every if one.edits > most}):
                damage = mean_damage(every, held_out)
                if law is None:
                    yield row(
                        f"`{name}`",
                        f"up to {most}",
                        "none: D does not grow",
                        held_out,
                        "-",
                        f"{base * math.exp(damage):.1f}",
                        "-",
                    )
                    continue
                cells = (f"{base * (1 + rise_of(law.at(held_out))):.1f}", f"{base * math.exp(damage):.1f}")
                yield row(
                    f"`{name}`",
                    f"up to {most}",
                    f"{law.exponent:.2f}",
                    f"{held_out:,}",
                    *cells,
                    f"{law.at(held_out) / damage:.2f}",
                )


def mean_damage(points: Sequence[DecayPoint], edits: int) -> float:
    """Return the mean damage of the points with this number of edits."""
    found = [one.damage for one in points if one.edits == edits]
    return sum(found) / len(found)


def budgets(once: Mapping[str, Sequence[DecayPoint]], base: float) -> Iterator[str]:
    """Yield the table of budgets: from all points, from few edits, and interpolated between measurements."""
    yield row("editor", "budget from all points", *(f"from up to {most} edits" for most in EARLY), "interpolated")
    yield row(*["---"] * 5)
    damage = damage_of(DEFAULT_LIMIT)
    for name, points in once.items():
        every = late(name, points, base)
        laws = [decay_law(points), *(decay_law([one for one in points if one.edits <= most]) for most in EARLY)]
        cells = [f"{int(law.inverse(damage)):,}" if law else "-" for law in laws]
        yield row(f"`{name}`", *cells, interpolated(every, damage))


def interpolated(points: Sequence[DecayPoint], damage: float) -> str:
    """Return where the measured curve crosses a damage, between neighbors that it lies between."""
    means = [(edits, mean_damage(points, edits)) for edits in sorted({one.edits for one in points})]
    for (few, low), (many, high) in pairwise(means):
        if 0 < low <= damage < high:
            return f"{few * (many / few) ** (math.log(damage / low) / math.log(high / low)):,.0f}"
    return f"more than {means[-1][0]:,}" if means[-1][1] < damage else "-"


def left_out(once: Mapping[str, Sequence[DecayPoint]], base: float) -> Iterator[str]:
    """Yield the table in which an editor's norms and the damage of the other editors with ALIKE updates predict it.

    D = c r^p is fitted to the others, and r = a n^b to the editor's own norms.
    """
    yield row("editor left out", "D of the others", "its r", "D, predicted / measured", "budget", "interpolated")
    yield row(*["---"] * 6)
    every = {name: late(name, points, base) for name, points in once.items()}
    limit = damage_of(DEFAULT_LIMIT)
    for name in ALIKE:
        if name not in every:
            continue
        others = [one for other in ALIKE if other != name for one in every.get(other, ()) if one.norm]
        law = fit_power_law(((one.norm, one.damage) for one in others if one.norm), noise=NOISE, expected=2)
        growth = norm_law([one for one in every[name] if one.edits <= EARLY[0]])
        if law is None or growth is None:
            continue
        ratios = [law.at(one.norm) / one.damage for one in every[name] if one.norm and one.damage > SMALLEST]
        shown = f"{min(ratios):.2f} to {max(ratios):.2f} (n {len(ratios)})" if ratios else "-"
        budget = f"{int(growth.inverse(law.inverse(limit))):,}"
        laws = (f"{law.scale:.2f} r^{law.exponent:.2f}", f"{growth.scale:.3f} n^{growth.exponent:.2f}")
        yield row(f"`{name}`", *laws, shown, budget, interpolated(every[name], limit))


def in_sequence(once: Mapping[str, Sequence[DecayPoint]], lifelong: Mapping[str, Any], base: float) -> Iterator[str]:
    """Yield the table in which edits at once, and the first 500 edits in sequence, predict those in sequence."""
    yield row(
        "editor", "edits in steps of 100", "measured", "predicted from edits at once", "predicted from 100 and 500"
    )
    yield row(*["---"] * 5)
    first = damages(lifelong, base, sequence=False)
    for name, curve in damages(lifelong, base, sequence=True).items():
        if not curve or name not in once:
            continue
        line = fit_power_law([(100, first[name][100]), (500, curve[500])], noise=NOISE)
        laws = decay_law(once[name]), line
        for edits in (500, 1000):
            shown = [f"{base * (1 + rise_of(law.at(edits))):,.1f}" if law else "-" for law in laws]
            measured = f"{base * math.exp(curve[edits]):,.1f}"
            yield row(f"`{name}`", f"{edits:,}", measured, shown[0], shown[1] if edits > 500 else "-")


def ship(measured: Mapping[str, Any], once: Mapping[str, Sequence[DecayPoint]]) -> None:
    """Write the plugin's calibration file."""
    editors = []
    catalog = installed_catalog()
    options = {curve["editor"]: curve["options"] for curve in measured["curves"].values()}
    for name, points in once.items():
        chosen = resolve_component(
            catalog, "editor", name, {catalog.spec("editor", name).prefix: options.get(name, {})}
        )
        kept = tuple(evolve(one, norm=one.norm and round(one.norm, 5), damage=round(one.damage, 5)) for one in points)
        editors.append(CalibratedEditor(editor=name, options=chosen.component.options, points=kept))
    found = BudgetCalibration(model=measured["model"], shape=measured["shape"], editors=tuple(editors))
    to = Path(str(files(ke_plugin_facts).joinpath("calibration.json")))
    to.write_text(json.dumps([to_json(found)], indent=1) + "\n", encoding="utf-8")


def main() -> None:
    """Print the tables, or write the calibration file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=HERE / "budget.json")
    parser.add_argument("--ship", action="store_true", help="write the calibration file of ke-plugin-facts")
    given = parser.parse_args()
    measured = json.loads(given.results.read_text(encoding="utf-8"))
    lifelong = json.loads((HERE / "lifelong.json").read_text(encoding="utf-8"))
    once, base = at_once(measured, lifelong), measured["perplexity"]
    if given.ship:
        ship(measured, once)
    for table in (
        early_points(once, base),
        budgets(once, base),
        left_out(once, base),
        in_sequence(once, lifelong, base),
    ):
        print("\n".join(table), end="\n\n")


if __name__ == "__main__":
    main()
