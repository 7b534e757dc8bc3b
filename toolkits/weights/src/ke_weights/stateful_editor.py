"""The frame of an editor whose edited model takes further edits and can be saved."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Protocol

from ke_core.plugin import Edit, Edited, Session
from ke_plugin_hf.model import HFModel
from ke_weights.rewrites import unsupported_edits
from ke_weights.subject import edit_room


class RestorableEdited(Edited, Protocol):
    """An edited model that continues from a file."""

    def restore(self, path: Path) -> None:
        """Continue from a file of ``save``. Raises BadData if it does not fit."""


class StatefulEditor(ABC):
    """An editor that opens a model without edits, then learns edits or restores saved ones."""

    @abstractmethod
    def resolve(self, session: Session[HFModel]) -> Any:
        """Return hyperparameters and layers. Raises a KEError for a model that cannot be edited with these options."""

    @abstractmethod
    def opened(self, session: Session[HFModel]) -> AbstractContextManager[RestorableEdited]:
        """Open the edited model without edits."""

    def room(self, model: HFModel) -> int:
        """Return the maximum number of tokens of prompt and target, in addition to those of the chat format."""
        return edit_room(model)

    def check(self, session: Session[Any], edits: Sequence[Edit]) -> Mapping[str, str]:
        """Refuse edits without a prompt or a new object, too long, or contradicting an earlier one.

        Without edits: raise the errors of ``resolve``.
        """
        if not edits:
            self.resolve(session)
        return unsupported_edits(edits, session.model.tokenizer, self.room(session.model))

    @contextmanager
    def edit(self, session: Session[HFModel], edits: Sequence[Edit]) -> Iterator[Edited]:
        """Open the model and learn ``edits``. Raises UnsupportedEdit and EditFailed."""
        with self.opened(session) as edited:
            edited.change(add=edits)
            yield edited

    @contextmanager
    def load(self, session: Session[HFModel], path: Path) -> Iterator[Edited]:
        """Continue with an edited model that was saved. Raises BadData if the file does not fit."""
        with self.opened(session) as edited:
            edited.restore(path)
            yield edited
