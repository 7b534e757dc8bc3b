"""``ke demo``: ``ke eval`` with defaults for everything, as a first look at real numbers."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any

import click

from ke_core.cli import options as shared
from ke_core.cli.app import App
from ke_core.plugins.directory import directory_entries
from ke_core.spec.errors import UnknownComponent
from ke_core.storage.json_reading import loads

CHOSEN = loads(files("ke_core.cli").joinpath("demo.json").read_text(encoding="utf-8"))
FOLDER = Path("runs/demo")


@click.command("demo")
@click.option("--cases", "limit", type=click.IntRange(1), default=CHOSEN["cases"], show_default=True, metavar="N",
              help="How many cases are edited and asked.")  # fmt: skip
@click.option("--editor", "editors", multiple=True, metavar="NAME", default=tuple(CHOSEN["editors"]),
              show_default=True, help="What is compared (repeatable).")  # fmt: skip
@click.option("--dataset", default=CHOSEN["dataset"], show_default=True, metavar="NAME", help="The benchmark.")
@shared.model_options
@shared.component_options
@click.option("--seed", default=0, show_default=True, help="Samples the cases.")
@click.option("--out", "root", type=click.Path(path_type=Path), default=FOLDER, show_default=True, metavar="FOLDER",
              help="Where the run folders go.")  # fmt: skip
@click.pass_obj
def command(app: App, /, *, editors: tuple[str, ...], dataset: str, root: Path, **given: Any) -> int:
    """Compare editors on a small embedded benchmark.

    It compares methods with three editors that do not edit: one leaves the model unchanged, the baseline repeats the
    edited fact, the upper bound gives the gold answer. Each case is edited separately.

    \b
    Example: ke demo --cases 50
    """  # fmt: skip
    from ke_core.cli.running import eval_request, evaluate_editors  # noqa: PLC0415  the runner imports numpy
    from ke_core.runner.usage import FREE  # noqa: PLC0415  as above

    _require_all(app, editors, dataset)
    return evaluate_editors(app, editors, eval_request(editors, dataset, None, given), root, FREE, alone=False)


def _require_all(app: App, editors: tuple[str, ...], dataset: str) -> None:
    """Everything the demo needs in one pip command, not one at a time."""
    carriers = {(entry.kind, entry.name): entry.distribution for entry in directory_entries()}
    wanted = [("dataset", dataset), *(("editor", name) for name in editors)]
    missing = [part for part in wanted if part in carriers and part[1] not in app.catalog.offers[part[0]]]
    broken = set(app.catalog.broken)
    if missing and not broken.intersection(carriers[part] for part in missing):
        names = ", ".join(name for _kind, name in missing)
        packages = " ".join(dict.fromkeys(carriers[part] for part in missing))
        raise UnknownComponent(f"the demo needs what is not installed: {names}", hint=f"pip install {packages}")
