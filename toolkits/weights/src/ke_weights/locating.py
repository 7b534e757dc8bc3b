"""What locate-and-edit methods do alike, so that each one's module holds its own algorithm and nothing else."""

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
    """One edit in the making. What is entered on ``closing`` ends with the edit."""

    session: Session[Any]
    ground: LocateContext
    edits: Sequence[Edit]
    weights: Patch
    closing: ExitStack

    def wanted(self, layer: int, site: Literal["block", "mlp"]) -> EditTargets:
        """What the edits want at ``layer``, on the model as it is now. Raises EditFailed."""
        return self.ground.wanted(self.session, self.edits, layer, site)


class LocateEditor(ABC):
    """An editor that is its ``write``: everything around it is here.

    ``name`` is set by methods that make one edit at a time, for their refusal of more.
    """

    name: ClassVar[str] = ""

    def __init__(self, grounds: LocateContextCache) -> None:
        self.grounds = grounds

    @abstractmethod
    def write(self, work: EditInProgress) -> Details:
        """Write the edits into ``work.weights``; what goes on record. Raises EditFailed if the numbers go wrong."""

    def check(self, session: Session[Any], edits: Sequence[Edit]) -> Mapping[str, str]:
        """Edits without a cloze or a new object, too long, or contradicting an earlier one.

        Without edits: raises a KEError for a model that cannot be edited with these options.
        """
        if not edits:
            self.grounds.look(session)
        return self.grounds.unmakeable(session, edits)

    @contextmanager
    def edit(self, session: Session[Any], edits: Sequence[Edit]) -> Iterator[Edited]:
        """Make ``edits``, on top of those that are open. Raises UnsupportedEdit and EditFailed."""
        if not edits:
            yield PassthroughModel(session)
            return
        if self.name and len(edits) > 1:
            raise UnsupportedEdit(
                f"{self.name} makes one edit at a time, not {len(edits)}", hint="make one after another"
            )
        with self.grounds.under(session, edits) as ground, session.model.patch() as weights, ExitStack() as closing:
            # no name here: what an edit needed is freed while it and later edits are active
            made = self.write(
                EditInProgress(session=session, ground=ground, edits=edits, weights=weights, closing=closing)
            )
            del ground  # it is freed inside its context: Python ignores an interrupt while weak references to it end
            yield PassthroughModel(session, made)
