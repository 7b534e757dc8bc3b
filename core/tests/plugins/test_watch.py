"""Plugins that hang, exit or raise an exception do not stop other plugins."""

import signal
import subprocess
import sys
import threading
import time

import pytest

from ke_core.plugins.catalog import read_catalog
from ke_core.plugins.manager import discover
from ke_core.plugins.watch import OutOfTime, time_limit
from ke_core.spec.errors import BadConfig

GOOD = """
from attrs import frozen
from ke_core.plugin import EditorSpec, hookimpl

@frozen
class Config:
    pass

@hookimpl
def ke_editors():
    {body}
    return [EditorSpec(name={name!r}, summary="an editor", config=Config, build=lambda config: None)]
"""
CATCHES = """
import time
while True:
    try:
        time.sleep(60)
    except Exception:
        pass
"""
HANGS = ("import time; time.sleep(60)", "while True: pass", "import threading; threading.Event().wait()", CATCHES)
SWALLOWS = """
import time
for _ in range(2):
    try:
        time.sleep(60)
    except BaseException:
        pass
"""
PROGRAM = """
import signal, sys
from importlib import metadata
from ke_core.cli import main
from ke_core.plugins.manager import GROUP

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts a background job with SIGINT ignored
found = [*metadata.entry_points(group=GROUP, name="ke-core"), metadata.EntryPoint("bad", "bad_plugin", GROUP)]
import ke_core.plugins.manager as manager
manager.entry_points = lambda group: found
sys.exit(main.main())
"""


def good(point, name, body="pass"):
    return point(name, GOOD.format(name=name, body=body))


@pytest.fixture
def ke(tmp_path):
    """Start ``ke`` in a new process, with the core and the plugin ``bad``."""

    def start(source, *arguments, **environment):
        (tmp_path / "bad_plugin.py").write_text(source)
        return subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path,
            env={"PATH": "", "PYTHONPATH": ":".join([str(tmp_path), *sys.path]), "COLUMNS": "200", **environment},
        )  # fmt: skip

    return start


@pytest.mark.integration
@pytest.mark.parametrize("source", HANGS)
def test_import_of_a_hanging_plugin_is_stopped(point, monkeypatch, source, capsys):
    monkeypatch.setenv("KE_PLUGIN_TIMEOUT", "1")
    plugins = discover([good(point, "first"), point("slow", source), good(point, "last")])
    slow = plugins.broken["slow"]
    assert slow.broken == (
        "it did not return within 1 s (KE_DISABLE_PLUGINS=slow leaves it out, "
        "KE_PLUGIN_TIMEOUT=SECONDS sets another limit)"
    )
    assert 1 <= slow.seconds < 20
    assert capsys.readouterr().err.startswith("note: plugin slow is broken: it did not return within 1 s")
    assert read_catalog(plugins).names("editor") == ["first", "last"]


def test_plugin_that_catches_the_timeout_is_stopped_again(point, monkeypatch):
    monkeypatch.setenv("KE_PLUGIN_TIMEOUT", "0.2")
    assert 1 < discover([point("slow", SWALLOWS)]).installed["slow"].seconds < 30


def test_hanging_hook_is_stopped(point, monkeypatch):
    monkeypatch.setenv("KE_PLUGIN_TIMEOUT", "0.2")
    catalog = read_catalog(discover([good(point, "slow", "import time; time.sleep(60)"), good(point, "fine")]))
    assert catalog.names("editor") == ["fine"]
    assert "did not return within 0.2 s" in catalog.broken["slow"].broken


@pytest.mark.parametrize("error", ["SystemExit(3)", "GeneratorExit", "BaseException('odd')"])
@pytest.mark.parametrize("hook", [False, True])
def test_any_exception_breaks_only_its_plugin(point, error, hook):
    bad = good(point, "bad", f"raise {error}") if hook else point("bad", f"raise {error}")
    catalog = read_catalog(discover([good(point, "first"), bad, good(point, "last")]))
    assert catalog.names("editor") == ["first", "last"]
    assert catalog.broken["bad"].broken.startswith(error.partition("(")[0])


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (HANGS[0], "it did not return within 0.5 s"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("class Odd(BaseException): pass\nraise Odd('no')", "Odd: no"),
    ],
)
def test_help_names_broken_plugins_with_their_time(ke, source, reason):
    process = ke(source, "--help", KE_PLUGIN_TIMEOUT="0.5")
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    flat = " ".join(out.split())
    assert "Extend:" in flat
    assert "Broken plugin: bad, after 0." in flat
    assert f"s: {reason}" in flat


def test_ctrl_c_names_the_hanging_plugin(ke, tmp_path):
    process = ke("open('here', 'w').close()\n" + HANGS[0], "--help")
    deadline = time.monotonic() + 60
    while not (tmp_path / "here").exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert "note:  plugin bad had been running for " in err
    assert "KE_DISABLE_PLUGINS=bad leaves it out" in err


@pytest.mark.parametrize("given", ["soon", "-1", "nan", "inf"])
def test_invalid_timeout_is_an_error(point, monkeypatch, given):
    monkeypatch.setenv("KE_PLUGIN_TIMEOUT", given)
    with pytest.raises(BadConfig, match=f"KE_PLUGIN_TIMEOUT is '{given}', not a number of seconds"):
        discover([good(point, "fine")])


def test_timeout_of_zero_sets_no_limit(point, monkeypatch):
    monkeypatch.setenv("KE_PLUGIN_TIMEOUT", "0")
    plugins = discover([good(point, "slow", "import time; time.sleep(0.2)")])
    assert read_catalog(plugins).names("editor") == ["slow"]
    assert 0.2 <= plugins.installed["slow"].seconds < 20


def test_the_time_limit_restores_the_handler_of_alarms():
    before = signal.getsignal(signal.SIGALRM)
    with pytest.raises(OutOfTime), time_limit(0.05):
        time.sleep(60)
    assert signal.getsignal(signal.SIGALRM) == before


@pytest.mark.parametrize(("due", "least", "most"), [(0.0, 0, 0), (100.0, 90, 100)])
def test_the_time_limit_leaves_the_timer_of_the_program(due, least, most):
    of_the_test = signal.setitimer(signal.ITIMER_REAL, due)
    try:
        with time_limit(5.0):
            pass
        assert least <= signal.getitimer(signal.ITIMER_REAL)[0] <= most
    finally:
        signal.setitimer(signal.ITIMER_REAL, *of_the_test)


def test_other_threads_load_plugins_without_a_limit(point):
    found, points = [], [good(point, "fine")]
    thread = threading.Thread(target=lambda: found.append(discover(points)))
    thread.start()
    thread.join()
    assert read_catalog(found[0]).names("editor") == ["fine"]
