"""``ke facts``: check a file of facts, add to it, propose tests, and compare two."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ke_core.app import DONE, CallProgress, count_noun, literal, split_options
from ke_core.app import options as shared
from ke_core.app import out as output
from ke_plugin_facts.cli.settings import CHANGES, file_argument, model_of, typed


@click.group("facts")
def command() -> None:
    """Keep the facts of a model in a file.

    `ke plan` and `ke apply` read it. docs/facts-as-code.md explains its format.

    \b
    Example: ke facts add "The capital of Peru is => Cusco" --subject Peru --source https://example.org
    """  # fmt: skip


@command.command("lint")
@file_argument
def lint(file: Path) -> int:
    """Check the format, and whether facts contradict one another."""
    from ke_plugin_facts.fact_file import read_facts, require_facts  # noqa: PLC0415  only for this command

    found = read_facts(file)
    require_facts(found)
    tests = sum(len(one.tests) for one in found.facts)
    proposed = sum(len(one.proposed) for one in found.facts)
    written = count_noun(tests, "test") + (f" ({proposed} proposed)" if proposed else "")
    counts = [count_noun(len(found.facts), "fact"), written, f"{len(found.keep)} to keep"]
    output().print(literal(f"{file}: {', '.join(counts)}"))
    return 0


@command.command("add")
@click.argument("sentence")
@click.option(
    "--file",
    type=click.Path(path_type=Path),
    default=Path("facts.toml"),
    show_default=True,
    metavar="FILE",
    help="TOML file; it is created if it does not exist.",
)
@click.option("--subject", required=True, metavar="NAME", help="Subject of the sentence, spelled as in the sentence.")
@click.option("--source", default="", metavar="TEXT", help="Where the fact comes from: a page, a ticket.")
@click.option("--date", default="", metavar="YYYY-MM-DD", help="Date of the fact.")
@click.option("--owner", default="", metavar="NAME", help="Who is responsible for it.")
def add(sentence: str, file: Path, **fields: str) -> int:
    """Add a fact to a file. Comments and order are preserved.

    The new object follows "=>", or is the end of the sentence, as in `ke edit`.
    """
    from ke_plugin_facts.writing import add_fact  # noqa: PLC0415  tomlkit

    output().print(literal(f"{file}: {add_fact(file, sentence, fields)}"))
    return 0


@command.command("expand")
@file_argument
@click.option(
    "--graph",
    required=True,
    metavar="GRAPH",
    help="Knowledge graph, as in `ke build`: atlas (embedded), a file (.csv, .tsv, .nt, .ttl, .json), or sparql:URL.",
)
@click.option(
    "--relations",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="TOML table of relations with their wording, as in `ke build`.",
)
@click.option("--skip-unlabeled", is_flag=True, help="Leave out facts of the graph about entities without a label.")
@click.option(
    "--recalled",
    is_flag=True,
    help="Omit tests that need facts which the unedited model (the file's, or --model) does not recall.",
)
@shared.component_options
@shared.json_option
@shared.model_options
@click.pass_context
def expand_command(context: click.Context, /, *, file: Path, graph: str, recalled: bool, **given: Any) -> int:
    """Propose tests of the facts from a knowledge graph, and write them into the file.

    The tests are consequences, other names of the subject, and facts to keep, as the builder of RippleEdits makes
    them. Each is marked as proposed: review them, for example in the diff of a pull request. Facts that the graph does
    not contain are listed with the reason. Running the command again removes the tests that the graph no longer
    proposes. It adds missing tests again, including those that you deleted.

    \b
    Examples:
      ke facts expand --graph atlas
      ke facts expand --graph atlas --recalled --model smollm2-135m
      ke facts expand --graph company.csv --relations relations.toml -o build.backwards=2
    """  # fmt: skip
    from ke_benchmarks.graph import open_graph  # noqa: PLC0415  reads TOML and HTTP
    from ke_plugin_facts.expanding import edit_builder, expand, only_recalled  # noqa: PLC0415  torch
    from ke_plugin_facts.expansion_report import expansion_json, expansion_report  # noqa: PLC0415  torch
    from ke_plugin_facts.fact_file import read_facts  # noqa: PLC0415  only for this command
    from ke_plugin_facts.writing import require_toml, write_proposals  # noqa: PLC0415  tomlkit

    if typed(context, "model") and not recalled:
        raise click.UsageError("--model is only used with --recalled", context)
    require_toml(file)
    found, catalog, shown = read_facts(file), context.obj.catalog, CallProgress()
    builder = edit_builder(catalog, split_options(given["options"]))
    opened = open_graph(graph, relations=given["relations"], skip_unlabeled=given["skip_unlabeled"]).graph
    made = expand(found, opened, builder)
    if recalled:
        with shown.shown():
            made = only_recalled(made, model_of(context, found, given), catalog, shown)
    added, removed = write_proposals(found, made.tests, opened.name)
    if given["as_json"]:
        shared.print_json(expansion_json(made, found) | {"added": added, "removed": removed})
    else:
        output().print(expansion_report(made, found))
        output().print(literal(f"{file}: {count_noun(added, 'test')} added, {removed} removed"))
    return 0


@command.command("diff")
@click.argument("old", type=click.Path(path_type=Path))
@click.argument("new", type=click.Path(path_type=Path))
@shared.json_option
def diff(old: Path, new: Path, *, as_json: bool) -> int:
    """Compare two files: facts, tests, facts to keep, sources and settings.

    The exit status is 2 if they differ. After an error it is 2 too, and nothing is printed on standard output.
    """
    from ke_plugin_facts.comparing import fact_changes  # noqa: PLC0415  only for this command
    from ke_plugin_facts.fact_file import read_facts  # noqa: PLC0415  only for this command

    changes = fact_changes(read_facts(old), read_facts(new))
    shared.print_rows(changes, as_json=as_json)
    return CHANGES if changes else DONE
