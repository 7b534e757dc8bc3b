"""Render a report as one HTML page without external files.

All text is escaped. The template engine escapes the page. The cases are embedded as JSON without any ``<``, or as
compressed blocks in base64, and the script inserts them as text. A content security policy allows only the page's own
style and script, by their hashes.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from ke_core.app import (
    Reported,
    count_noun,
    format_interval,
    format_score,
    run_labels,
    sanitize,
    score_grids,
    score_warnings,
    summary,
    without_model,
)
from ke_core.plugin import SHARE
from ke_plugin_analysis.footer import missing_answers, run_summary, shared_settings
from ke_plugin_analysis.html.blocks import case_blocks
from ke_plugin_analysis.html.browser import BrowsedRun
from ke_plugin_analysis.html.panels import FEW, galleries
from ke_plugin_analysis.html.svg import draw, key
from ke_plugin_analysis.html.terms import DEFINITIONS, Terms
from ke_plugin_analysis.slices import is_judged, of_costs, slice_grids

UNSAFE = {ord(mark): f"\\u{ord(mark):04x}" for mark in "<>&\u2028\u2029"}
"""Characters that could end a script element or a line of JavaScript, with their JSON escapes."""


def html_page(
    runs: Sequence[Reported],
    browsed: Sequence[BrowsedRun],
    *,
    slices: bool = True,
    summaries: Mapping[str, str] | None = None,
) -> str:
    """Return the page.

    ``browsed``: the cases of each of ``runs``. ``slices``: whether to include the breakdowns by tag. ``summaries``:
    editor to its one-line description.
    """
    cases = case_blocks(browsed)
    data = {**cases.data, "terms": {name: DEFINITIONS[name] for name in ("verdicts", "styles")}}
    grids, pictures = score_grids(runs), galleries(runs)
    style, script = _part("page.css"), _part("page.js")
    page: str = (
        _engine()
        .get_template("page.html.jinja")
        .render(
            title=_title(runs),
            subtitle=_subtitle(runs),
            summary=summary(runs),
            terms=Terms(summaries or {}),
            scores=[grid for grid in grids if not of_costs(grid)],
            slices=slice_grids(runs) if slices else [],
            galleries=[one for one in pictures if not one.cost],
            cost=[grid for grid in grids if of_costs(grid)],
            cost_galleries=[one for one in pictures if one.cost],
            warned=score_warnings(runs),
            shared=shared_settings(runs),
            courses=[
                (label, list(run_summary(run)), _lost(run)) for label, run in zip(run_labels(runs), runs, strict=True)
            ],
            cases=cases,
            data=embedded(data),
            style=style,
            style_hash=_hash(style),
            script=script,
            script_hash=_hash(script),
        )
    )
    return page


def embedded(raw: Any) -> str:
    """Return JSON that is safe inside a script element."""
    return json.dumps(raw, ensure_ascii=False, separators=(",", ":"), allow_nan=False).translate(UNSAFE)


@cache
def _engine() -> Environment:
    engine = Environment(
        loader=PackageLoader("ke_plugin_analysis.html", ""), autoescape=True, undefined=StrictUndefined, finalize=_shown
    )
    engine.globals |= {
        "is_judged": is_judged,
        "draw": draw,
        "key": key,
        "number": format_score,
        "interval": format_interval,
    }
    engine.globals |= {"share": SHARE, "few": FEW, "is_judged": is_judged}
    return engine


def _shown(value: Any) -> Any:
    """Show control characters of a text. Markup that the template has marked as safe is unchanged."""
    return sanitize(value) if type(value) is str else value


@cache
def _part(name: str) -> str:
    return files("ke_plugin_analysis.html").joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return b64encode(sha256(text.encode()).digest()).decode()


def _title(runs: Sequence[Reported]) -> str:
    datasets = dict.fromkeys(run.spec.dataset.component.name for run in runs)
    return f"{', '.join(dict.fromkeys(run.spec.editor.name for run in runs))} on {', '.join(datasets)}"


def _subtitle(runs: Sequence[Reported]) -> str:
    models = dict.fromkeys(run.spec.model.id for run in runs if not without_model(run.spec))
    return f"Model: {', '.join(models) or 'none'}. {count_noun(len(runs), 'run')}, ke {runs[0].spec.ke}."


def _lost(run: Reported) -> str:
    return "\n".join(words for words, _style in missing_answers(run))
