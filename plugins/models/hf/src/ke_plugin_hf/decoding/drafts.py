"""Prompt lookup decoding: guess the next tokens of rows from their own texts, and check all guesses in one pass.

A guess is what followed the last earlier occurrence of the row's last ``NGRAM`` tokens (Saxena 2023,
github.com/apoorvumang/prompt-lookup-decoding). A pass that reads the guessed tokens shows what the model generates
after each of them. Every token is still chosen from the model's own logits, and the guesses after a wrong one are
discarded. Guesses are right where a text repeats: small models often do until they reach the limit, and answers copy
from their prompts.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from attrs import define, field

NGRAM = 3
LENGTHS = (0, 2, 4, 8, 15)
"""The numbers of tokens that may be guessed."""
FIXED = {"cpu": 16, "cuda": 256}
"""The time of a pass that does not depend on its tokens (reading the weights), as a number of tokens."""
FULL = 4  # maximum rows for guesses, as a multiple of FIXED: with more, reading the weights is a small part of a pass
MEMORY = 32  # steps after which a row without guesses is tried again: a text may begin to repeat itself


@define(eq=False)
class Drafter:
    """Guesses for one row, and how often they were right: ``_right`` of ``_checked`` tokens, later ones weigh more."""

    _right: float = field(default=1.0, init=False)
    _checked: float = field(default=2.0, init=False)
    _ends: dict[tuple[int, ...], int] = field(factory=dict, init=False)
    _indexed: int = field(default=NGRAM, init=False)

    def guess(self, ids: Sequence[int], most: int) -> list[int]:
        """Return at most ``most`` tokens after ``ids``, the text of the row so far, which only grows between calls."""
        self._right += (1.0 - self._right) / MEMORY
        self._checked += (2.0 - self._checked) / MEMORY
        for end in range(self._indexed, len(ids)):
            self._ends[tuple(ids[end - NGRAM : end])] = end
        self._indexed = max(self._indexed, len(ids))
        start = self._ends.get(tuple(ids[-NGRAM:]))
        if start is None:
            return []
        text = list(ids)
        for place in range(start, start + most):
            text.append(text[place])  # a text that repeats itself continues in the guess
        return text[len(ids) :]

    def expected(self, length: int) -> float:
        """Return the expected number of right tokens in a guess of that length: the sum of p^i for i = 1 ... length."""
        right = self._right / self._checked
        return right * (1 - right**length) / (1 - right) if right < 1 else length

    def checked(self, guessed: int, right: int) -> None:
        """Record how many of the guessed tokens were right. Those after the first wrong one were not checked."""
        self._right = self._right / 2 + right
        self._checked = self._checked / 2 + min(guessed, right + 1)


def worthwhile(rows: int, device: torch.device) -> bool:
    """Return whether guesses for so many rows can save time."""
    return rows <= FULL * FIXED.get(device.type, FIXED["cpu"])


def best_length(drafters: Sequence[Drafter], guesses: Sequence[Sequence[int]], device: torch.device) -> int:
    """Return how many tokens each row reads after its next one, to generate the most tokens per unit of time."""
    fixed, rows = FIXED.get(device.type, FIXED["cpu"]), len(drafters)

    def rate(length: int) -> float:
        pairs = zip(drafters, guesses, strict=True)
        right = sum(drafter.expected(min(length, len(guess))) for drafter, guess in pairs if guess)
        return (rows + right) / (fixed + rows * (1 + length))

    return max(LENGTHS, key=rate)
