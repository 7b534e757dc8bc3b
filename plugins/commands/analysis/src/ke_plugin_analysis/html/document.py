"""A report as one HTML page that needs nothing else: no network, no server.

All text is escaped: by the template engine what stands in the page, and the cases travel as JSON in which no ``<`` is
left, from where the script puts them on the page as text. A content security policy allows the page's own style and
script by their hashes, and nothing besides.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from ke_core.app import (
    Reported,
    format_interval,
    format_score,
    judge_warnings,
    missing_answers,
    run_labels,
    run_summary,
    sanitize,
    score_grids,
    shared_settings,
    slice_grids,
    without_model,
)
from ke_plugin_analysis.html.browser import BrowsedRun, browser
from ke_plugin_analysis.html.panels import galleries
from ke_plugin_analysis.html.svg import draw, key

UNSAFE = {ord(mark): f"\\u{ord(mark):04x}" for mark in "<>&\u2028\u2029"}
"""What could end a script element or a line of JavaScript, as JSON may write it instead."""


def html_page(runs: Sequence[Reported], browsed: Sequence[BrowsedRun], *, slices: bool = True) -> str:
    """The page. ``browsed``: the runs' cases, one for each of ``runs``; ``slices``: with the breakdowns by tag."""
    cases = browser(browsed)
    missing = cases.pop("missing")
    grids, pictures = score_grids(runs), galleries(runs)
    style, script = _part("page.css"), _part("page.js")
    page: str = (
        _engine()
        .get_template("page.html.jinja")
        .render(
            title=_title(runs),
            subtitle=_subtitle(runs),
            scores=[grid for grid in grids if not grid.of_costs],
            slices=slice_grids(runs) if slices else [],
            galleries=[one for one in pictures if not one.cost],
            cost=[grid for grid in grids if grid.of_costs],
            cost_galleries=[one for one in pictures if one.cost],
            warned=judge_warnings(runs),
            shared=shared_settings(runs),
            courses=[
                (label, list(run_summary(run)), _lost(run)) for label, run in zip(run_labels(runs), runs, strict=True)
            ],
            missing=missing,
            data=embedded(cases),
            style=style,
            style_hash=_hash(style),
            script=script,
            script_hash=_hash(script),
        )
    )
    return page


def embedded(raw: Any) -> str:
    """JSON that can stand inside a script element whatever is in it."""
    return json.dumps(raw, ensure_ascii=False, separators=(",", ":"), allow_nan=False).translate(UNSAFE)


@cache
def _engine() -> Environment:
    engine = Environment(
        loader=PackageLoader("ke_plugin_analysis.html", ""), autoescape=True, undefined=StrictUndefined, finalize=_shown
    )
    engine.globals |= {"draw": draw, "key": key, "number": format_score, "interval": format_interval}
    return engine


def _shown(value: Any) -> Any:
    """Words without hidden marks; what the templates have marked as safe stays as it is."""
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
    models = dict.fromkeys("no model" if without_model(run.spec) else run.spec.model.id for run in runs)
    return (
        f"{', '.join(models)}; {'one run' if len(runs) == 1 else f'{len(runs)} runs'} on record, ke {runs[0].spec.ke}"
    )


def _lost(run: Reported) -> str:
    return "\n".join(words for words, _style in missing_answers(run))
