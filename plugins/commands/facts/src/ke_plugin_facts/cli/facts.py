"""``ke facts``: check a file of facts, add to it, and compare two."""

from __future__ import annotations

from pathlib import Path

import click

from ke_core.app import count_noun, literal
from ke_core.app import options as shared
from ke_core.app import out as output
from ke_plugin_facts.cli.settings import file_argument


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
    from ke_plugin_facts.fact_file import read_facts  # noqa: PLC0415  torch

    found = read_facts(file)
    tests = sum(len(one.tests) for one in found.facts)
    counts = [count_noun(len(found.facts), "fact"), count_noun(tests, "test"), f"{len(found.keep)} to keep"]
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


@command.command("diff")
@click.argument("old", type=click.Path(path_type=Path))
@click.argument("new", type=click.Path(path_type=Path))
@shared.json_option
def diff(old: Path, new: Path, *, as_json: bool) -> int:
    """Compare two files: facts, tests, facts to keep and settings.

    The exit status is 2 if they differ.
    """
    from ke_plugin_facts.comparing import fact_changes  # noqa: PLC0415  torch
    from ke_plugin_facts.fact_file import read_facts  # noqa: PLC0415  torch

    changes = fact_changes(read_facts(old), read_facts(new))
    shared.print_rows(changes, as_json=as_json)
    return 2 if changes else 0
