"""What an editor and its edited models may be able to do beside what each must."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from ke_core.data.results import Reply
from ke_core.protocols import Ask, Edited, Session
from ke_core.requests import Procedure


@runtime_checkable
class SupportsConcurrentSolve(Edited, Protocol):
    """An edited model that leaves the model as it is, so that several stand side by side and are asked together.

    Its ``answer`` is ``session.engine.answer(self.solve, asks)``.
    """

    def solve(self, ask: Ask) -> Procedure[Reply]:
        """The way to answer one ask."""
        ...


@runtime_checkable
class SupportsSave(Edited, Protocol):
    """An edited model that can be saved and loaded again by the ``load`` of its editor's specification.

    It takes further edits with ``change(add=...)``, so that one file holds the edits of a whole sequence.
    """

    def save(self, path: Path) -> None:
        """Write everything that the editor added to the model to the file ``path``."""
        ...


@runtime_checkable
class HasDependencies(Protocol):
    """An editor whose answers rest on more than its options say: the encoder of a name, a network trained before."""

    def rests_on(self, session: Session[Any]) -> Mapping[str, str]:
        """Digests by name, part of a run's specification: a run does not go on with others."""
        ...
