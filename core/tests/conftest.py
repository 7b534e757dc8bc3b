"""What tests of several folders share."""

import signal

import pytest


@pytest.fixture
def interruptible():
    """Ctrl-C as in a terminal: a job in the background inherits that it is ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def nothing_kept(monkeypatch):
    """No model of another test keeps anything that could be given up when memory runs out."""
    monkeypatch.setattr("ke_core.models.local.memory.KEEPERS", set())
