"""The command ``ke``: find the plugins, collect their commands, and run one."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from importlib.metadata import version

import click

from ke_core.cli.app import App
from ke_core.cli.errors import guarded
from ke_core.plugins.manager import Plugins, discover
from ke_core.results.sanitize import sanitize
from ke_core.runner.world import started
from ke_core.spec.errors import BadConfig

TRACEBACK = "--traceback"
COMPLETION = "_KE_COMPLETE"
"""Set by the shell while it completes a command line."""
SHARED = "eval"
"""The one command whose work several processes can share."""
EPILOG = "Exit status: 0 done; 1 finished with failures, or a bug; 2 an error to fix; 130 interrupted."


def main(arguments: Sequence[str] | None = None, *, plugins: Plugins | None = None) -> int:
    """Run ``ke`` and return its exit status. ``plugins`` takes the place of the installed ones (tests)."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    show_chain = TRACEBACK in given  # at any place: people add it at the end of the line

    def run() -> object:
        _refuse_other_bytes(given)
        if plugins is None:
            with redirect_stdout(sys.stderr):  # what a plugin prints on import must not end up in a pipe
                found = discover()
        else:
            found = plugins
        app = App(found)
        return invoke(build(app), [word for word in given if word != TRACEBACK], app)

    return guarded(run, show_chain=show_chain, command=shlex.join(["ke", *given]))


def invoke(root: click.Group, words: list[str], app: App) -> object:
    """What the command returned. Its errors pass, other than through click's own ``main``, as they are."""
    if COMPLETION in os.environ:
        root.main(words, "ke")
    try:
        with root.make_context("ke", words, obj=app) as context:
            return root.invoke(context)
    except click.exceptions.Exit as end:
        return end.exit_code


def build(app: App) -> click.Group:
    """The root command with the commands of every plugin."""

    @click.group(
        "ke", epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
    )
    @click.version_option(version("ke-core"), message="%(prog)s %(version)s")
    @click.option(TRACEBACK, is_flag=True, expose_value=False, help="Show where an error comes from.")
    @click.pass_context
    def root(context: click.Context) -> None:
        """Edit what a language model holds true, and measure what follows from it.

        \b
        A first look:   ke demo
        One method:     ke eval --editor memit --dataset atlas --model smollm2-135m
        What there is:  ke plugins
        """
        _refuse_many(context.invoked_subcommand)

    app.add_commands(root)
    for plugin in app.plugins.broken.values():
        epilog = (
            f"Broken plugin: {plugin.name}, after {plugin.seconds:.1f} s: {sanitize(plugin.broken)}. See ke plugins."
        )
        root.epilog = f"{root.epilog}\n\n{epilog}"
    return root


def _refuse_other_bytes(words: Sequence[str]) -> None:
    """Raise BadConfig for an argument that is not UTF-8: no file, run or model could be given that text."""
    for number, word in enumerate(words, start=1):
        try:
            word.encode()
        except UnicodeEncodeError as error:
            raise BadConfig(
                f"argument {number} is not valid UTF-8: {word[:60]!a}", hint="write it, or name the file, in UTF-8"
            ) from error


def _refuse_many(command: str | None) -> None:
    """Raise BadConfig where a launcher has started several processes: each would do all the work of the others."""
    if command != SHARED and (processes := started()) > 1:
        raise BadConfig(
            f"ke {command} works in one process, and {processes} were started",
            hint="start it without torchrun or accelerate launch, and without WORLD_SIZE; ke eval can be shared",
        )
