"""``ke`` run in this process on a toy plugin, with the commands of the toolkits and plugins."""

import pytest

import ke_benchmarks.hookimpls
import ke_plugin_analysis.hookimpls
import ke_plugin_hf
import ke_plugin_openai
import ke_plugin_reproduce.hookimpls
import ke_plugin_serve.hookimpls
import ke_testing.hookimpls
from ke_testing.cli_fixtures import evaluated, ke, toys  # noqa: F401  fixtures
from ke_testing.http_server import publisher  # noqa: F401  a fixture


@pytest.fixture
def plugins():
    return toys(
        ke_testing.hookimpls,
        ke_benchmarks.hookimpls,
        ke_plugin_hf,
        ke_plugin_openai,
        ke_plugin_analysis.hookimpls,
        ke_plugin_reproduce.hookimpls,
        ke_plugin_serve.hookimpls,
    )
