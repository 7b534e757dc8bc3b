"""Silence for a library that talks while it loads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quiet() -> Iterator[None]:
    """Have transformers say nothing inside: what matters is raised, and progress is the command line's."""
    from transformers.utils import logging  # noqa: PLC0415  seconds, and light modules import this one

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
