r"""Score tables as LaTeX with booktabs. All texts are escaped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ke_core.app import (
    NO_VALUE,
    ColumnHeader,
    Grid,
    Reported,
    format_interval,
    format_score,
    one_line,
    run_labels,
    score_grids,
    score_warnings,
)
from ke_core.plugin import MetricScore
from ke_plugin_analysis.footer import run_summary, shared_settings
from ke_plugin_analysis.slices import is_judged, slice_grids

LONG = 10_000  # characters of a text in one line
SPECIAL = str.maketrans(
    {
        "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
        "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
        "|": r"\textbar{}", '"': "''", "[": "{[}", "]": "{]}", "*": "{*}", "-": "{-}", "`": "{`}",
    }
)  # fmt: skip
"""LaTeX reads a bracket or star after a row's end as an option, and ``--`` as a dash."""


def latex(runs: Sequence[Reported], *, slices: bool = True) -> str:
    r"""Return a ``table`` for each table of the report. ``slices``: include the breakdowns.

    It needs ``\usepackage{booktabs}``. Warnings about the judge are below each table that depends on it.
    Comments at the end list the settings.
    """
    grids = [*score_grids(runs), *(slice_grids(runs) if slices else [])]
    lines = [r"% made by ke report; needs \usepackage{booktabs}"]
    warned = score_warnings(runs)
    for at, grid in enumerate(grids, start=1):
        lines += ["", *_table(grid, at, warned if is_judged(grid) else ())]
    return "\n".join([*lines, "", *(f"% {one_line(known, LONG)}" for known in _known(runs)), ""])


def escaped(text: str) -> str:
    """Return ``text`` in one line with LaTeX's special characters escaped."""
    return one_line(text, LONG).translate(SPECIAL)


def _known(runs: Sequence[Reported]) -> Iterator[str]:
    for what, words in shared_settings(runs):
        yield f"{what}: {words}"
    for label, run in zip(run_labels(runs), runs, strict=True):
        yield f"{label}: {'; '.join(run_summary(run))}"


def _table(grid: Grid, at: int, warned: Sequence[str]) -> Iterator[str]:
    yield from (
        r"\begin{table}[t]",
        r"\centering\small\setlength{\tabcolsep}{4pt}",
        rf"\caption{{{escaped(grid.title)}}}",
    )
    yield from (rf"\label{{tab:ke-{at}}}", rf"\begin{{tabular}}{{{'l' * len(grid.names)}{'r' * len(grid.heads)}}}")
    yield from (r"\toprule", _row([*map(escaped, grid.names), *(escaped(head.words) for head in grid.heads)]))
    under = [_under(head) for head in grid.heads]
    if any(under):  # in a separate row, so that columns stay narrow
        yield _row([*("" for _name in grid.names), *under])
    yield r"\midrule"
    for number_, (names, line) in enumerate(grid.thinned()):
        if number_ and grid.by and names[0]:
            yield r"\addlinespace"
        cells = [_cell(score, head, grid) for score, head in zip(line.scores, grid.heads, strict=True)]
        yield _row([*map(escaped, names), *cells])
    yield from (r"\bottomrule", r"\end{tabular}")
    yield from (rf"\par\smallskip{{\footnotesize\textbf{{Warning:}} {escaped(words)}\par}}" for words in warned)
    yield r"\end{table}"


def _row(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"


def _under(head: ColumnHeader) -> str:
    parts = [escaped(head.measure), f"$n={_count(head.n)}$" if head.n is not None else ""]
    words = ", ".join(part for part in parts if part)
    return rf"{{\scriptsize {words}}}" if words else ""


def _cell(score: MetricScore | None, head: ColumnHeader, grid: Grid) -> str:
    if score is None:
        return NO_VALUE
    parts = [_number(format_score(score))]
    interval = format_interval(score)
    if interval and not grid.by:
        parts.append(rf"{{\scriptsize({_number(interval) if ' to ' in interval else _number(interval, '--')})}}")
    if head.n is None:
        parts.append(rf"{{\scriptsize$n={_count(score.n)}$}}")
    return " ".join(parts)


def _number(text: str, hyphen: str = "$-$") -> str:
    """Return a formatted number. ``hyphen``: what its hyphen is, by default a minus sign."""
    return text.replace(",", "{,}").replace("-", hyphen)


def _count(number: int) -> str:
    return f"{number:,}".replace(",", "{,}")
