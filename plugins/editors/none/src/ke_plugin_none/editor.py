"""The unedited model with the benchmark's own prompts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ke_core.plugin import Edit, Edited, PassthroughModel, Session


class Unedited(PassthroughModel):
    """Sends requests to the model directly, whatever the edits."""

    def change(self, *, add: Sequence[Edit] = (), remove: Sequence[str] = ()) -> None:
        """Do nothing."""


class Unchanged:
    """Editor that makes no edits."""

    def check(self, session: Session[Any], edits: Sequence[Edit]) -> Mapping[str, str]:
        """Refuse no edit."""
        del session, edits
        return {}

    @contextmanager
    def edit(self, session: Session[Any], edits: Sequence[Edit]) -> Iterator[Edited]:
        """Return the unedited model."""
        del edits
        yield Unedited(session)
