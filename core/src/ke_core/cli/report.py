"""``ke report RUN...``: print the tables of recorded runs, or write them to files."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

import click

from ke_core.cli import completion
from ke_core.cli import options as shared
from ke_core.cli.app import App
from ke_core.cli.console import err, out
from ke_core.results.folder import RunFolder, runs_in
from ke_core.results.formatting import literal
from ke_core.results.reported import Reported, run_json
from ke_core.results.short import WIDTH, short_page
from ke_core.runner.evaluate import load_runs
from ke_core.spec.errors import BadRun
from ke_core.storage.files import write_atomic

STDOUT = "-"
file = click.Path(dir_okay=False, path_type=Path, allow_dash=True)


class ReportCommand(click.Command):
    """``ke report``, with an option for each file format of a plugin."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the command's own parameters and one ``--FORMAT FILE`` for each format."""
        app = ctx.find_object(App)
        formats = app.report_formats if app else {}
        options = [
            click.Option([f"--{one.name}"], type=file, metavar="FILE", help=one.help) for one in formats.values()
        ]
        return [*super().get_params(ctx), *options]


@click.command("report", cls=ReportCommand)
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RUN...",
                shell_complete=completion.run)  # fmt: skip
@shared.full_option
@click.option("--short", is_flag=True, help="Files, and with --full: leave out the breakdowns by tag.")
@shared.data_dir
@shared.json_option
@click.pass_obj
def command(
    app: App,
    /,
    *,
    runs: tuple[Path, ...],
    full: bool,
    short: bool,
    data_dir: Path | None,
    as_json: bool,
    **files: Path | None,
) -> None:
    """Print the main table of runs, or write all tables to files.

    RUN is a run folder, or a folder that contains runs, such as that of a sweep. Several runs are printed in one
    table. Runs without scores are scored first, from their records. Plugins add file formats: `pip install
    ke-plugin-analysis` adds HTML, LaTeX, CSV and Markdown. The file name - means standard output.

    \b
    Examples:
      ke report runs/none-atlas-* runs/memit-atlas-*
      ke report runs/memit-atlas-* --full
      ke report runs/memit-atlas-* --html memit.html --csv memit.csv
      ke report runs/layers
    """
    if as_json and (chosen := next((kind for kind, path in files.items() if path is not None), "")):
        raise click.UsageError(f"--json prints on standard output: leave out --json or --{chosen}")
    wanted = {kind: path for kind, path in files.items() if path is not None}
    if len(set(wanted.values())) < len(wanted):
        raise click.UsageError(f"each of --{', --'.join(wanted)} needs a file of its own")
    where = str(data_dir) if data_dir else ""
    found = load_runs(opened_runs(runs), app.catalog, data_dir=where, skipped=_skipped)
    for kind, path in wanted.items():
        text = app.report_formats[kind].render(found, app.catalog, where, not short)
        if str(path) == STDOUT:
            click.echo(text, nl=False)
        else:
            content = text.encode()
            write_atomic(path, content)
            err().print(literal(f"written: {path} ({len(content) / 1e6:,.2f} MB)"), soft_wrap=True)
    if not wanted:
        print_report(app, found.reported, runs, full=full, slices=not short, as_json=as_json, data_dir=where)


def print_report(
    app: App,
    runs: Sequence[Reported],
    paths: Sequence[Path],
    *,
    full: bool = False,
    slices: bool = True,
    as_json: bool = False,
    data_dir: str = "",
    lead: str = "",
    note: str = "",
) -> None:
    """Print the short report and the commands for more. With ``full``, print everything. ``paths``: the run folders.

    A plugin draws the full report (hook ``ke_full_report``). Without one, print the short report.

    ``data_dir``: the folder of data files, for the commands. ``lead`` and ``note``: texts above and below.
    """
    if as_json:
        shared.print_json([run_json(run.path, run.spec, run.scores) for run in runs])
        return
    console = out()
    page = app.plugins.manager.hook.ke_full_report(runs=runs, slices=slices) if full else None
    if full and page is None:
        err().print(literal("no plugin for --full is installed: pip install ke-plugin-analysis", "yellow"))
    full = page is not None
    width = console.width if full or console.is_terminal else WIDTH
    page = page or short_page(runs, max(width, WIDTH))
    parts = [literal(f"{lead}\n") if lead else None, page, literal(note, "dim") if note else None]
    console.print(*filter(None, parts), sep="\n", width=width)
    if full or app.quiet:
        return
    command = shlex.join(["ke", "report", *map(str, paths)])
    where = f" {shlex.join(['--data-dir', data_dir])}" if data_dir else ""
    more = [f"{command} --full", f"{command} --html report.html{where}"][: 2 if "html" in app.report_formats else 1]
    console.print(literal("\n  ".join(["Next:", *more])), soft_wrap=True)


def _skipped(run: BadRun) -> None:
    err().print(literal(f"skipped: {run.message}", "yellow"), soft_wrap=True)


def opened_runs(paths: Sequence[Path]) -> list[RunFolder]:
    """Return the runs at and under ``paths``, each once. Raises BadRun if there are none."""
    found: dict[Path, RunFolder] = {}
    for path in paths:
        if path.is_file():
            err().print(literal(f"skipped: {path} is a file, not a run folder", "dim"), soft_wrap=True)
            continue
        under = [(path, RunFolder.open(path))] if RunFolder.is_one(path) or not path.is_dir() else [*runs_in(path)]
        for place, run in under:
            if isinstance(run, BadRun):
                _skipped(run)
            else:
                found.setdefault(place.resolve(), run)
    if not found:
        hint = "name the folder of a run" if all(path.is_file() for path in paths) else "ke runs lists runs"
        raise BadRun(f"there is no run in {', '.join(map(str, paths))}", hint=hint)
    return [*found.values()]
