"""Interfaces of editors that must be trained before they edit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from attrs import field, frozen

from ke_core.plugin import Edit, Session


@frozen(kw_only=True)
class TrainStep:
    """One step of an optimizer. ``step`` counts from 1 and continues when training resumes.

    ``loss``: the minimized value. ``numbers``: other values to plot, by name.
    """

    step: int
    loss: float
    numbers: Mapping[str, float] = field(factory=dict)


class Training(Protocol):
    """A training between two steps. Equal recipes, examples and seeds give equal steps, also after resuming."""

    def advance(self) -> TrainStep:
        """Take one step. Raises EditFailed if the loss is not finite."""

    def tensors(self) -> Mapping[str, Any]:
        """Return NumPy arrays by name: everything that the next step and the editor need, optimizer state included."""

    def finished(self) -> bool:
        """Return whether the training has reached its own limit of steps, if it has one."""


@runtime_checkable
class Trainer(Protocol):
    """Trains what an editor needs before it can edit: a hypernetwork, a scope detector.

    ``ke train`` keeps the time, draws the curve and writes the checkpoints.
    """

    def place(self, session: Session[Any]) -> Mapping[str, Any]:
        """Return what the result is valid for, as JSON values, such as ``{"model": digest}``. Each has its folder."""

    def recipe(self, session: Session[Any]) -> Mapping[str, Any]:
        """Return every setting that the result depends on, as JSON values with defaults resolved."""

    def start(
        self, session: Session[Any], examples: Sequence[TrainingExample], saved: Mapping[str, Any] | None
    ) -> Training:
        """Start, or resume from the arrays of ``tensors``. Raises BadData if the examples are not sufficient."""


@frozen(kw_only=True)
class TrainingExample:
    """An edit, paraphrases of its prompt, and prompts whose answers must not change.

    ``paraphrases`` may be questions. An edit that is only a statement has no cloze.
    """

    edit: Edit
    paraphrases: tuple[str, ...] = ()
    locality: tuple[str, ...] = ()
