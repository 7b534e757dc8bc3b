"""From run folders to files of other formats: what ``ke report`` writes."""

from __future__ import annotations

from ke_core.app import Catalog, LoadedRuns, run_labels
from ke_core.plugin import KEError, canonical, to_json
from ke_plugin_analysis.answers import RunDataset, read_answers, run_dataset
from ke_plugin_analysis.csv import scores_csv
from ke_plugin_analysis.html.browser import BrowsedRun
from ke_plugin_analysis.html.document import html_page
from ke_plugin_analysis.latex import latex
from ke_plugin_analysis.markdown import markdown

FORMATS = ("html", "latex", "csv", "markdown")


def render(runs: LoadedRuns, kind: str, catalog: Catalog, *, data_dir: str = "", slices: bool = True) -> str:
    """The text of a file of that kind, one of FORMATS. ``slices``: with the breakdowns by tag; CSV has all scores."""
    if kind == "html":
        return html_page(runs.reported, _browsed(runs, catalog, data_dir), slices=slices)
    if kind == "csv":
        return scores_csv(runs.reported)
    return {"latex": latex, "markdown": markdown}[kind](runs.reported, slices=slices)


def _browsed(runs: LoadedRuns, catalog: Catalog, data_dir: str) -> list[BrowsedRun]:
    """The runs' cases; each benchmark is read once, and if one is missing, its questions are omitted from the page."""
    known: dict[str, RunDataset] = {}
    found = []
    for label, folder, run in zip(run_labels(runs.reported), runs.folders, runs.reported, strict=True):
        same = canonical(to_json(folder.spec.dataset))  # one file may be several benchmarks, by its options
        if known.get(same, RunDataset()).dataset is None:
            try:
                known[same] = run_dataset(folder, catalog, data_dir=data_dir)
            except KEError as error:
                known[same] = RunDataset(why_not="; ".join(filter(None, (error.message, error.hint))))
        judged = read_answers(folder, run.tally.judge)
        found.append(
            BrowsedRun(
                label=label, same=same, edited_form=folder.spec.edited_form, answers=judged, material=known[same]
            )
        )
    return found
