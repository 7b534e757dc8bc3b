"""Write reports as HTML, LaTeX, CSV and Markdown (``ke report``)."""

from __future__ import annotations

from ke_core.app import Catalog, LoadedRuns, err, literal, recorded_run, run_labels
from ke_core.plugin import KEError, canonical, to_json
from ke_plugin_analysis.answers import RecordedAnswers, RunDataset
from ke_plugin_analysis.csv import scores_csv
from ke_plugin_analysis.html.browser import BrowsedRun
from ke_plugin_analysis.html.document import html_page
from ke_plugin_analysis.latex import latex
from ke_plugin_analysis.markdown import markdown


def render(runs: LoadedRuns, kind: str, catalog: Catalog, *, data_dir: str = "", slices: bool = True) -> str:
    """Return a file of that kind: html, latex, csv or markdown. ``slices``: include breakdowns (CSV always does)."""
    if kind == "html":
        browsed, summaries = browsed_runs(runs, catalog, data_dir), _summaries(runs, catalog)
        return html_page(runs.reported, browsed, slices=slices, summaries=summaries)
    if kind == "csv":
        return scores_csv(runs.reported)
    return {"latex": latex, "markdown": markdown}[kind](runs.reported, slices=slices)


def _summaries(runs: LoadedRuns, catalog: Catalog) -> dict[str, str]:
    """Return the summaries of the runs' editors that are installed."""
    names = {run.spec.editor.name for run in runs.reported} & set(catalog.names("editor"))
    return {name: catalog.spec("editor", name).summary for name in names}


def browsed_runs(runs: LoadedRuns, catalog: Catalog, data_dir: str = "") -> list[BrowsedRun]:
    """Return the cases of each run. If a benchmark is missing, its questions are omitted from the page."""
    known: dict[str, RunDataset] = {}
    found = []
    for label, folder, run in zip(run_labels(runs.reported), runs.folders, runs.reported, strict=True):
        same = canonical(to_json(folder.spec.dataset))  # one file may be several benchmarks, by its options
        if known.get(same, RunDataset()).dataset is None:
            try:
                recorded = recorded_run(folder, catalog, data_dir)
                known[same] = RunDataset(dataset=recorded.dataset, cases=recorded.cases)
            except KEError as error:
                known[same] = RunDataset(why_not="; ".join(filter(None, (error.message, error.hint))))
                err().print(
                    literal(f"the page has no questions of {label}: {known[same].why_not}", "yellow"), soft_wrap=True
                )
        judged = RecordedAnswers.of(folder, run.tally.judge)
        found.append(
            BrowsedRun(
                label=label, same=same, edited_form=folder.spec.edited_form, answers=judged, material=known[same]
            )
        )
    return found
