"""What memory editors do alike: the model stays as it is, and a memory of the edits' statements stands beside it.

A method is a procedure over that memory, ``solve``; everything around it is here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from ke_core.plugin import Ask, Details, Edit, Edited, Procedure, Reply, Session
from ke_memory.memory import FactMemory


class MemoryEditedModel(ABC):
    """An edited model: the session's model, and ``memory`` with the statements of the edits in force.

    ``memory``: an empty one of the method's own kind; without it, a ``FactMemory`` on the encoder of that name.
    """

    def __init__(
        self, session: Session[Any], edits: Sequence[Edit], *, encoder: str = "", memory: FactMemory | None = None
    ) -> None:
        self.session = session
        self.memory = FactMemory(session.encoder(encoder)) if memory is None else memory
        self.change(add=edits)

    @abstractmethod
    def solve(self, ask: Ask) -> Procedure[Reply]:
        """The method's way to answer one ask."""

    @property
    def details(self) -> Details:
        """What the memory holds; a method adds to it what made its answers."""
        return {"facts": len(self.memory), "encoder": self.memory.encoder.id}

    def answer(self, asks: Sequence[Ask]) -> list[Reply]:
        """One reply an ask, in order; all advance together."""
        return self.session.engine.answer(self.solve, asks)

    def change(self, *, add: Sequence[Edit] = (), remove: Sequence[str] = ()) -> None:
        """Take facts out of the memory and put others in, in their order (M3: never that of a set)."""
        self.memory.change(add=((edit.id, edit.statement) for edit in add), remove=remove)


class MemoryEditor(ABC):
    """An editor whose edited model is ``remembering``."""

    @property
    def encoder(self) -> str | None:
        """Name of the sentence encoder that answers rest on; None where nothing is looked up."""
        return None

    @abstractmethod
    def remembering(self, session: Session[Any], edits: Sequence[Edit]) -> Edited:
        """The edited model. Raises BadConfig where an option does not fit."""

    def check(self, session: Session[Any], edits: Sequence[Edit]) -> Mapping[str, str]:
        """Every edit has a statement, and that is all it takes. Without edits: raises BadConfig as ``remembering``."""
        if not edits:
            self.remembering(session, ())
        return {}

    def dependencies(self, session: Session[Any]) -> Mapping[str, str]:
        """The encoder, where there is one."""
        return {} if self.encoder is None else {"encoder": session.encoder(self.encoder).id}

    def edit(self, session: Session[Any], edits: Sequence[Edit]) -> AbstractContextManager[Edited]:
        """The model is not touched, so there is nothing to give back."""
        return nullcontext(self.remembering(session, edits))
