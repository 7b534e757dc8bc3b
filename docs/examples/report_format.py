"""``ke report RUN --names FILE`` writes the editors of the runs, one per line; ``--full`` prints the number of runs."""

from collections.abc import Sequence

from ke_core.app import Catalog, LoadedRuns, Reported
from ke_core.plugin import ReportFormat, hookimpl


def render(runs: LoadedRuns, _catalog: Catalog, _data_dir: str, _slices: bool) -> str:  # noqa: FBT001  called by ke
    """Return the text of the file."""
    return "".join(f"{folder.spec.editor.name}\n" for folder in runs.folders)


@hookimpl
def ke_report_formats() -> list[ReportFormat]:
    """Register the format."""
    return [ReportFormat(name="names", help="write the names of the editors to FILE", render=render)]


@hookimpl
def ke_full_report(runs: Sequence[Reported], slices: bool) -> str:  # noqa: FBT001  called by ke
    """Return what ``--full`` prints."""
    return f"{len(runs)} runs, breakdowns: {slices}"
