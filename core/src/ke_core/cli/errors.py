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
        return _broken_pipe()  # rich turns it into SystemExit
    except Exception as error:  # noqa: BLE001  every error of the program ends here
        if isinstance(error, OSError) and not _flushed():
            _leave_stdout()
        return _failed(error, show_chain=show_chain)
    return status if isinstance(status, int) else DONE


@contextmanager
def _short_warnings() -> Iterator[None]:
    """Print a KEWarning in one line. Other warnings keep Python's format, which names a line of code."""
    shown = warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
        if issubclass(category, KEWarning):
            _say("warning", sanitize(str(message)))
        else:
            shown(message, category, *where, **more)

    warnings.showwarning = show
    try:
        yield
    finally:
        warnings.showwarning = shown


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


def _flushed() -> bool:
    try:
        sys.stdout.flush()
    except OSError:
        return False
    return True


def _failed(error: Exception | ToldToEnd, *, show_chain: bool) -> int:
    if isinstance(error, NoArgsIsHelpError):
        click.echo(error.ctx.get_help())
        return FIXABLE
    lines = _fixable(error)
    if lines is None or show_chain:
        traceback.print_exception(error)
    if lines is None:
        # `clean`, because the words of an exception may come from a file or a model
        _say("error", f"{type(error).__name__}: {sanitize(str(error))}")
        _say("hint", "this is a bug in ke or in a plugin: please report it with the traceback above")
        return FAILED
    message, hint = lines
    _say("error", sanitize(message))
    if hint:
        _say("hint", sanitize(hint))
    return FIXABLE


def _fixable(error: Exception | ToldToEnd) -> tuple[str, str] | None:
    """What is wrong and what to do about it; None for a bug."""
    if isinstance(error, KEError | ToldToEnd):
        return str(error), error.hint
    if isinstance(error, click.ClickException):
        return _usage(error)
    if _out_of_memory(error):
        return "out of memory", "take a smaller model, --dtype bfloat16, or a smaller --batch"
    if isinstance(error, OSError) and error.errno in MACHINE:
        where = f"{error.filename}: " if error.filename else ""
        hint = "free some space, or take another disk with --out" if error.errno in FULL else ""
        return f"{where}{(error.strerror or str(error)).lower()}", hint
    return None


def _out_of_memory(error: Exception) -> bool:
    """Whether a device or the host ran out of memory; torch's errors are told by name, since torch may be absent."""
    return (
        isinstance(error, MemoryError)
        or type(error).__name__ == "OutOfMemoryError"
        or any(part in str(error) for part in NO_MEMORY)
    )


def _usage(error: click.ClickException) -> tuple[str, str]:
    """Click's complaint in the words of the house."""
    message = error.message.rstrip(".")
    context, near = getattr(error, "ctx", None), getattr(error, "possibilities", None)
    if near:
        hint = f"did you mean {' or '.join(repr(name) for name in near)}?"
    else:
        hint = f"{context.command_path} --help" if context else ""
    if isinstance(error, click.BadParameter):
        message = error.format_message().rstrip(".")
    return message[:1].lower() + message[1:], hint


def _say(label: str, text: str) -> None:
    color = {"error": "red", "hint": "cyan", "note": "cyan", "warning": "yellow"}[label]
    click.echo(click.style(f"{label}: ".ljust(7), fg=color, bold=True) + text, err=True)


def _interrupted(error: BaseException, command: str) -> int:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl-C must not interrupt the goodbye
    click.echo(f"\nInterrupted. Progress is saved. To resume: {sanitize(command)}", err=True)
    for note in getattr(error, "__notes__", ()):
        _say("note", sanitize(note))
    return INTERRUPTED


def _broken_pipe() -> int:
    """The reader has gone (``ke runs | head``): say nothing, also not when the interpreter flushes at its end."""
    _leave_stdout()
    return DONE


def _leave_stdout() -> None:
    """What is still to be written to standard output cannot be: let it go, so that the end has nothing to flush."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
