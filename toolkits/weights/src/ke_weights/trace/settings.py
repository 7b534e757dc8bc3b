"""What is traced, and the record of one fact. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from attrs import field, frozen, validators

Restored = Literal["states", "mlp", "attention"]
Part = Literal["mlp", "attention"]
Positions = Literal["all", "subject-last"]
Filter = Literal["published", "first-token"]
PARTS: tuple[Part, ...] = ("mlp", "attention")
SURE = 0.1  # minimum probability of the answer of a known fact (filter first-token)


@frozen
class Curve:
    """One kind of intervention: what is restored to its clean value, and what is held at its corrupted one.

    ``states``: the output of one block. ``mlp``, ``attention``: that module's output in a window of blocks.
    """

    restored: Restored
    severed: Part | None = None

    @property
    def name(self) -> str:
        """``states``, ``mlp``, ``attention``, ``severed-mlp`` or ``severed-attention``."""
        return f"severed-{self.severed}" if self.severed else self.restored

    def window(self, layer: int, blocks: int, width: int) -> range:
        """Return the blocks to restore for ``layer``: the window around it, narrower at the borders."""
        return range(max(0, layer - width // 2), min(blocks, layer - width // 2 + width))


@frozen(kw_only=True)
class TraceSettings:
    """The published values, except for ``filter``.

    ``noise``: ``s3`` (three standard deviations of the embeddings of all subjects), a number (that standard deviation)
    or ``u0.1`` (uniform between -0.1 and 0.1). ``exact``: one forward pass per intervention.
    """

    kinds: tuple[Restored, ...] = ("states", "mlp", "attention")
    sever: tuple[Part, ...] = ("mlp",)
    tokens: Positions = "all"
    filter: Filter = "first-token"
    noise: str = "s3"
    samples: int = field(default=10, validator=validators.ge(1))
    window: int = field(default=10, validator=validators.ge(1))
    seed: int = field(default=1, validator=validators.in_(range(2**32)))
    exact: bool = False

    @property
    def curves(self) -> tuple[Curve, ...]:
        """Every kind of intervention to trace."""
        return (*map(Curve, self.kinds), *(Curve("states", part) for part in self.sever))


@frozen(kw_only=True)
class FactTrace:
    """One fact of the file, traced or skipped.

    Field names are those of the published files. ``scores``: by curve, for each of ``tokens`` (positions in
    ``input_ids``), the probability of ``answer`` with the fact restored at each layer, not the difference to
    ``low_score``. A skipped fact has a ``skipped`` reason and neither low score nor scores.
    """

    known_id: str
    subject: str
    prompt: str
    attribute: str
    answer: str
    correct_prediction: bool
    high_score: float
    low_score: float | None = None
    input_ids: tuple[int, ...] = ()
    input_tokens: tuple[str, ...] = ()
    subject_range: tuple[int, int] = (0, 0)
    tokens: tuple[int, ...] = ()
    scores: Mapping[str, tuple[tuple[float, ...], ...]] = field(factory=dict)
    skipped: str = ""
