"""``ke demo``: ``ke eval`` with defaults for everything, as a first look at real numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ke_core.cli import completion
from ke_core.cli import options as shared
from ke_core.cli.app import App
from ke_core.plugins.directory import directory_entries
from ke_core.spec.errors import UnknownComponent
from ke_core.storage.json_reading import loads

if TYPE_CHECKING:
    from ke_core.runner.run import ResolvedRun
    from ke_core.spec.facts import Edit
    from ke_core.spec.queries import Case
    from ke_core.spec.requests import EditorRequest

CHOSEN = loads(files("ke_core.cli").joinpath("demo.json").read_text(encoding="utf-8"))


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
    click.option("--out", "root", type=click.Path(path_type=Path), default=Path("runs/demo"), show_default=True,
                 metavar="FOLDER", help="Parent of the run folders."),
    shared.full_option, shared.json_option,
)  # fmt: skip
@click.pass_obj
def command(
    app: App, /, *, editors: tuple[str, ...], dataset: str, root: Path, full: bool, as_json: bool, **given: Any
) -> int:
    """Compare editing methods on a small benchmark.

    It compares methods with two editors that use no model: the baseline parrot repeats the edited fact, the upper
    bound oracle gives the gold answer. Each case is edited separately.

    \b
    Example: ke demo --cases 50
    """  # fmt: skip
    from ke_core.cli.running import eval_request, evaluate_editors  # noqa: PLC0415  the runner imports numpy
    from ke_core.runner.usage import FREE  # noqa: PLC0415  as above

    _require_all(app, editors, dataset)
    quick = list(_quick_options(editors, given["options"]))
    chosen = tuple(f"{name}={option['value']}" for name, option in quick)
    given |= {"styles": tuple(CHOSEN["styles"]), "options": (*given["options"], *chosen)}
    request = eval_request(editors, dataset, None, given)
    listed = ", ".join(f"{name}={option['value']} (default {option['default']})" for name, option in quick)
    note = f"Demo settings: {listed}." if quick else ""
    return evaluate_editors(
        app, editors, request, root, FREE, alone=False, full=full, as_json=as_json, first=first_edit, note=note
    )


def _quick_options(editors: Sequence[str], given: Sequence[str]) -> Iterator[tuple[str, dict[str, int]]]:
    """The options that the demo sets to be quick, unless the command line sets them."""
    for name, option in CHOSEN["options"].items():
        if name.partition(".")[0] in editors and not any(words.startswith(f"{name}=") for words in given):
            yield name, option


def first_edit(run: ResolvedRun) -> str:
    """Apply the first edit of a run and return the answers before and after. Empty if it edits no model.

    The run does this again, from the caches, and records it.
    """
    from ke_core.engine.passthrough import PassthroughModel  # noqa: PLC0415  as above
    from ke_core.runner.apply import applied_edits, untouched  # noqa: PLC0415  as above
    from ke_core.spec.errors import EditFailed  # noqa: PLC0415  as above

    found = next(_edited_facts(run), None) if run.editor_spec.needs_model else None
    if found is None:
        return ""
    case, edit, question = found
    before = PassthroughModel(run.session).answer([question])
    try:
        with untouched(run.session.model), applied_edits(run, case.edits) as applied:
            after = applied.edited.answer([question])
    except EditFailed:
        return ""  # the run records the reason
    rows = [("Edit", question.texts[0].strip(), f'-> "{edit.target}"')]
    rows += [("Before", getattr(reply, "text", ""), f"({run.spec.model.id}, unedited)") for reply in before]
    rows += [("After", getattr(reply, "text", ""), f"(edited with {run.spec.editor.name})") for reply in after]
    return "\n".join(f'{name:<8}"{text}" {words}' for name, text, words in rows)


def _edited_facts(run: ResolvedRun) -> Iterator[tuple[Case, Edit, EditorRequest]]:
    """Yield each fact that the run edits, with its case and the request that asks for it."""
    from ke_core.runner.requests import RequestBuilder, queries_of  # noqa: PLC0415  as above

    builder = RequestBuilder.of(run)
    for case in (case for group in run.groups for case in group.edited):
        if run.editor_spec.refused(run.editor, run.session, case.edits):
            continue
        edits = {edit.id: edit for edit in case.edits}
        asked = {query.id: edits.get(query.edit or "") for query in queries_of(case, "after")}
        for unit in builder.after(case, edits, edited=True):
            for question in unit.questions:
                if (edit := asked[question.query]) is not None:
                    yield case, edit, question


def _require_all(app: App, editors: tuple[str, ...], dataset: str) -> None:
    """Raise UnknownComponent with one pip command for everything that the demo lacks."""
    carriers = {(entry.kind, entry.name): entry.distribution for entry in directory_entries()}
    wanted = [("dataset", dataset), *(("editor", name) for name in editors)]
    missing = [part for part in wanted if part in carriers and part[1] not in app.catalog.registrations[part[0]]]
    broken = set(app.catalog.broken)
    if missing and not broken.intersection(carriers[part] for part in missing):
        names = ", ".join(name for _kind, name in missing)
        packages = " ".join(dict.fromkeys(carriers[part] for part in missing))
        raise UnknownComponent(f"the demo needs {names}, which are not installed", hint=f"pip install {packages}")
