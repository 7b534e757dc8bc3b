"""Discovery at three depths: objects, entry points of modules written here, and what is really installed."""

from email.message import Message
from importlib.metadata import EntryPoint, entry_points, version

import pytest
from attrs import frozen

from ke_core.plugin import EditorSpec, hookimpl
from ke_core.plugins import faults
from ke_core.plugins.catalog import read_catalog
from ke_core.plugins.manager import GROUP, discover, empty_manager
from ke_core.spec.errors import PluginConflict

GOOD = """
from attrs import frozen
from ke_core.plugin import EditorSpec, hookimpl

@frozen
class Config:
    pass

@hookimpl
def ke_editors():
    return [EditorSpec(name={name!r}, summary="an editor", config=Config, build=lambda config: None)]
"""


@frozen
class Config:
    pass


class Plugin:
    """An editor registered as an object."""

    @hookimpl
    def ke_editors(self):
        return [EditorSpec(name="by-hand", summary="an editor", config=Config, build=lambda config: None)]


def good(point, name):
    return point(name, GOOD.format(name=name))


def test_an_object_is_a_plugin():
    plugins = empty_manager()
    plugins.register(Plugin(), "mine")
    assert read_catalog(plugins).names("editor") == ["by-hand"]


def test_an_entry_point_is_a_plugin(point):
    assert read_catalog(discover([good(point, "swap")])).names("editor") == ["swap"]


def test_discover_finds_installed_plugins():
    plugins = discover(disabled=frozenset())
    core = plugins.installed["ke-core"]
    assert (core.distribution, core.broken) == ("ke-core", "")
    assert core.version
    assert set(plugins.installed) == {found.name for found in entry_points(group=GROUP)}


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("import no_such_module", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("raise RuntimeError('two\\nlines')", "RuntimeError: two lines"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("def broken(:", "SyntaxError"),
        ("from ke_core.plugin import hookimpl\n@hookimpl\ndef ke_editor():\n    return []", "ke_editor"),
        ("from ke_core.plugin import hookimpl\n@hookimpl\ndef ke_editors(wanted):\n    return []", "wanted"),
    ],
    ids=["import", "raises", "exits", "syntax", "misspelled hook", "wrong argument"],
)
def test_broken_plugin_is_listed_with_its_reason_and_stops_no_other(point, source, reason):
    plugins = discover([good(point, "first"), point("bad", source), good(point, "last")])
    assert reason in plugins.installed["bad"].broken
    assert "\n" not in plugins.installed["bad"].broken
    assert list(plugins.broken) == ["bad"]
    assert read_catalog(plugins).names("editor") == ["first", "last"]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("return ['memit']", "ke_editors returned 'memit' in its list, not an EditorSpec"),
        ("return None", "ke_editors returned None, not a list of EditorSpec"),
        ("return 'memit'", "ke_editors returned 'memit', not a list of EditorSpec"),
        ("raise ValueError('no')", "ValueError: no"),
        ("raise SystemExit(3)", "SystemExit: 3"),
    ],
    ids=["wrong type", "nothing", "text", "raises", "exits"],
)
def test_failing_hook_breaks_only_its_plugin(point, body, reason):
    source = f"from ke_core.plugin import hookimpl\n@hookimpl\ndef ke_editors():\n    {body}\n"
    plugins = discover([point("bad", source), good(point, "fine")])
    catalog = read_catalog(plugins)
    assert catalog.names("editor") == ["fine"]
    assert reason in catalog.broken["bad"].broken


def test_plugin_with_a_failing_second_hook_registers_nothing(point):
    source = GOOD.format(name="half") + "\n@hookimpl\ndef ke_judges():\n    raise ValueError('no')\n"
    catalog = read_catalog(discover([point("half", source), good(point, "fine")]))
    assert catalog.names("editor") == ["fine"]


def test_plugin_that_prints_works_and_its_output_is_kept(point, capsys):
    loud = "print('hello')\n" + GOOD.format(name="loud").replace("    return [Ed", "    print('again')\n    return [Ed")
    plugins = discover([point("loud", loud)])
    assert read_catalog(plugins).names("editor") == ["loud"]
    written = capsys.readouterr()
    assert (written.out, written.err) == ("", "hello\nagain\n")
    assert plugins.installed["loud"].printed == "hello\nagain\n"


class Dist:
    """As much of a distribution as is looked at."""

    def __init__(self, *requires):
        self.metadata = Message()
        self.metadata["Name"], self.metadata["Version"] = "ke-plugin-old", "2.0"
        for one in requires:
            self.metadata["Requires-Dist"] = one


@pytest.mark.parametrize(
    ("requires", "wanted"),
    [
        ("ke-core<0.1", "<0.1"),
        ("KE_Core>=7", ">=7"),
        ("ke-core>=0.0.1,<0.0.9; python_version >= '3'", "<0.0.9,>=0.0.1"),
    ],
    ids=["older", "newer", "with a marker"],
)
def test_plugin_built_for_another_core_is_not_loaded(point, monkeypatch, requires, wanted):
    made = point("old", "raise AssertionError('it was imported')")
    monkeypatch.setattr(EntryPoint, "dist", Dist("attrs", requires))
    plugin = discover([made]).installed["old"]
    assert plugin.broken == f"it was built for ke-core {wanted}, and this is {version('ke-core')}"
    assert "widen the range in its pyproject.toml" in plugin.step


def test_the_version_of_the_core_is_looked_up_once_for_all_plugins(point, monkeypatch):
    asked = []
    monkeypatch.setattr(faults, "version", lambda name: asked.append(name) or version(name))
    monkeypatch.setattr(EntryPoint, "dist", Dist("ke-core>=0.1"))
    faults._own_version.cache_clear()
    assert not discover([good(point, name) for name in ("one", "two", "three")]).broken
    assert asked == ["ke-core"]  # a look-up lists every folder of the path


@pytest.mark.parametrize(
    "requires", ["ke-core>=0.1,<0.2", "ke-core", "ke-core<0.1; extra == 'old'", "not a requirement!"]
)
def test_a_plugin_built_for_this_core_is_loaded(point, monkeypatch, requires):
    made = good(point, "fits")
    monkeypatch.setattr(EntryPoint, "dist", Dist(requires))
    assert read_catalog(discover([made])).names("editor") == ["fits"]


@pytest.mark.parametrize(
    ("source", "step"),
    [
        ("import no_such_module", "add the package that provides no_such_module to its dependencies"),
        ("raise SystemExit(3)", "its import and its hooks must not end the process"),
        ("def broken(:", "set requires-python"),
        ("from ke_core.plugin import hookimpl\n@hookimpl\ndef ke_editor():\n    return []", "hookspecs.py"),
        (GOOD.format(name="Not a name"), "toy_plugin_bad.py, line "),
        ("raise RuntimeError", "toy_plugin_bad.py, line 1: raise RuntimeError"),
    ],
    ids=["import", "exits", "syntax", "misspelled hook", "wrong name", "raises"],
)
def test_broken_plugin_has_a_step_for_its_author(point, source, step):
    assert step in read_catalog(discover([point("bad", source)])).broken["bad"].step


def test_reason_of_a_validator_is_only_its_message(point):
    broken = read_catalog(discover([point("bad", GOOD.format(name="Not a name"))])).broken["bad"].broken
    assert broken.startswith("ValueError: 'name' must match regex")
    assert "Attribute(" not in broken


def test_two_entry_points_with_one_name_are_broken_and_stop_no_other(point):
    one, two = good(point, "swap"), point("swap", GOOD.format(name="other"), module="toy_plugin_other")
    catalog = read_catalog(discover([one, two, good(point, "fine")]))
    assert catalog.names("editor") == ["fine"]
    assert catalog.broken["swap"].broken == (
        "two installed plugins are called 'swap': toy_plugin_swap and toy_plugin_other"
    )
    assert catalog.broken["swap"].step.startswith("uninstall one; its author")


def test_plugin_with_the_name_of_the_core_is_an_error(point):
    core = EntryPoint(name="ke-core", value="ke_core.builtin", group=GROUP)
    with pytest.raises(PluginConflict, match=r"'ke-core': ke_core.builtin and toy_plugin_other"):
        discover([core, point("ke-core", "", module="toy_plugin_other")])


def test_same_distribution_twice_on_the_path_is_no_clash(point):
    assert list(discover([good(point, "swap"), good(point, "swap")]).installed) == ["swap"]


def test_ke_disable_plugins_disables_plugins(point, monkeypatch):
    monkeypatch.setenv("KE_DISABLE_PLUGINS", " bad , worse,")
    points = [point("bad", "raise ValueError"), point("worse", "raise ValueError"), good(point, "fine")]
    plugins = discover(points)
    assert list(plugins.installed) == ["fine"]


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("import os\nimport nowhere_at_all\n", "line 2: import nowhere_at_all"),
        ("import time\ntime.sleep(60)\n", "line 2: time.sleep(60)"),
        ("x =\n", "line 1"),
    ],
    ids=["missing", "hangs", "syntax"],
)
def test_a_broken_plugin_keeps_the_line_that_failed(point, monkeypatch, source, line):
    monkeypatch.setenv("KE_PLUGIN_TIMEOUT", "0.2")
    found = discover([point("ill", source)], disabled=frozenset())
    assert found.broken["ill"].place.endswith(f"toy_plugin_ill.py, {line}")


def test_error_of_the_core_has_no_line_of_the_plugin(point):
    plugins = discover([good(point, "swap"), point("other", GOOD.format(name="swap"))], disabled=frozenset())
    read_catalog(plugins)
    assert plugins.broken["other"].place == ""
