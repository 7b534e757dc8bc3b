"""``ke`` run in this process on a toy plugin."""

import pytest

import ke_plugin_hf
import ke_weights.hookimpls
from ke_testing.cli_fixtures import evaluated, ke, toys  # noqa: F401  fixtures


@pytest.fixture
def plugins():
    return toys(ke_plugin_hf, ke_weights.hookimpls)
