"""``ke build``: build a benchmark from a knowledge graph."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ke_core.app import App, count_noun, err, literal, model_choice, out, plain_table, progress, split_options
from ke_core.app import options as shared

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ke_benchmarks.building import BuildResult
    from ke_core.app import ModelChoice


@click.command("build")
@click.argument("family")
@click.option(
    "--graph",
    default="",
    metavar="GRAPH",
    help="atlas (embedded), a file (.csv, .tsv, .nt, .ttl, .json), or sparql:URL.",
)
@click.option(
    "--relations",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="A TOML table of relations: their words, kinds, inverses; only these are used.",
)
@click.option(
    "--out",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Where the records go, as JSON in the family's published format.",
)
@click.option(
    "--from",
    "questions",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="In place of a graph: questions with answers, as JSON, whose facts a model writes (recoe).",
)
@click.option("--with-model", default="", metavar="[SOURCE:]ID", help="The model that writes facts, with --from.")
@click.option("--cases", type=click.IntRange(1), default=300, show_default=True, metavar="N", help="How many, at most.")
@click.option("--seed", default=0, show_default=True, help="Draws chains and edits.")
@click.option("--model", default="", metavar="[SOURCE:]ID", help="Keep only facts that this model recalls.")
@click.option("--phrase-with", default="", metavar="[SOURCE:]ID", help="Have this model rewrite the questions.")
@click.option(
    "--dtype",
    default="float32",
    show_default=True,
    type=click.Choice(["float32", "bfloat16", "float16"]),
    help="Numbers the models' weights are held in.",
)
@click.option("--device", default="", metavar="NAME", help="cpu, cuda, mps ...; found by itself if empty.")
@click.option("--chat/--no-chat", default=False, help="Ask through the chat template, or the chat endpoint.")
@shared.server_options
@click.option("--skip-unlabeled", is_flag=True, help="Leave out facts of things that have no label, only an id.")
@click.option("--force", is_flag=True, help="Overwrite FILE.")
@shared.component_options
@click.pass_obj
def command(app: App, /, **given: Any) -> None:
    """Build a benchmark of a FAMILY in its published format: from a knowledge graph, or from questions and a model.

    `-o build.NAME=VALUE` sets an option of the family's builder; its README lists them.

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
    _print(built, request.out)


def _model(given: Mapping[str, Any], name: str) -> ModelChoice | None:

    return model_choice({**given, "model": name, "revision": ""}) if name else None


def _print(built: BuildResult, path: Path) -> None:

    out().print(
        literal(f"{count_noun(built.records, 'case')} from {built.graph} in {built.seconds:.1f} s -> {path}"),
        soft_wrap=True,
    )
    table = plain_table("dropped", "why", "count")
    table.columns[2].justify = "right"
    for what, reasons in (("rows of the graph", built.skipped), ("candidates", built.dropped)):
        for reason, count in sorted(reasons.items(), key=lambda item: (-item[1], item[0])):
            table.add_row(literal(what), literal(reason), literal(f"{count:,}"))
    if table.row_count:
        out().print(table)
