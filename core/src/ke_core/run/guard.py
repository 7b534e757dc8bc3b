"""The runner's own check that an editor gives the model back as it found it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from ke_core.errors import WeightsNotRestored
from ke_core.protocols import LanguageModel

NAMED = 5


@contextmanager
def untouched(model: LanguageModel, before: Mapping[str, object] | None = None) -> Iterator[None]:
    """Raise WeightsNotRestored if ``model`` leaves the context other than it was, also after an exception.

    ``before`` is its state on the way in, where the caller knows it: reading all weights takes time.
    """
    found = model.state() if before is None else before
    try:
        yield
    finally:
        changed = _changed(found, model.state())
        if changed:
            more = f" and {len(changed) - NAMED} more" if len(changed) > NAMED else ""
            raise WeightsNotRestored(
                f"the editor left the model changed: {', '.join(changed[:NAMED])}{more}",
                hint="what was asked before is recorded; the method must undo what it does when its context ends",
            )


def _changed(before: Mapping[str, object], after: Mapping[str, object]) -> list[str]:
    names = (*before, *(name for name in after if name not in before))
    absent = object()
    return [name for name in names if before.get(name, absent) != after.get(name, absent)]
