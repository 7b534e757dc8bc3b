"""What an editor computes for the first edit of a model, and uses for further edits while that one is active."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Generic, TypeVar

from attrs import define, field

from ke_core.plugin import uninterruptible_context

T = TypeVar("T")


@define(eq=False)
class OpenModels(Generic[T]):
    """One value for each model that has an active edit."""

    _values: dict[int, T] = field(factory=dict, init=False)

    def __contains__(self, model: object) -> bool:
        return id(model) in self._values

    def __bool__(self) -> bool:
        return bool(self._values)

    def opened(self, model: object, make: Callable[[], T]) -> AbstractContextManager[T]:
        """Return a context with the value of ``model``. The outermost one makes it, and forgets it at its end."""
        return nullcontext(self._values[id(model)]) if model in self else self._kept(id(model), make())

    @uninterruptible_context
    def _kept(self, key: int, value: T) -> Iterator[T]:
        self._values[key] = value
        try:
            yield value
        finally:
            del self._values[key]
