"""Base class of locate-and-edit methods: a subclass holds only its algorithm."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, ClassVar, Literal

from attrs import frozen

from ke_core.plugin import Details, Edit, Edited, PassthroughModel, Session, UnsupportedEdit
from ke_plugin_hf.guard import Patch
from ke_weights.locate import EditTargets, LocateContext, LocateContextCache


@frozen(kw_only=True, eq=False)
class EditInProgress:
    """Everything that ``LocateEditor.write`` needs. Contexts entered on ``closing`` are left when the edit ends."""

    session: Session[Any]
    context: LocateContext
    edits: Sequence[Edit]
    weights: Patch
    closing: ExitStack

    def edit_targets(self, layer: int, site: Literal["block", "mlp"]) -> EditTargets:
        """Optimize the targets of the edits at ``layer`` of the current model. Raises EditFailed."""
        return self.context.edit_targets(self.session, self.edits, layer, site)


class LocateEditor(ABC):
    """An editor defined by its ``write`` method.

    Set ``name`` if the method makes one edit at a time: the error message for a larger batch uses it.
    """

    name: ClassVar[str] = ""

    def __init__(self, contexts: LocateContextCache) -> None:
        self.contexts = contexts

    @abstractmethod
    def write(self, work: EditInProgress) -> Details:
        """Write the edits into ``work.weights``. Return details for the record. Raises EditFailed."""

    def check(self, session: Session[Any], edits: Sequence[Edit]) -> Mapping[str, str]:
        """Return the edits that cannot be made, by id, with the reason.

        Without edits: raise a KEError if the model cannot be edited with these options.
        """
        if not edits:
            self.contexts.check_model(session)
        return self.contexts.unsupported_edits(session, edits)

    @contextmanager
    def edit(self, session: Session[Any], edits: Sequence[Edit]) -> Iterator[Edited]:
        """Make ``edits`` in addition to those that are active. Raises UnsupportedEdit and EditFailed."""
        if not edits:
            yield PassthroughModel(session)
            return
        if self.name and len(edits) > 1:
            raise UnsupportedEdit(
                f"{self.name} makes one edit at a time, not {len(edits)}", hint="make one after another"
            )
        with self.contexts.open(session, edits) as context, session.model.patch() as weights, ExitStack() as closing:
            # no name here: what an edit needed is freed while it and later edits are active
            made = self.write(
                EditInProgress(session=session, context=context, edits=edits, weights=weights, closing=closing)
            )
            del context  # it is freed inside its context: Python ignores an interrupt while weak references to it end
            yield PassthroughModel(session, made)
