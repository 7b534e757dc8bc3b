"""A source of encoders: ``letters:26`` counts letters. An editor names it in its option ``encoder``."""

from collections.abc import Sequence

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from ke_core.plugin import Encoder, EncoderRequest, EncoderSpec, hookimpl


@frozen(kw_only=True)
class NoOptions:
    """The request holds everything."""


@frozen
class Letters:
    """Counts of the first ``size`` letters of the alphabet."""

    size: int

    @property
    def id(self) -> str:
        """The key under which vectors are cached."""
        return f"letters-{self.size}"

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one row per text."""
        alphabet = "abcdefghijklmnopqrstuvwxyz"[: self.size]
        counts = [[text.lower().count(letter) for letter in alphabet] for text in texts]
        return np.array(counts, dtype=np.float32).reshape(len(texts), self.size)


def build(request: EncoderRequest) -> Encoder:
    """Make the encoder that ``letters:ID`` names."""
    return Letters(int(request.id))


@hookimpl
def ke_encoders() -> list[EncoderSpec]:
    """Offer the source."""
    return [EncoderSpec(name="letters", summary="counts of letters", config=NoOptions, build=build)]
