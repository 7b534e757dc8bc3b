"""Turn errors into exit statuses: one line if the user can fix it, a traceback for a bug."""

from __future__ import annotations

import errno
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import click
from click.exceptions import NoArgsIsHelpError

from ke_core.plugins.directory import directory_entries
from ke_core.results.sanitize import sanitize
from ke_core.spec.errors import KEError, KEWarning, ToldToEnd
from ke_core.storage.files import FULL

DONE, FAILED, FIXABLE, INTERRUPTED = 0, 1, 2, 130
NO_MEMORY = ("not enough memory: you tried to allocate", "can't allocate memory")
"""Parts of torch's messages when host memory is exhausted."""
MACHINE = frozenset({
    *FULL, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO, errno.EMFILE,
    errno.ENFILE, errno.ENOMEM, errno.ENAMETOOLONG, errno.ENOTDIR, errno.EISDIR, errno.ETXTBSY, errno.EBUSY,
    errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP,
})  # fmt: skip


def guarded(run: Callable[[], object], *, show_chain: bool = False, verbose: bool = False, command: str = "ke") -> int:
    """Run a command and return its exit status.

    ``show_chain``: print the traceback also of an error that the user can fix. ``verbose``: print log messages and
    warnings of libraries. ``command``: the command line, which resumes the work after Ctrl-C.
    """
    try:
        with _short_warnings(), _logging() if verbose else nullcontext():
            status = run()
        sys.stdout.flush()
    except ToldToEnd as error:
        return _failed(error, show_chain=show_chain)
    except (KeyboardInterrupt, click.Abort) as error:
        return _interrupted(error, command)
    except (BrokenPipeError, SystemExit) as error:
        if isinstance(error, SystemExit) and not isinstance(error.__context__, BrokenPipeError):
            raise
        _discard_stdout()  # the reader has gone (``ke runs | head``); rich turns the error into SystemExit
        return DONE
    except Exception as error:  # noqa: BLE001  every error of the program ends here
        if isinstance(error, OSError):
            try:
                sys.stdout.flush()
            except OSError:
                _discard_stdout()
        return _failed(error, show_chain=show_chain)
    return status if isinstance(status, int) else DONE


@contextmanager
def _short_warnings() -> Iterator[None]:
    """Print a KEWarning in one line. Other warnings keep Python's format, which names a line of code."""
    with warnings.catch_warnings():
        shown = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
            if issubclass(category, KEWarning):
                _say("warning", sanitize(str(message)))
            else:
                shown(message, category, *where, **more)

        warnings.showwarning = show
        yield


@contextmanager
def _logging() -> Iterator[None]:
    """Print log messages of every level, and every warning, on standard error."""
    import logging  # noqa: PLC0415  for ke --verbose only

    root, handler = logging.getLogger(), logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
    before = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            yield
    finally:
        root.removeHandler(handler)
        root.setLevel(before)


def _failed(error: Exception | ToldToEnd, *, show_chain: bool) -> int:
    if isinstance(error, NoArgsIsHelpError):
        click.echo(error.ctx.get_help())
        return FIXABLE
    lines = _fixable(error)
    if lines is None or show_chain:
        traceback.print_exception(error)
    if lines is None:
        _say("error", f"{type(error).__name__}: {sanitize(str(error))}")
        _say("hint", "this is a bug in ke or in a plugin: please report it with the traceback above")
        return FAILED
    message, hint = lines
    _say("error", sanitize(message))
    if hint:
        _say("hint", sanitize(hint))
    return FIXABLE


def _fixable(error: Exception | ToldToEnd) -> tuple[str, str] | None:
    """Return message and hint, or None for a bug."""
    if isinstance(error, KEError | ToldToEnd):
        return str(error), error.hint
    if isinstance(error, click.ClickException):
        return _usage(error)
    if _out_of_memory(error):
        return "out of memory", "use a smaller model, --dtype bfloat16, or a smaller --batch"
    if isinstance(error, OSError) and error.errno in MACHINE:
        where = f"{error.filename}: " if error.filename else ""
        hint = "free some space, or use another disk with --out" if error.errno in FULL else ""
        return f"{where}{(error.strerror or str(error)).lower()}", hint
    return None


def _out_of_memory(error: Exception) -> bool:
    """Whether a device or the host ran out of memory. Errors of torch are recognized without importing it."""
    return (
        isinstance(error, MemoryError)
        or type(error).__name__ == "OutOfMemoryError"
        or any(part in str(error) for part in NO_MEMORY)
    )


def _usage(error: click.ClickException) -> tuple[str, str]:
    """Return message and hint of an error of click."""
    message = error.message.rstrip(".")
    context, near = getattr(error, "ctx", None), getattr(error, "possibilities", None)
    command = f"{context.command_path} {getattr(error, 'command_name', '')}".partition(" ")[2] if context else ""
    carriers = {entry.name: entry.distribution for entry in directory_entries("command")}
    if command in carriers:
        hint = f"pip install {carriers[command]}"
    elif near:
        hint = f"did you mean {' or '.join(repr(name) for name in near)}?"
    else:
        hint = f"{context.command_path} --help" if context else ""
    if "unexpected extra argument" in message:
        hint = f"a text with spaces needs quotes; {hint}"
    if isinstance(error, click.BadParameter):
        message = error.format_message().rstrip(".")
        message = message.replace("a valid integer range", "a whole number").replace("a valid float range", "a number")
    return message[:1].lower() + message[1:], hint


def _say(label: str, text: str) -> None:
    color = {"error": "red", "hint": "cyan", "note": "cyan", "warning": "yellow"}[label]
    click.echo(click.style(f"{label}: ".ljust(7), fg=color, bold=True) + text, err=True)


def _interrupted(error: BaseException, command: str) -> int:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl-C must not interrupt the message
    click.echo(f"\nInterrupted. Progress is saved. To resume: {sanitize(command)}", err=True)
    for note in getattr(error, "__notes__", ()):
        _say("note", sanitize(note))
    return INTERRUPTED


def _discard_stdout() -> None:
    """Discard pending output, so that the interpreter does not fail to flush it at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
