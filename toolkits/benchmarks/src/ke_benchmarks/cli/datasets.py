"""``ke datasets info``, ``stats``, ``sample``, ``export`` and ``fetch``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import click
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from ke_benchmarks.counts import count_cases
from ke_benchmarks.files.download import find_data
from ke_benchmarks.files.published import LocalFile, file_state, local_file
from ke_core.app import (
    DATA_DIR,
    DONE,
    FAILED,
    App,
    Plan,
    ResolvedComponent,
    completion,
    count_noun,
    err,
    literal,
    out,
    plain_table,
    reject_unused,
    resolve_component,
    select,
    split_options,
    with_data_dir,
)
from ke_core.app import options as shared
from ke_core.plugin import Case, DataFile, Dataset, DatasetInfo, Entity, Probe, Query, data_places, to_json


@click.command("info")
@shared.dataset_argument
@shared.component_options
@shared.data_dir
@shared.json_option
@click.pass_obj
def info(app: App, name: str, options: tuple[str, ...], data_dir: Path | None, *, as_json: bool) -> None:
    """Print license, source, citation, published counts and files of a dataset.

    For each file, it prints the size and where the file is, or where it is looked for.

    \b
    Example: ke datasets info mquake-cf-3k --data-dir ~/data
    """
    source = resolve_dataset(app, name, options, data_dir)
    found: DatasetInfo = source.build().info()
    given = getattr(source.config, DATA_DIR, None)
    folder = Path(given).expanduser() if given else None
    files = [(file, local_file(file, folder)) for file in found.files]
    if as_json:
        here = [{**to_json(file), "path": place and str(place.path)} for file, place in files]
        shared.print_json({"dataset": name, **to_json(found), "files": here})
        return
    out().print(about(found), soft_wrap=True)
    for file, place in files:
        out().print(file_sheet(file, place, data_places(file.family, file.name, folder)), soft_wrap=True)


@click.command("stats")
@shared.dataset_argument
@shared.component_options
@shared.data_dir
@shared.json_option
@click.pass_obj
def stats(app: App, name: str, options: tuple[str, ...], data_dir: Path | None, *, as_json: bool) -> int:
    """Count the cases of a dataset, and compare with the published counts.

    The exit status is 1 if a count differs from the published one.

    \b
    Example: ke datasets stats mquake-cf-3k --data-dir ~/data
    """
    dataset: Dataset = resolve_dataset(app, name, options, data_dir).build()
    counts, published = count_cases(dataset.cases()), dataset.info().published
    labels = dict.fromkeys((*counts, *published))
    differing = [label for label in labels if label in published and counts.get(label) != published[label]]
    if as_json:
        shared.print_json({"dataset": name, "counts": counts, "published": published, "differing": differing})
        return int(bool(differing))
    table = plain_table("count", "counted", "published", "")
    table.columns[1].justify = table.columns[2].justify = "right"
    for label in labels:
        differs = "differs" if label in differing else ""
        table.add_row(literal(label), _number(counts.get(label)), _number(published.get(label)), differs)
    shown: list[RenderableType] = [literal(f"{name}: {dataset.info().title}", "bold"), table]
    if published:
        wrong = f"{count_noun(len(differing), 'count')} {'differs' if len(differing) == 1 else 'differ'}"
        shown.append(literal(f"{wrong} from the published one" if differing else "all published counts match"))
    out().print(Group(*shown))
    return int(bool(differing))


@click.command("sample")
@shared.dataset_argument
@click.option("-n", "number", type=click.IntRange(1), default=3, show_default=True, help="Number of cases.")
@click.option("--seed", default=None, type=int, help="Sample the cases with this seed, as ke eval does.")
@click.option("--case", "case_id", default="", metavar="ID", help="Print only this case.")
@click.option("--prompts", "with_prompts", is_flag=True, help="Also print the prompts that the model gets.")
@shared.component_options
@shared.data_dir
@shared.json_option
@click.pass_obj
def sample(
    app: App, name: str, *, number: int, seed: int | None, case_id: str, with_prompts: bool, as_json: bool,
    options: tuple[str, ...], data_dir: Path | None,
) -> None:  # fmt: skip
    """Print cases of a dataset: edits, questions, correct answers.

    \b
    Example: ke datasets sample atlas -n 1 --prompts
    """
    dataset: Dataset = resolve_dataset(app, name, options, data_dir).build()
    if case_id:
        cases = [case for case in dataset.cases() if case.id == case_id]
        if not cases:
            raise click.UsageError(f"{name} has no case {case_id!r}: `ke datasets sample {name}` shows some")
    elif seed is None:
        cases = list(islice(dataset.cases(), number))
    else:
        cases = list(select(list(dataset.cases()), Plan(limit=number), seed))
    if as_json:
        shared.print_json(to_json(cases))
        return
    styles = getattr(app.catalog.spec("dataset", name), "styles", ())
    for case in cases:
        out().print(case_sheet(case, dataset, styles if with_prompts else ()))


def _number(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def about(info: DatasetInfo) -> Group:
    """Return license, source, citation and published counts, and the checksum of a dataset without files."""
    counts = "; ".join(f"{label}: {number:,}" for label, number in info.published.items())
    lines = {
        "title": info.title,
        "license": info.license,
        "source": info.source,
        "cite": info.cite,
        "sha256": "" if info.files else info.sha256,
        "counts": f"published: {counts}" if counts else "",
    }
    return Group(*(_line(label, text) for label, text in lines.items() if text))


def file_sheet(file: DataFile, found: LocalFile | None, places: Sequence[Path]) -> Group:
    """Return the published size of a file, and where it is with its checksum, or where it is looked for."""
    size = f", {count_noun(file.size, 'byte')} as published" if file.size else ""
    pin = "fetched by checksum" if file.pinned else "not fetched, because the full checksum is unknown"
    lines = [_line("file", f"{file.name}{size}; {pin}"), _line("", file_state(file, found))]
    if found is None:
        lines += [_line("" if number else "searched", str(place)) for number, place in enumerate(places)]
    else:
        lines.append(_line("sha256", found.sha256))
    return Group(*lines)


def _line(label: str, text: str) -> Text:
    return literal(f"{label:8} {text}")


def case_sheet(case: Case, dataset: Dataset, styles: Iterable[str] = ()) -> Group:
    """Return the edits, questions and correct answers of a case. ``styles``: add the prompts in these styles."""
    lines: list[Text | Padding] = [literal(f"case {case.id}{_tags(case.tags)}", "bold")]
    if case.not_editable:
        lines.append(literal(f"  cannot be edited: {case.not_editable}"))
    for edit in case.edits:
        was = f"  [was: {edit.old_target}]" if edit.old_target else ""
        lines.append(literal(f"  edit {edit.id}: {edit.statement}{was}"))
    for probe in case.probes:
        lines.append(literal(f"  {probe.aspect} ({_when(probe)})"))
        for query in probe.queries:
            lines += [literal(f"    {line}") for line in _query(query)]
            for style in styles:
                prompt = dataset.prompt(query, style)
                if prompt is not None:
                    lines += [literal(f"      as {style}:"), Padding(literal(prompt.text), (0, 0, 0, 8))]
    return Group(*lines, Text())


def _tags(tags: Mapping[str, str]) -> str:
    return f" ({', '.join(f'{name} {value}' for name, value in tags.items())})" if tags else ""


def _query(query: Query) -> Iterator[str]:
    yield query.texts[0] + _tags(query.tags)
    pre_edit = f"; before the edit: {query.pre_edit.words(_named)}" if query.pre_edit is not None else ""
    yield f"  -> {query.gold.words(_named)}{pre_edit}"


def _named(entity: Entity) -> str:
    return f"{entity.label} (also {', '.join(entity.aliases)})" if entity.aliases else entity.label


def _when(probe: Probe) -> str:
    when = {"before": "before the edit", "after": "after the edit", "both": "before and after the edit"}[probe.phase]
    return f"{when}, {probe.require} of {len(probe.queries)}" if len(probe.queries) > 1 else when


def resolve_dataset(app: App, name: str, given: tuple[str, ...], data_dir: Path | None) -> ResolvedComponent[Any]:
    """Resolve a dataset by its name, with its options."""
    return resolve_datasets(app, (name,), given, data_dir)[0]


def resolve_datasets(
    app: App, names: Sequence[str], given: Sequence[str], data_dir: Path | None
) -> list[ResolvedComponent[Any]]:
    """Resolve several datasets with the options of all of them."""
    specs, options = [app.catalog.spec("dataset", name) for name in names], split_options(given)
    reject_unused(options, specs)
    chosen = with_data_dir(specs, options, str(data_dir or ""))
    return [resolve_component(app.catalog, "dataset", spec.name, chosen) for spec in specs]


@click.command("export")
@shared.dataset_argument
@click.option("--out", "to", type=click.Path(dir_okay=False, path_type=Path), required=True, metavar="FILE",
              help="Output file, in JSON lines.")  # fmt: skip
@click.option("--force", is_flag=True, help="Replace an existing file.")
@shared.component_options
@shared.data_dir
@click.pass_obj
def export_command(
    app: App, name: str, *, to: Path, force: bool, options: tuple[str, ...], data_dir: Path | None
) -> None:
    """Write the cases of a dataset to a file.

    docs/datasets.md describes the format. Use the file with other tools, or edit it and evaluate on it: `ke eval
    --dataset cases -o cases.file=FILE`.

    \b
    Example: ke datasets export atlas --out atlas.jsonl
    """  # fmt: skip
    from ke_benchmarks.files.cases import export  # noqa: PLC0415  imports cattrs

    if to.exists() and not force:
        raise click.UsageError(f"{to} exists: add --force to replace it")
    source = resolve_dataset(app, name, options, data_dir)
    dataset = source.build()
    cases = tuple(dataset.cases())
    export(dataset, source.spec.for_config(source.config), cases, to)
    out().print(f"{to}: {count_noun(len(cases), 'case')} of {name}", markup=False, soft_wrap=True)


@click.command("fetch")
@click.argument("names", nargs=-1, required=True, metavar="DATASET...",
                shell_complete=completion.component("dataset"))  # fmt: skip
@shared.data_dir
@click.pass_obj
def fetch(app: App, names: tuple[str, ...], data_dir: Path | None) -> int:
    """Download the published files of datasets.

    Missing files are downloaded to the cache and compared with a pinned checksum. The same command resumes an
    interrupted download. For a file without a pinned checksum, the command prints where it is published and where to
    put it. The exit status is 1 if a local file differs from the published one.

    \b
    Example: ke datasets fetch mquake-cf-3k
    """
    status = DONE
    for name in names:
        files = resolve_dataset(app, name, (), None).build().info().files
        if not files:
            out().print(f"{name} comes with its package: nothing to download", markup=False)
        for file in files:
            found = local_file(file, data_dir)
            if found is None:
                if file.pinned:
                    err().print(f"downloading {file.url}", markup=False, soft_wrap=True)
                find_data(file.family, file.name, explicit=data_dir, url=file.url, sha256=file.sha256)
                found = local_file(file, data_dir)
            assert found is not None
            out().print(literal(f"{file.name}: {file_state(file, found)}"), soft_wrap=True)
            status = FAILED if found.is_published is False else status
    return status
