"""The command ``ke``: find the plugins, collect their commands, and run one."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from importlib.metadata import version

import click

from ke_core.cli.app import App
from ke_core.cli.errors import guarded
from ke_core.cli.lazy import Root
from ke_core.plugins.manager import Plugins, discover
from ke_core.results.sanitize import sanitize
from ke_core.runner.world import started
from ke_core.spec.errors import BadConfig

QUIET, VERBOSE, TRACEBACK = ("-q", "--quiet"), ("-v", "--verbose"), "--traceback"
GLOBAL = (*QUIET, *VERBOSE, TRACEBACK)
"""Options that ke accepts before and after the name of a command."""
COMPLETION = "_KE_COMPLETE"
"""Set by the shell while it completes a command line."""
SHARED = "eval"
"""The only command that several processes can share."""
EPILOG = "Exit status: 0 success; 1 failed checks or replies, or a bug; 2 an error you can fix; 130 interrupted."


def main(arguments: Sequence[str] | None = None, *, plugins: Plugins | None = None) -> int:
    """Run ``ke`` and return its exit status. ``plugins``: use these instead of the installed ones (tests)."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    end = given.index("--") if "--" in given else len(given)
    flags = {word for word in given[:end] if word in GLOBAL}
    quiet, verbose = not flags.isdisjoint(QUIET), not flags.isdisjoint(VERBOSE)

    def run() -> object:
        if quiet and verbose:
            raise click.UsageError("--quiet and --verbose exclude each other")
        app = App(discover() if plugins is None else plugins, quiet=quiet)
        return invoke(build(app), [*(word for word in given[:end] if word not in GLOBAL), *given[end:]], app)

    return guarded(run, show_chain=TRACEBACK in flags, verbose=verbose, command=shlex.join(["ke", *given]))


def invoke(root: click.Group, words: list[str], app: App) -> object:
    """Return what the command returns. Unlike click's own ``main``, it lets errors pass unchanged."""
    if COMPLETION in os.environ:
        root.main(words, "ke", obj=app)
    try:
        with root.make_context("ke", words, obj=app) as context:
            return root.invoke(context)
    except click.exceptions.Exit as end:
        return end.exit_code


def build(app: App) -> click.Group:
    """Return the root command with the commands of all plugins."""

    @click.group(
        "ke",
        cls=Root,
        epilog=EPILOG,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    @click.version_option(version("ke-core"), message="%(prog)s %(version)s")
    @click.option(*QUIET, is_flag=True, expose_value=False, help="Print results and errors only.")
    @click.option(*VERBOSE, is_flag=True, expose_value=False, help="Print log messages and warnings of libraries.")
    @click.option(TRACEBACK, is_flag=True, expose_value=False, help="Print the traceback of an error.")
    @click.pass_context
    def root(context: click.Context) -> None:
        """Edit facts in language models and evaluate the edits.

        \b
        Compare methods on a small benchmark:  ke demo
        Evaluate one method:                   ke eval --editor memit --dataset atlas
        List the installed methods:            ke plugins

        You can also put -q, -v and --traceback after the command.
        """
        _refuse_many(context.invoked_subcommand)

    app.add_commands(root)
    for plugin in app.plugins.broken.values():
        epilog = (
            f"Broken plugin: {plugin.name}, after {plugin.seconds:.1f} s: {sanitize(plugin.broken)}. See ke plugins."
        )
        root.epilog = f"{root.epilog}\n\n{epilog}"
    return root


def _refuse_many(command: str | None) -> None:
    """Raise BadConfig if a launcher started several processes, because each of them would do all the work."""
    if command != SHARED and (processes := started()) > 1:
        raise BadConfig(
            f"ke {command} runs in one process, but {processes} were started",
            hint="start it without torchrun or accelerate launch, and unset WORLD_SIZE; only ke eval can be shared",
        )
