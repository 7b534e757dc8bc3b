"""``ke new KIND NAME``: write a template for a plugin."""

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
    help="Kind of editor: memory (keeps facts), weight (changes weights), or adaptor (adds state to the forward pass). "
    "[default: memory]",
)
@click.option(
    "--license", type=click.Choice(LICENSES), default=LICENSES[0], show_default=True, help="License of the plugin."
)
@click.pass_obj
def command(app: App, kind: str, name: str, style: str | None, license: str) -> None:
    """Write a template for a plugin.

    The template is a distribution in the new folder ke-plugin-NAME, with a working example whose tests pass.

    \b
    Examples:
      ke new editor my-method --kind weight
      ke new editor my-method --kind adaptor
      ke new dataset my-benchmark --license MIT
    """
    if style is not None and kind != "editor":
        raise click.UsageError(f"--kind is for editors, not for {kind} plugins")
    plan = TemplateOptions(kind=kind, name=name, style=style or STYLES[0], license=license)
    folder = write(plan, Path.cwd(), app.catalog)
    what = f"{plan.style} editor" if kind == "editor" else kind
    lines = [f"{what} {name} in {folder.name}/", *sorted(f"  {path}" for path, _text in contents(plan)), "", "next:"]
    lines += [f"  cd {folder.name}", "  pip install -e '.[test]'", "  pytest", f"  ke plugins check {name}"]
    out().print(literal("\n".join(lines)), soft_wrap=True)
