"""What a memory editor puts on record of its look-ups."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve

from ke_core.plugin import Hit, Step


def looked_up(text: str, hits: Sequence[Hit], *, kind: str = "subquestion") -> Step:
    """What was asked of the memory, and what it gave, best first."""
    return Step(
        kind=kind,
        text=text,
        retrieved=tuple(hit.id for hit in hits),
        scores=tuple(hit.score for hit in hits),
    )


def answered(steps: Sequence[Step], answer: str) -> list[Step]:
    """``steps``, the last of them with what the method took for its answer."""
    return [*steps[:-1], evolve(steps[-1], answer=answer)] if steps else []
