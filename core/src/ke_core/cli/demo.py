"""``ke demo``: ``ke eval`` with defaults for everything, as a first look at real numbers."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any

import click

from ke_core.cli import completion
from ke_core.cli import options as shared
from ke_core.cli.app import App
from ke_core.plugins.directory import directory_entries
from ke_core.spec.errors import UnknownComponent
from ke_core.storage.json_reading import loads

CHOSEN = loads(files("ke_core.cli").joinpath("demo.json").read_text(encoding="utf-8"))
FOLDER = Path("runs/demo")


@click.command("demo")
@shared.section(
    "Method and data",
    click.option("--editor", "editors", multiple=True, metavar="NAME", default=tuple(CHOSEN["editors"]),
                 show_default=True, shell_complete=completion.component("editor"), help="Method (repeatable)."),
    click.option("--dataset", default=CHOSEN["dataset"], show_default=True, metavar="NAME",
                 shell_complete=completion.component("dataset"), help="Benchmark."),
    click.option("--cases", "limit", type=shared.COUNT, default=CHOSEN["cases"], show_default=True, metavar="N",
                 help="Number of cases."),
    shared.component_options,
)  # fmt: skip
@shared.model_options
@shared.section(
    "Run", shared.seed_option,
    click.option("--out", "root", type=click.Path(path_type=Path), default=FOLDER, show_default=True,
                 metavar="FOLDER", help="Parent of the run folders."),
    shared.json_option,
)  # fmt: skip
@click.pass_obj
def command(app: App, /, *, editors: tuple[str, ...], dataset: str, root: Path, as_json: bool, **given: Any) -> int:
    """Compare editing methods on a small benchmark.

    It compares methods with three editors that do not edit: none leaves the model unchanged, the baseline repeats the
    edited fact, the upper bound gives the gold answer. Each case is edited separately.

    \b
    Example: ke demo --cases 50
    """  # fmt: skip
    from ke_core.cli.running import eval_request, evaluate_editors  # noqa: PLC0415  the runner imports numpy
    from ke_core.runner.usage import FREE  # noqa: PLC0415  as above

    _require_all(app, editors, dataset)
    request = eval_request(editors, dataset, None, given)
    return evaluate_editors(app, editors, request, root, FREE, alone=False, as_json=as_json)


def _require_all(app: App, editors: tuple[str, ...], dataset: str) -> None:
    """Raise UnknownComponent with one pip command for everything that the demo lacks."""
    carriers = {(entry.kind, entry.name): entry.distribution for entry in directory_entries()}
    wanted = [("dataset", dataset), *(("editor", name) for name in editors)]
    missing = [part for part in wanted if part in carriers and part[1] not in app.catalog.offers[part[0]]]
    broken = set(app.catalog.broken)
    if missing and not broken.intersection(carriers[part] for part in missing):
        names = ", ".join(name for _kind, name in missing)
        packages = " ".join(dict.fromkeys(carriers[part] for part in missing))
        raise UnknownComponent(f"the demo needs {names}, which are not installed", hint=f"pip install {packages}")
