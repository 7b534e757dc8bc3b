"""``ke reproduce``: the tables and figures of the papers, run again and set beside what was printed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ke_core.app import DONE, App
from ke_core.app import options as shared


@click.command("reproduce")
@click.argument("names", nargs=-1, required=True, metavar="list|all|NAME...")
@click.option("--model", "models", multiple=True, metavar="[SOURCE:]ID", default=(shared.DEFAULT_MODEL,),
              show_default=True, help="The model (repeatable: figures over sizes take several).")  # fmt: skip
@shared.loading_options
@click.option("--judge-model", default="", metavar="[SOURCE:]ID", help="The model of judges that ask one.")
@click.option("--limit", type=click.IntRange(1), default=None, metavar="N",
              help="Take N cases of each dataset; no more are edited at once.")  # fmt: skip
@click.option("--dataset", "fallback", default="", metavar="NAME",
              help="Takes the place of every dataset that is not at hand, such as compke-atlas.")  # fmt: skip
@shared.data_dir
@click.option("--out", type=click.Path(path_type=Path), default=Path("runs/reproduce"), show_default=True,
              metavar="FOLDER", help="Where the runs and the finished tables go.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Only say what would be run, and what is missing.")
@click.option("--show", is_flag=True, help="Print the file of a table: copy it, change it, name the copy instead.")
@click.pass_obj
def command(app: App, /, *, names: tuple[str, ...], dry_run: bool, show: bool, out: Path, **given: Any) -> int:
    """Run a published table or figure again, and set each number beside the printed one.

    A run that several tables need is made once; one that was interrupted goes on where it stopped. What differs from
    the paper stands in a note: another model, fewer cases, another dataset. A number that cannot be had says why.

    \b
    Examples:
      ke reproduce list
      ke reproduce mquake/table-3 --model smollm2-135m --limit 10 --data-dir DIR
      ke reproduce compke/table-3 --dataset compke-atlas --limit 10
      ke reproduce mquake/table-3 --show > mine.toml
      ke reproduce ./mine.toml --dry-run
    """  # fmt: skip
    from ke_plugin_reproduce.cli.reproducing import dry, listed, publish  # noqa: PLC0415  the runner imports numpy
    from ke_plugin_reproduce.reading import chosen, texts  # noqa: PLC0415  as above

    if names == ("list",):
        listed(app)
        return DONE
    if show:
        for _where, text in texts(app.plugins, names).values():
            click.echo(text, nl=False)
        return DONE
    tables = chosen(app.plugins, names)
    return dry(app, tables, given, out) if dry_run else publish(app, tables, given, out)
