"""What an editor implements that trains a network before it edits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from attrs import field, frozen

from ke_core.spec.facts import Edit
from ke_core.spec.protocols import Session


@frozen(kw_only=True)
class TrainStep:
    """One step of an optimizer. ``step`` counts from 1, resumed trainings included; ``loss`` is what is minimized.

    ``numbers``: what else is worth a curve, by name.
    """

    step: int
    loss: float
    numbers: Mapping[str, float] = field(factory=dict)


class Training(Protocol):
    """A training between two steps. Equal recipes, examples and seeds give equal steps, also after a resumption."""

    def advance(self) -> TrainStep:
        """Take one step. Raises EditFailed where the numbers go wrong."""
        ...

    def tensors(self) -> Mapping[str, Any]:
        """NumPy arrays by name: all that the next step and an editor need, optimizers' states included."""
        ...

    def finished(self) -> bool:
        """Whether it has had its own number of steps, if it has one: then it ends before the time does."""
        ...


@runtime_checkable
class Trainer(Protocol):
    """Trains what an editor needs before it can edit: a hypernetwork, a scope detector.

    The core keeps the time, draws the curve and writes the checkpoints (``ke train``).
    """

    def place(self, session: Session[Any]) -> Mapping[str, Any]:
        """Whom the result fits, as JSON values, e.g. ``{"model": digest}``: one folder each, unless told otherwise."""
        ...

    def recipe(self, session: Session[Any]) -> Mapping[str, Any]:
        """Every setting that the result depends on, as JSON values, defaults resolved."""
        ...

    def start(
        self, session: Session[Any], examples: Sequence[TrainingExample], saved: Mapping[str, Any] | None
    ) -> Training:
        """Begin, or go on from the arrays that ``tensors`` gave. Raises BadData where the examples do not do."""
        ...


@frozen(kw_only=True)
class TrainingExample:
    """An edit, other wordings of what it answers, and prompts whose answers it must leave alone.

    ``paraphrases`` may be questions. An edit that was read as a bare statement has no cloze.
    """

    edit: Edit
    paraphrases: tuple[str, ...] = ()
    locality: tuple[str, ...] = ()
