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


def test_result_of_a_command_is_the_exit_status():
    assert [guarded(lambda value=value: value) for value in (None, 0, 1)] == [0, 0, 1]


def test_fixable_error_is_two_lines_and_status_2(capsys):
    assert guarded(raising(KEError("no editor called 'memti'", hint="did you mean 'memit'?"))) == 2
    assert capsys.readouterr() == ("", "error: no editor called 'memti'\nhint:  did you mean 'memit'?\n")


def test_process_ended_by_a_launcher_is_a_fixable_error(capsys):
    assert guarded(raising(ToldToEnd("process 1 was terminated", hint="start it again"))) == 2
    assert capsys.readouterr() == ("", "error: process 1 was terminated\nhint:  start it again\n")


def test_details_follow_the_error_without_an_empty_hint(capsys):
    assert guarded(raising(BadData("x.json does not fit", details=("required field missing: 'id'",)))) == 2
    assert capsys.readouterr().err == "error: x.json does not fit\n  required field missing: 'id'\n"


def test_traceback_is_printed_on_request(capsys):
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
def test_error_of_the_machine_is_one_line_and_status_2(capsys, code):
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
def test_out_of_memory_is_a_fixable_error(capsys, error):
    assert guarded(raising(error)) == 2
    message, hint = capsys.readouterr().err.splitlines()
    assert message == "error: out of memory"
    assert hint.startswith("hint:  use a smaller model")


def test_out_of_memory_is_recognized_without_torch():
    code = (
        "import sys; from ke_core.cli.errors import guarded\n"
        "def run(): raise MemoryError\n"
        "status = guarded(run); sys.exit(100 if 'torch' in sys.modules else status)"
    )
    ended = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert ended.returncode == 2
    assert ended.stderr.startswith("error: out of memory\n")


@pytest.mark.parametrize("error", [ValueError("odd"), KeyError("x"), FileNotFoundError(2, "none"), EOFError("short")])
def test_other_errors_keep_their_traceback_and_are_bugs(capsys, error):
    assert guarded(raising(error)) == 1
    err = capsys.readouterr().err
    assert "Traceback (most recent call last)" in err
    assert f"error: {type(error).__name__}" in err
    assert "hint:  this is a bug in ke or in a plugin" in err


def test_usage_errors_have_the_format_of_other_errors(capsys):
    assert guarded(raising(click.UsageError("Missing thing."))) == 2
    assert capsys.readouterr().err == "error: missing thing\n"


def test_an_unquoted_text_gets_the_hint_to_quote_it(capsys):
    command = click.Command("edit", params=[click.Argument(["sentence"])])
    assert guarded(lambda: command.main(["The", "capital"], "ke edit", standalone_mode=False)) == 2
    hint = "hint:  a text with spaces needs quotes; ke edit --help\n"
    assert capsys.readouterr().err == f"error: got unexpected extra argument (capital)\n{hint}"


def test_missing_command_of_a_known_plugin_names_its_package(capsys):
    group = click.Group("ke")
    assert guarded(lambda: group.main(["edit"], "ke", standalone_mode=False)) == 2
    assert capsys.readouterr().err == "error: no such command 'edit'\nhint:  pip install ke-weights\n"


def test_terminal_codes_in_errors_are_escaped(capsys):
    assert guarded(raising(BadData("record \x1b[2J\u202egnp\x07 is odd", hint="see \x1b]8;;http://x\x1b\\it"))) == 2
    err = capsys.readouterr().err
    assert "\x1b" not in err
    assert "record \\x1b[2J\\u202egnp\\x07 is odd" in err
