"""A source of sentence encoders: ``letters:26`` counts letters. Select it with an editor's option ``encoder``."""

from collections.abc import Sequence

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from ke_core.plugin import Encoder, EncoderRequest, EncoderSpec, hookimpl


@frozen
class Letters:
    """Counts of the first ``size`` letters of the alphabet."""

    size: int

    @property
    def id(self) -> str:
        """Return the cache key of the vectors."""
        return f"letters-{self.size}"

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one row per text."""
        alphabet = "abcdefghijklmnopqrstuvwxyz"[: self.size]
        counts = [[text.lower().count(letter) for letter in alphabet] for text in texts]
        return np.array(counts, dtype=np.float32).reshape(len(texts), self.size)


def build(request: EncoderRequest) -> Encoder:
    """Build the encoder ``letters:ID``."""
    return Letters(int(request.id))


@hookimpl
def ke_encoders() -> list[EncoderSpec]:
    """Register the source."""
    return [EncoderSpec(name="letters", summary="counts of letters", build=build)]
