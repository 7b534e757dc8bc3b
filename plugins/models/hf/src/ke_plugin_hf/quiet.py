"""Hide the messages that transformers prints while it loads a model."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from ke_core.plugin import uninterruptible_context


def quiet() -> AbstractContextManager[None]:
    """Hide messages and progress bars of transformers and the hub, except with ``ke --verbose``."""
    if logging.getLogger().isEnabledFor(logging.INFO):
        return nullcontext()
    from huggingface_hub.utils import logging as hub  # noqa: PLC0415  light modules import this one
    from transformers.utils import logging as ours  # noqa: PLC0415  seconds

    return _quiet(hub, ours)


@uninterruptible_context
def _quiet(hub: Any, ours: Any) -> Iterator[None]:
    bars = ours.is_progress_bar_enabled()
    levels = [(speaker, speaker.get_verbosity()) for speaker in (ours, hub)]
    for speaker, _level in levels:
        speaker.set_verbosity_error()
    ours.disable_progress_bar()
    try:
        yield
    finally:
        for speaker, level in levels:
            speaker.set_verbosity(level)
        if bars:
            ours.enable_progress_bar()
