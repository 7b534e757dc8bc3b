"""``ke new KIND NAME``: create a new plugin whose tests pass."""

from __future__ import annotations

from pathlib import Path

import click

from ke_core.app import App, literal, out
from ke_testing.scaffold.write import KINDS, LICENSES, STYLES, TemplateOptions, contents, write


@click.command("new")
@click.argument("kind", type=click.Choice(KINDS))
@click.argument("name")
@click.option(
    "--kind",
    "style",
    type=click.Choice(STYLES),
    default=None,
    help="Of an editor: it keeps facts in a memory, changes weights, or adds state to the forward pass (adaptor). "
    "[default: memory]",
)
@click.option(
    "--license", type=click.Choice(LICENSES), default=LICENSES[0], show_default=True, help="The text in LICENSE."
)
@click.pass_obj
def command(app: App, kind: str, name: str, style: str | None, license: str) -> None:
    """Write a plugin to start from: a distribution that passes its contract as it stands.

    It holds a working example, and is written into a new folder, ke-plugin-NAME, of the folder you are in.

    \b
    Examples:
      ke new editor my-method --kind weight
      ke new editor my-method --kind adaptor
      ke new dataset my-benchmark --license MIT
    """
    if style is not None and kind != "editor":
        raise click.UsageError(f"--kind applies to editors only, not to a {kind}")
    plan = TemplateOptions(kind=kind, name=name, style=style or STYLES[0], license=license)
    folder = write(plan, Path.cwd(), app.catalog)
    lines = [f"{folder.name}/", *(f"  {path}" for path, _text in contents(plan)), "", "next:"]
    lines += [f"  cd {folder.name}", "  pip install -e '.[test]'", "  pytest", f"  ke plugins check {name}"]
    out().print(literal("\n".join(lines)), soft_wrap=True)
