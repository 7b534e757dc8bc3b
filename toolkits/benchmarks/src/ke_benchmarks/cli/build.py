"""``ke build``: build a benchmark from a knowledge graph."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ke_core.app import (
    App,
    completion,
    count_noun,
    err,
    literal,
    model_choice,
    out,
    plain_table,
    progress,
    split_options,
)
from ke_core.app import options as shared

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ke_benchmarks.building import BuildResult
    from ke_core.app import ModelChoice


FILE = click.Path(dir_okay=False, path_type=Path)


def _model_option(name: str, text: str) -> Callable[[Any], Any]:
    return click.option(name, default="", metavar="[SOURCE:]ID", shell_complete=completion.model, help=text)


@click.command("build")
@click.argument("family")
@shared.section(
    "Source",
    click.option(
        "--graph",
        default="",
        metavar="GRAPH",
        help="atlas (embedded), a file (.csv, .tsv, .nt, .ttl, .json), or sparql:URL.",
    ),
    click.option(
        "--relations",
        type=FILE,
        metavar="FILE",
        help="TOML table of relations with their wording, kinds and inverses. Others are ignored.",
    ),
    click.option("--skip-unlabeled", is_flag=True, help="Leave out facts about entities without a label."),
    click.option(
        "--from",
        "questions",
        type=FILE,
        metavar="FILE",
        help="Instead of a graph: JSON with questions and answers, for which a model writes facts (recoe).",
    ),
)
@shared.section(
    "Benchmark",
    click.option(
        "--out",
        required=True,
        type=FILE,
        metavar="FILE",
        help="Output file: JSON in the published format of the family.",
    ),
    click.option("--force", is_flag=True, help="Replace an existing FILE."),
    click.option(
        "--cases", type=click.IntRange(1), default=300, show_default=True, metavar="N", help="Largest number of cases."
    ),
    shared.seed_option,
    shared.component_options,
    shared.json_option,
)
@shared.section(
    "Models",
    _model_option("--with-model", "Model that writes facts for --from."),
    _model_option("--model", "Keep only facts that this model recalls."),
    _model_option("--phrase-with", "Model that rewrites the questions."),
    click.option(
        "--dtype",
        default="float32",
        show_default=True,
        type=click.Choice(["float32", "bfloat16", "float16"]),
        help="Data type of the weights.",
    ),
    shared.device,
    click.option("--chat/--no-chat", default=False, help="Use the chat template, or the chat endpoint of a server."),
    shared.server_options,
)
@click.pass_obj
def command(app: App, /, *, as_json: bool, **given: Any) -> None:
    """Build a benchmark from a knowledge graph.

    FAMILY is a benchmark with a builder, such as mquake or recoe. The file has the family's published format. The
    README of the family lists the builder's options, which you set with `-o build.NAME=VALUE`.

    \b
    Examples:
      ke build mquake --graph atlas --out cases.json
      ke build mquake --graph facts.csv --relations words.toml --out cases.json --cases 50
      ke eval --editor memit --dataset mquake -o mquake.file=cases.json
      ke build recoe --from questions.jsonl --with-model ID --out recoe.json
    """  # fmt: skip
    from ke_benchmarks.building import BuildRequest, build  # noqa: PLC0415  the runner imports numpy

    request = BuildRequest(
        family=given["family"],
        graph=given["graph"],
        questions=given["questions"],
        with_model=_model(given, given["with_model"]),
        out=given["out"],
        relations=given["relations"],
        cases=given["cases"],
        seed=given["seed"],
        options=split_options(given["options"]),
        model=_model(given, given["model"]),
        phrase_with=_model(given, given["phrase_with"]),
        skip_unlabeled=given["skip_unlabeled"],
        force=given["force"],
    )
    with progress(err()) as shown:
        built = build(request, app.catalog, shown)
    if as_json:
        counts = {"graph_rows": built.skipped, "candidates": built.dropped}
        shared.print_json({"file": str(request.out), "graph": built.graph, "cases": built.records, "left_out": counts})
    else:
        _print(built, request.out)


def _model(given: Mapping[str, Any], name: str) -> ModelChoice | None:
    return model_choice({**given, "model": name, "revision": ""}) if name else None


def _print(built: BuildResult, path: Path) -> None:
    out().print(
        literal(f"{count_noun(built.records, 'case')} from {built.graph} in {built.seconds:.1f} s -> {path}"),
        soft_wrap=True,
    )
    table = plain_table("omitted", "reason", "count")
    table.columns[2].justify = "right"
    for what, reasons in (("rows of the graph", built.skipped), ("candidates", built.dropped)):
        for reason, count in sorted(reasons.items(), key=lambda item: (-item[1], item[0])):
            table.add_row(literal(what), literal(reason), literal(f"{count:,}"))
    if table.row_count:
        out().print(table)
    if built.unworded:
        words = f"wording made from the names of relations: {', '.join(built.unworded)}"
        out().print(literal(f"{words}; to set it, use --relations FILE"), soft_wrap=True)
