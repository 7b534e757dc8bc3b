"""What tests of several folders share."""

import signal

import pytest


@pytest.fixture
def interruptible():
    """Ctrl-C as in a terminal: a job in the background inherits that it is ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
