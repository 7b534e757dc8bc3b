"""Published tables of plugins are listed, checked, and refused if invalid."""

from pathlib import Path

import pytest

import ke_plugin_reproduce.hookimpls
import ke_testing.hookimpls
from ke_benchmarks import ReproductionSpec
from ke_core.plugin import hookimpl
from ke_testing.cli_fixtures import toys


@pytest.fixture
def plugins():
    return toys(ke_plugin_reproduce.hookimpls, ke_testing.hookimpls)


class OffersNoTable:
    @hookimpl(optionalhook=True)
    def ke_reproductions(self):
        return ["x"]


def test_an_invalid_table_is_reported_with_the_next_step(ke, plugins):
    plugins.register(OffersNoTable(), "bad")
    assert ke("reproduce", "list") == (0, "", "nothing to list\n")
    out = " ".join(ke("plugins")[1].split())
    assert "ke_reproductions returned 'x' in its list" in " ".join(plugins.broken["bad"].broken.split())
    assert out


TABLE = (Path(__file__).parents[4] / "docs/examples/reproduction.py").read_text(encoding="utf-8").split('"""')[3]


@pytest.mark.parametrize(
    ("text", "status", "expected"),
    [
        (TABLE, 0, "further checks: 1 passed"),
        ("x", 1, "failed: teams/table-1 can be read found: teams/table-1 is not TOML"),
    ],
)
def test_plugins_check_includes_published_tables(ke, plugins, text, status, expected):
    class Tables:
        @hookimpl(optionalhook=True)
        def ke_reproductions(self):
            return [ReproductionSpec(name="teams/table-1", text=lambda: text)]

    plugins.register(Tables(), "tables")
    assert "hook ke_reproductions" in " ".join(ke("plugins")[1].split())
    ended, out, _err = ke("plugins", "check", "tables")
    assert ended == status
    assert expected in " ".join(out.split())
