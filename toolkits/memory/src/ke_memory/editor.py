"""Base classes of memory editors: the model is unchanged, and a memory holds the statements of the edits.

A method implements ``solve``, a procedure over that memory.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from ke_core.plugin import Details, Edit, Edited, EditorRequest, Procedure, Reply, Session
from ke_memory.memory import FactMemory


class MemoryEditedModel(ABC):
    """An edited model: the session's model, and ``memory`` with the statements of the active edits.

    ``memory``: an empty memory to use instead of a ``FactMemory`` with the encoder of that name.
    """

    def __init__(
        self, session: Session[Any], edits: Sequence[Edit], *, encoder: str = "", memory: FactMemory | None = None
    ) -> None:
        self.session = session
        self.memory = FactMemory(session.encoder(encoder)) if memory is None else memory
        self.change(add=edits)

    @abstractmethod
    def solve(self, request: EditorRequest) -> Procedure[Reply]:
        """Answer one request with the method."""

    @property
    def details(self) -> Details:
        """Size and encoder of the memory. A method adds what its answers depend on."""
        return {"facts": len(self.memory), "encoder": self.memory.encoder.id}

    def answer(self, requests: Sequence[EditorRequest]) -> list[Reply]:
        """Return one reply per request, in order; all advance concurrently."""
        return self.session.engine.answer(self.solve, requests)

    def change(self, *, add: Sequence[Edit] = (), remove: Sequence[str] = ()) -> None:
        """Remove facts and append others, in the given order."""
        self.memory.change(add=((edit.id, edit.statement) for edit in add), remove=remove)


class MemoryEditor(ABC):
    """A memory editor, defined by ``edited_model``, which builds the edited model from ``config``, the options."""

    config: Any

    @property
    def encoder(self) -> str | None:
        """Name of the sentence encoder that answers depend on, the option ``encoder``; None without retrieval."""
        return getattr(self.config, "encoder", None)

    @abstractmethod
    def edited_model(self, session: Session[Any], edits: Sequence[Edit]) -> Edited:
        """Return the edited model. Raises BadConfig for an unsuitable option."""

    def check(self, session: Session[Any], edits: Sequence[Edit]) -> Mapping[str, str]:
        """Return no refused edits: a statement is enough, and every edit has one.

        Without edits: raise BadConfig as ``edited_model`` does.
        """
        if not edits:
            self.edited_model(session, ())
        return {}

    def dependencies(self, session: Session[Any]) -> Mapping[str, str]:
        """Return the digest of the encoder, if there is one."""
        return {} if self.encoder is None else {"encoder": session.encoder(self.encoder).id}

    def edit(self, session: Session[Any], edits: Sequence[Edit]) -> AbstractContextManager[Edited]:
        """Return a context with the edited model. The session's model is unchanged, so exit does nothing."""
        return nullcontext(self.edited_model(session, edits))
