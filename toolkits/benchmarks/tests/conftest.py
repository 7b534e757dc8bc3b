"""``ke`` run in this process on a toy plugin."""

import pytest

import ke_benchmarks.hookimpls
from ke_testing.cli_fixtures import evaluated, ke, toys  # noqa: F401  fixtures
from ke_testing.http_server import publisher  # noqa: F401  a fixture


@pytest.fixture
def plugins():
    return toys(ke_benchmarks.hookimpls)
