"""Each kind of end has its exit status and its words."""

import errno
import os
import subprocess
import sys

import click
import pytest
import torch

from ke_core.cli.errors import guarded
from ke_core.spec.errors import BadData, KEError, ToldToEnd


def raising(error):
    def run():
        raise error

    return run


def test_what_a_command_returns_is_the_status():
    assert [guarded(lambda value=value: value) for value in (None, 0, 1)] == [0, 0, 1]


def test_a_problem_to_mend_is_two_lines_and_status_2(capsys):
    assert guarded(raising(KEError("no editor called 'memti'", hint="did you mean 'memit'?"))) == 2
    assert capsys.readouterr() == ("", "error: no editor called 'memti'\nhint:  did you mean 'memit'?\n")


def test_what_a_launcher_ends_says_so_as_a_problem_to_mend(capsys):
    assert guarded(raising(ToldToEnd("process 1 was terminated", hint="start it again"))) == 2
    assert capsys.readouterr() == ("", "error: process 1 was terminated\nhint:  start it again\n")


def test_details_follow_the_error_and_no_hint_is_no_line(capsys):
    assert guarded(raising(BadData("x.json does not fit", details=("required field missing: 'id'",)))) == 2
    assert capsys.readouterr().err == "error: x.json does not fit\n  required field missing: 'id'\n"


def test_the_chain_is_shown_when_asked_for(capsys):
    def run():
        try:
            int("the root of it")
        except ValueError as error:
            raise KEError("cannot read") from error

    assert guarded(run, show_chain=True) == 2
    err = capsys.readouterr().err
    assert "invalid literal for int() with base 10: 'the root of it'" in err
    assert err.endswith("error: cannot read\n")


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS, errno.EMFILE])
def test_a_trouble_of_the_machine_is_one_line_and_status_2(capsys, code):
    assert guarded(raising(OSError(code, os.strerror(code), "runs/x"))) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"error: runs/x: {os.strerror(code).lower()}\n")
    assert ("free some space" in err) == (code in (errno.ENOSPC, errno.EDQUOT))


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has ..."),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes. Error code 12"),
        RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 8 bytes."),
    ],
)
def test_too_little_memory_is_to_be_mended(capsys, error):
    assert guarded(raising(error)) == 2
    message, hint = capsys.readouterr().err.splitlines()
    assert message == "error: out of memory"
    assert hint.startswith("hint:  use a smaller model")


def test_too_little_memory_is_told_where_torch_is_not_loaded():
    code = (
        "import sys; from ke_core.cli.errors import guarded\n"
        "def run(): raise MemoryError\n"
        "status = guarded(run); sys.exit(100 if 'torch' in sys.modules else status)"
    )
    ended = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert ended.returncode == 2
    assert ended.stderr.startswith("error: out of memory\n")


@pytest.mark.parametrize("error", [ValueError("odd"), KeyError("x"), FileNotFoundError(2, "none"), EOFError("short")])
def test_anything_else_keeps_its_traceback_and_is_called_a_bug(capsys, error):
    assert guarded(raising(error)) == 1
    err = capsys.readouterr().err
    assert "Traceback (most recent call last)" in err
    assert f"error: {type(error).__name__}" in err
    assert "hint:  this is a bug in ke or in a plugin" in err


def test_a_usage_error_speaks_as_the_house_does(capsys):
    assert guarded(raising(click.UsageError("Missing thing."))) == 2
    assert capsys.readouterr().err == "error: missing thing\n"


def test_terminal_codes_in_an_error_are_shown_not_obeyed(capsys):
    assert guarded(raising(BadData("record \x1b[2J\u202egnp\x07 is odd", hint="see \x1b]8;;http://x\x1b\\it"))) == 2
    err = capsys.readouterr().err
    assert "\x1b" not in err
    assert "record \\x1b[2J\\u202egnp\\x07 is odd" in err
