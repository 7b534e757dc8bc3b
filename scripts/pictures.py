"""Make the pictures of the README: a terminal with the demo's output, a chart of speed-ups, and the lifelong curve.

    python scripts/pictures.py             all
    python scripts/pictures.py chart       the chart only, from benchmarks/RESULTS.md
    python scripts/pictures.py lifelong    the curve only, from the results of benchmarks/lifelong.py

The terminal picture runs ``ke demo`` in 80 columns and exports what it prints with rich. The runs are kept in
``runs/demo``, so a second call only prints. The pictures are SVG files in ``docs/images``.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from html import escape
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from ke_plugin_facts.line_chart import LinePanel, draw

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs/images"
COLUMNS = 80
SPEED_UPS = {
    "questions.py": "200 questions after shared demonstrations",
    "mello.py": "MeLLo, 100 questions, 2,786 edits",
    "targets.py": "optimized targets of 32 edits",
    "tracing.py": "causal tracing of one fact",
    "second_moments.py": "key covariance of 5 layers",
    "groups.py": "MeLLo, each case edited separately",
}
"""Scripts of ``benchmarks/`` that compare with a plain loop, and the label of the bar."""
LABELS = {"rag": "rag (threshold)", "locft-bf": "ft (locft-bf)"}
"""Methods whose name does not say which options they have."""
STYLE = """
text { font: 13px sans-serif; fill: #1f2328 }
.bar { fill: #2f6feb }
@media (prefers-color-scheme: dark) { text { fill: #e6edf3 } .bar { fill: #6ea8fe } }
"""


def main(wanted: list[str]) -> None:
    """Make the pictures that ``wanted`` names, by default all."""
    if not wanted or "terminal" in wanted:
        (IMAGES / "demo.svg").write_text(terminal("demo"), encoding="utf-8")
    if not wanted or "chart" in wanted:
        measured = speed_ups((ROOT / "benchmarks/RESULTS.md").read_text(encoding="utf-8"))
        (IMAGES / "speed.svg").write_text(chart(measured), encoding="utf-8")
    curve = ROOT / "benchmarks/lifelong.json"
    if "lifelong" in wanted or (not wanted and curve.exists()):
        results = json.loads(curve.read_text(encoding="utf-8"))
        (IMAGES / "lifelong.svg").write_text(lifelong(results), encoding="utf-8")


def terminal(*command: str) -> str:
    """Return an SVG picture of what ``ke COMMAND`` prints."""
    plain = {**os.environ, "COLUMNS": str(COLUMNS), "FORCE_COLOR": "1", "TERM": "xterm-256color"}
    ke = str(Path(sys.executable).with_name("ke"))
    done = subprocess.run([ke, *command], env=plain, stdout=subprocess.PIPE, text=True, check=True)
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        console = Console(record=True, width=COLUMNS, file=nowhere, force_terminal=True)
        console.print(Text.from_ansi(f"$ ke {' '.join(command)}\n{done.stdout.rstrip()}"))
    return console.export_svg(title="ke")


def speed_ups(results: str) -> dict[str, float]:
    """Return the measured speed-up of each script in ``SPEED_UPS``, from the table of RESULTS.md."""
    found: dict[str, float] = {}
    for line in results.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        for script in SPEED_UPS:
            if cells[-1] == f"`{script}`" and (number := re.search(r"([\d.]+)x", cells[-2])):
                found[script] = float(number[1])
    if missing := SPEED_UPS.keys() - found.keys():
        raise SystemExit(f"benchmarks/RESULTS.md has no speed-up of {', '.join(sorted(missing))}")
    return found


def chart(measured: dict[str, float]) -> str:
    """Return a bar chart as SVG. It has a light and a dark style."""
    label, width, row = 300, 360, 28
    scale = width / max(measured.values())
    bars = []
    for place, (script, times) in enumerate(sorted(measured.items(), key=lambda item: -item[1])):
        top = 8 + place * row
        bars.append(
            f'<text x="{label - 10}" y="{top + 15}" text-anchor="end">{escape(SPEED_UPS[script])}</text>'
            f'<rect class="bar" x="{label}" y="{top}" width="{times * scale:.0f}" height="20" rx="3"/>'
            f'<text x="{label + times * scale + 6:.0f}" y="{top + 15}">{times:g}x</text>'
        )
    opening = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{label + width + 60}" height="{16 + row * len(measured)}" '
        f'role="img"><title>Speed-up over a plain loop that gives the same result</title><style>{STYLE}</style>'
    )
    return f"{opening}{''.join(bars)}</svg>\n"


def lifelong(results: dict[str, Any]) -> str:
    """Return the curve over the number of edits, for each method, as SVG."""

    def lines(aspect: str, factor: float = 100.0) -> dict[str, list[tuple[float, float]]]:
        return {
            LABELS.get(name, name): [
                (at["edits"], factor * at[aspect]) for at in method["points"] if at.get(aspect) is not None
            ]
            for name, method in results["methods"].items()
        }

    percent = (0, 20, 40, 60, 80, 100)
    panels = (
        LinePanel(title="new object is generated [%]", lines=lines("efficacy"), ticks=percent),
        LinePanel(title="... for a paraphrase [%]", lines=lines("paraphrase"), ticks=percent),
        LinePanel(title="first word about others kept [%]", lines=lines("locality-word"), ticks=percent),
        LinePanel(
            title="perplexity of other text", lines=lines("perplexity", 1.0), ticks=(10, 100, 1e3, 1e4, 1e5),
            logarithmic=True,
        ),
    )  # fmt: skip
    title = "Efficacy, paraphrases, locality and perplexity after 1 to 1,000 edits"
    return draw(title, panels, (1, 10, 100, 1000), "edits: up to 100 of the unedited model, then in sequence")


if __name__ == "__main__":
    main(sys.argv[1:])
