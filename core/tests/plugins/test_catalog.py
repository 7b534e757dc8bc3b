"""Names to specs: clashes name both sides, unknown names get the word to type or the command to run."""

import pytest
from attrs import evolve, frozen

from ke_core.plugin import DatasetSpec, EditorSpec, hookimpl
from ke_core.plugins.catalog import read_catalog
from ke_core.plugins.directory import directory_entries
from ke_core.plugins.manager import Installed, discover, empty_manager
from ke_core.spec.component import NAME_PATTERN
from ke_core.spec.errors import PluginBroken, PluginConflict, UnknownComponent


@frozen
class Config:
    pass


def plugin(*editors, datasets=()):
    class Plugin:
        @hookimpl
        def ke_editors(self):
            return [EditorSpec(name=name, summary=name, config=Config, build=lambda config: None) for name in editors]

        @hookimpl
        def ke_datasets(self):
            return [DatasetSpec(name=name, summary=name, config=Config, build=lambda config: None) for name in datasets]

    return Plugin()


def catalog(**brought):
    plugins = empty_manager()
    for name, object_ in brought.items():
        plugins.register(object_, name)
    return read_catalog(plugins)


def hint(found, kind, name):
    with pytest.raises(UnknownComponent, match=f"no {kind} called '{name}'") as caught:
        found.spec(kind, name)
    return caught.value.hint


def test_component_is_found_by_kind_and_name():
    found = catalog(one=plugin("swap"))
    assert found.spec("editor", "swap").summary == "swap"
    assert found.registration("editor", "swap").plugin.name == "one"
    assert [(kind, spec.name) for kind, spec in found.of("one")] == [("editor", "swap")]


def clash(found, name="swap"):
    with pytest.raises(PluginConflict) as caught:
        found.spec("editor", name)
    return caught.value


def test_name_clash_is_an_error_that_names_both_plugins():
    found = catalog(one=plugin("swap", "keep"), two=plugin("swap", "other"), three=plugin("fine"))
    assert clash(found).message == "editor 'swap' is registered by one and by two"
    assert found.names("editor") == ["fine", "keep", "swap"]
    assert found.spec("editor", "keep").name == "keep"


def test_plugin_with_a_taken_name_is_broken():
    broken = catalog(one=plugin("swap"), two=plugin("swap")).broken
    assert list(broken) == ["two"]
    assert broken["two"].broken == "editor 'swap' is registered by one and by two"
    assert broken["two"].step == (
        "uninstall two, or leave it out with KE_DISABLE_PLUGINS=two; its author must choose another name"
    )


def test_plugin_in_the_directory_wins_a_name_clash():
    plugins = empty_manager()
    for name in ("ke-plugin-thief", "ke-plugin-memit"):
        plugins.register(plugin("memit"), name)
        plugins.installed[name] = evolve(plugins.installed[name], distribution=name)
    assert list(read_catalog(plugins).broken) == ["ke-plugin-thief"]


def test_plugin_that_registers_a_name_twice_is_broken():
    assert clash(catalog(one=plugin("swap", "swap"))).message == "editor 'swap' is registered twice by one"


def test_two_kinds_can_share_a_name():
    found = catalog(one=plugin("swap", datasets=["swap"]))
    assert found.names("editor") == found.names("dataset") == ["swap"]


def test_hint_suggests_a_similar_installed_name():
    assert hint(catalog(one=plugin("swapper")), "editor", "swaper") == "did you mean 'swapper'?"
    assert hint(catalog(), "editor", "memit,ice") == "repeat the option for each: --editor memit --editor ice"


def test_hint_has_the_pip_command_of_a_known_name():
    assert hint(catalog(), "dataset", "mquake-cf-3k") == "pip install ke-plugin-mquake"


def test_hint_suggests_a_similar_known_name_and_its_pip_command():
    assert hint(catalog(), "dataset", "mquake-cf3k") == "did you mean 'mquake-cf-3k'? pip install ke-plugin-mquake"


def test_hint_lists_installed_names():
    found = catalog(one=plugin("swap"))
    assert hint(found, "editor", "xyzzy") == "installed editors: swap; ke plugins search lists more"


def test_component_of_a_broken_plugin_is_an_error_with_the_reason():
    plugins = empty_manager()
    plugins.installed["ke-plugin-mquake"] = Installed(
        name="ke-plugin-mquake", module="m", distribution="ke-plugin-mquake", broken="ImportError: no orjson"
    )
    with pytest.raises(PluginBroken, match=r"plugin ke-plugin-mquake is broken \(ImportError: no orjson\)") as caught:
        read_catalog(plugins).spec("dataset", "mquake-cf-3k")
    assert "pip install --force-reinstall ke-plugin-mquake" in caught.value.hint


def test_the_directory_is_well_formed():
    assert len({(entry.kind, entry.name) for entry in directory_entries()}) == len(directory_entries())
    for entry in directory_entries():
        assert NAME_PATTERN.match(entry.name), entry
        assert entry.distribution.startswith("ke-plugin-" if entry.kind != "command" else "ke-"), entry
        assert entry.summary
        assert entry.kind in {"editor", "wrapper", "dataset", "metric", "judge", "command"}


def test_directory_agrees_with_installed_plugins():
    said = {(entry.kind, entry.name): entry.distribution for entry in directory_entries()}
    found = read_catalog(discover(disabled=frozenset()))
    for kind, registrations in found.registrations.items():
        for name, registration in registrations.items():
            if (kind, name) in said:
                assert said[kind, name] == registration.plugin.distribution
