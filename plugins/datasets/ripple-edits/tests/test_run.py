"""A whole evaluation of our record: conditions go to the unedited model, and what it says reaches the metric.

Acceptance checks 6 and 14 of the protocol, and the way of ``Probe.given`` through the runner.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from attrs import frozen

from ke_core.engine.direct import Direct
from ke_core.plugin import Generate, Value
from ke_core.plugins.catalog import Catalog, read
from ke_core.plugins.manager import discover
from ke_core.results.folder import RunFolder
from ke_core.run.evaluation import EvalRequest, prepare, run
from ke_core.run.session import ModelChoice
from ke_core.testing.fakes import EchoModel, Silence, cut

KNOWN = {
    "The name of the spouse of Al Dun is": "Ada Moe",
    "The name of the child of Bea Dun is": "Cy",
    "The gender of Al Dun is": "male",
}
EDITED = {
    "The name of the spouse of Al Dun is": "Bea Dun",
    "The name of the spouse of Bea Dun is": "someone",
    "The name of the child of the spouse of Al Dun is": "Cy",
    "The name of the spouse of Al X is": "Bea Dun",
}


class Couple(EchoModel):
    """Knows some sentences; ``log`` keeps what it was asked, and whether it was edited then."""

    def __init__(self) -> None:
        self.facts = dict(KNOWN)
        self.log: list[tuple[bool, str]] = []

    def generate(self, requests: Sequence[Generate]) -> list[Any]:
        self.log += [(self.facts != KNOWN, request.prompt) for request in requests]
        return [cut(f" {self.facts.get(request.prompt, 'nobody')} and so on", request) for request in requests]
