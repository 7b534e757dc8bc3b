"""One row's continuation as text: decoded as it grows, ended at the first stop string."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from attrs import define, field

ANCHOR = 4  # prompt tokens decoded along, since some decoders drop a space at the beginning of what they are given
SLACK = 8


def decode(tokenizer: Any, ids: Sequence[int]) -> str:
    """Text of ``ids`` as written: special tokens left out, no spaces tidied away."""
    text: str = tokenizer.decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False)
    return text


@define
class Continuation:
    """What a row has written. ``stops`` are matched on decoded text, so they may straddle tokens.

    Only the continuation is looked at: a stop string inside the prompt ends nothing.
    """

    tokenizer: Any
    prompt: Sequence[int]
    stops: tuple[str, ...]
    eos: frozenset[int]
    max_tokens: int
    tokens: list[int] = field(factory=list, init=False)
    finish: Literal["stop", "eos", "length"] | None = field(default=None, init=False)
    text: str = field(default="", init=False)
    _window: int = field(init=False)
    _before: str = field(init=False)

    def __attrs_post_init__(self) -> None:
        # A character takes up to four tokens, so this many hold the longest stop string whole.
        self._window = 4 * max(map(len, self.stops), default=0) + SLACK
        self._before = decode(self.tokenizer, self.prompt[-ANCHOR:])

    def add(self, token: int) -> bool:
        """Take in the next token; True if that ended the row."""
        self.tokens.append(token)
        if token in self.eos:
            self._end("eos", self.tokens[:-1])
            return True
        if any(self.stops) and self._near():
            text = self._decoded(self.tokens)
            found = [at for stop in self.stops if stop and (at := text.find(stop)) >= 0]
            if found:
                self.finish, self.text = "stop", text[: min(found)]
                return True
        if len(self.tokens) >= self.max_tokens:
            self._end("length", self.tokens)
            return True
        return False

    def _near(self) -> bool:
        """Whether a stop string may just have been completed: looks at the last few tokens only."""
        if len(self.tokens) <= self._window:
            return True
        tail = decode(self.tokenizer, self.tokens[-self._window :])
        return any(stop in tail for stop in self.stops if stop)

    def _end(self, finish: Literal["eos", "length"], tokens: Sequence[int]) -> None:
        self.finish, self.text = finish, self._decoded(tokens)

    def _decoded(self, tokens: Sequence[int]) -> str:
        if not tokens:
            return ""
        both = decode(self.tokenizer, [*self.prompt[-ANCHOR:], *tokens])
        if both.startswith(self._before):
            return both[len(self._before) :]
        return decode(self.tokenizer, tokens)
