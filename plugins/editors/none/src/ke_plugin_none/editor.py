"""The model as it is, asked with the benchmark's own prompts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ke_core.plugin import Edit, Edited, PassthroughModel, Session


class Unedited(PassthroughModel):
    """Asks the model directly. Edits may come and go: it knows of none."""

    def change(self, *, add: Sequence[Edit] = (), remove: Sequence[str] = ()) -> None:
        """Nothing to do."""


class Unchanged:
    """Edits nothing."""

    def check(self, session: Session[Any], edits: Sequence[Edit]) -> Mapping[str, str]:
        """Every edit can be left unmade."""
        del session, edits
        return {}

    @contextmanager
    def edit(self, session: Session[Any], edits: Sequence[Edit]) -> Iterator[Edited]:
        """Nothing is done, so there is nothing to undo."""
        del edits
        yield Unedited(session)
