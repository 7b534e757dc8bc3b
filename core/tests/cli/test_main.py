"""The root command: fast, robust against plugins, one exit status for each kind of end."""

import os
import subprocess
import sys
import warnings
from importlib.metadata import EntryPoint
from pathlib import Path

import click
import pytest
from attrs import frozen

from ke_core import builtin
from ke_core.cli.main import main
from ke_core.plugin import EditorSpec, hookimpl
from ke_core.plugins.manager import GROUP, discover, empty_manager
from ke_core.spec.errors import DamagedArtifact

HEAVY = ("torch", "transformers", "numpy", "accelerate", "safetensors", "rich.table", "rich.console")


def python(code, **environment):
    return subprocess.run(
        [sys.executable, "-c", code],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **environment},
    )


def test_help_imports_no_heavy_library():
    code = f"""
import sys
from ke_core.cli.main import main
assert main(["--help"]) == 0
sys.stderr.write(",".join(name for name in {HEAVY!r} if name in sys.modules))
"""
    done = python(code)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Evaluate:" in done.stdout


def test_python_m_ke_core_is_ke():
    command = [sys.executable, "-m", "ke_core", "--version"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout.split()[0]) == (0, "ke")


def test_help_names_every_command_of_the_core(ke):
    status, out, _err = ke("--help")
    assert status == 0
    for name, (_section, summary) in builtin.COMMANDS.items():
        assert f"  {name} " in out
        assert f" {summary}\n" in out


@pytest.mark.parametrize("name", builtin.COMMANDS)
def test_help_of_every_command_has_a_summary_and_an_example(ke, name):
    status, out, _err = ke(name, "--help")
    assert status == 0
    assert "Example" in out
    assert f"ke {name}" in out
    assert builtin.COMMANDS[name][1].rstrip(".") in " ".join(out.split())


def test_ke_alone_prints_its_help(ke):
    status, out, err = ke()
    assert (status, err) == (2, "")
    assert "Evaluate:" in out


def test_unknown_command_suggests_a_similar_one(ke):
    status, _out, err = ke("evl")
    assert (status, err) == (2, "error: no such command 'evl'\nhint:  did you mean 'eval'?\n")


def test_help_lists_commands_of_plugins(ke, plugins):
    class Greeter:
        @hookimpl
        def ke_commands(self, group):
            group.add_command(click.Command("greet", callback=lambda: click.echo("hello")))

    plugins.register(Greeter(), "greeter")
    assert ke("greet") == (0, "hello\n", "")
    assert "command greet" in ke("plugins")[1]


def test_plugin_that_replaces_a_core_command_is_broken(ke, plugins):
    class Thief:
        @hookimpl
        def ke_commands(self, group):
            group.add_command(click.Command("eval", callback=lambda: click.echo("stolen")))

    plugins.register(Thief(), "thief")
    assert "Evaluate editing methods" in ke("eval", "--help")[1]
    status, out, _err = ke("plugins")
    flat = " ".join(out.split())
    assert status == 0
    assert "broken: command 'eval' is registered by ke-core and by thief" in flat
    assert "KE_DISABLE_PLUGINS=thief" in flat


@frozen
class NoConfig:
    pass


class Exits:
    @hookimpl
    def ke_editors(self):
        raise SystemExit(3)


class ExitsInCommands:
    @hookimpl
    def ke_commands(self, group):
        raise SystemExit(3)


class AddsNoCommand:
    @hookimpl
    def ke_commands(self, group):
        group.add_command(lambda: 1, "hello")


class TakesAnEditor:
    @hookimpl
    def ke_editors(self):
        return [EditorSpec(name="sayer", summary="mine", config=NoConfig, build=lambda config: None)]


@pytest.mark.parametrize(
    ("plugin", "reason", "step"),
    [
        (Exits, "SystemExit: 3", "must not end the process"),
        (ExitsInCommands, "SystemExit: 3", "must not end the process"),
        (AddsNoCommand, "as 'hello', which is not a click command", "decorate the function with @click.command()"),
        (TakesAnEditor, "editor 'sayer' is registered by toys and by bad", "KE_DISABLE_PLUGINS=bad"),
    ],
)
def test_broken_plugin_is_named_with_a_step_for_its_author(ke, plugins, plugin, reason, step):
    plugins.register(plugin(), "bad")
    status, out, _err = ke("plugins")
    flat = " ".join(out.split())
    assert status == 0
    assert reason in flat
    assert step in flat
    assert ke("show", "other")[0] == 0
    assert ke("plugins", "check", "bad")[0] == 1


def test_command_registered_twice_is_an_error_when_used(ke, plugins):
    plugins.register(TakesAnEditor(), "bad")
    status, _out, err = ke("show", "editor", "sayer")
    assert status == 2
    assert err.startswith(
        "error: editor 'sayer' is registered by toys and by bad\nhint:  uninstall bad, or leave it out"
    )


def test_plugin_with_failing_commands_adds_no_command(ke, plugins):
    class Half:
        @hookimpl
        def ke_commands(self, group):
            group.add_command(click.Command("half"))
            raise ValueError("the other half is missing")

    plugins.register(Half(), "half")
    assert ke("half")[0] == 2
    status, out, _err = ke("plugins")
    assert status == 0
    assert "broken: ValueError: the other half is missing" in out


@pytest.fixture
def entry_points(tmp_path, monkeypatch):
    """Entry points of the core and of a module with that source."""
    monkeypatch.syspath_prepend(tmp_path)

    def write(name, source):
        module = f"cli_toy_{name.replace('-', '_')}"
        (tmp_path / f"{module}.py").write_text(source)
        core = EntryPoint(name="ke-core", value="ke_core.builtin", group=GROUP)
        return [EntryPoint(name=name, value=module, group=GROUP), core]

    return write


def test_plugin_that_fails_on_import_is_named_only_when_used(ke, entry_points):
    found = entry_points("ke-plugin-mquake", "import orjson_is_not_here")
    status, out, err = ke("plugins", plugins=discover(found))
    assert (status, err) == (0, "")
    assert "broken: ModuleNotFoundError: No module named 'orjson_is_not_here'" in " ".join(out.split())
    assert ke("--help", plugins=discover(found))[0] == 0
    status, _out, err = ke("show", "mquake-cf-3k", plugins=discover(found))
    assert status == 2
    assert err.startswith("error: dataset 'mquake-cf-3k' cannot be used: plugin ke-plugin-mquake is broken (ModuleNot")


def test_output_of_a_plugin_on_import_goes_to_standard_error(monkeypatch, capsys, entry_points):
    found = entry_points("loud", "print('look at me')")
    monkeypatch.setattr("ke_core.plugins.manager.entry_points", lambda group: found)
    assert main(["--version"]) == 0
    written = capsys.readouterr()
    assert written.out.startswith("ke ")
    assert written.err == "look at me\n"


def test_two_plugins_with_one_name_stop_no_command(monkeypatch, capsys, entry_points):
    found = [*entry_points("twice", ""), EntryPoint(name="twice", value="base64", group=GROUP)]
    monkeypatch.setattr("ke_core.plugins.manager.entry_points", lambda group: found)
    assert main(["plugins"]) == 0
    assert "broken: two installed plugins are called 'twice': cli_toy_twice and base64" in " ".join(
        capsys.readouterr().out.split()
    )


def test_traceback_option_works_before_and_after_the_command(ke):
    for arguments in (("--traceback", "show", "x"), ("show", "x", "--traceback")):
        status, _out, err = ke(*arguments)
        assert status == 2
        assert "Traceback (most recent call last)" in err
        assert "error: no component called 'x'" in err


def test_version_works_without_plugins(ke):
    assert ke("--version", plugins=empty_manager())[0] == 0


def test_second_ctrl_c_ends_without_traceback_and_status_130():
    code = """
import os, signal, sys, time
from ke_core.cli.errors import guarded

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts what runs behind it with SIGINT ignored

def run():
    try:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(5)
    finally:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(5)

status = guarded(run)
os.kill(os.getpid(), signal.SIGINT)
time.sleep(0.1)
sys.exit(status)
"""
    done = python(code)
    assert done.returncode == 130
    assert "Traceback" not in done.stderr
    assert "Interrupted" in done.stderr


def test_the_shell_can_complete_command_lines():
    code = "from ke_core.cli.main import main; main()"
    script = python(code, _KE_COMPLETE="bash_source")
    assert "_KE_COMPLETE=bash_complete" in script.stdout
    done = python(code, _KE_COMPLETE="bash_complete", COMP_WORDS="ke da", COMP_CWORD="1")
    assert done.stdout == "plain,datasets\n"


def test_closed_pipe_is_no_error():
    command = f"{sys.executable} -m ke_core show x --help | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], check=False, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_standard_output_on_a_full_disk_is_a_one_line_error():
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "ke_core", "plugins"]
        done = subprocess.run(command, check=False, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 2
    assert done.stderr.startswith("error: no space left on device\nhint:  free some space")
    assert len(done.stderr.splitlines()) == 2


def test_only_eval_can_run_in_several_processes(ke, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "3")
    for command in ("sweep", "reproduce", "demo", "runs"):
        status, out, err = ke(command, "nowhere")
        assert (status, out) == (2, "")
        assert err.splitlines()[0] == f"error: ke {command} runs in one process, but 3 were started"
    assert "no editor called 'nobody'" in ke("eval", "--editor", "nobody", "--dataset", "toy")[2]


def test_damaged_artifact_is_a_one_line_warning(ke, plugins, capsys):
    class Damaged:
        @hookimpl
        def ke_commands(self, group):
            def say():
                warnings.warn(DamagedArtifact("c.safetensors is damaged; it is computed again"), stacklevel=2)

            group.add_command(click.Command("say", callback=say))

    plugins.register(Damaged(), "damaged")
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        status, _out, err = ke("say")
    assert (status, err) == (0, "warning: c.safetensors is damaged; it is computed again\n")
