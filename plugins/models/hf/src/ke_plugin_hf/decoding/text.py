"""One row's continuation as text: decoded incrementally, ended at the first stop string."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby
from typing import Any, Literal

from attrs import define, field

from ke_core.plugin import THOUGHT, Generate, continuation, cut_at_stops, has_content

ANCHOR = 4  # prompt tokens decoded together with it, because some decoders drop a space at the start of their input
SLACK = 8
LOST = "\ufffd"  # the replacement for bytes that are not a character
BYTE = re.compile("<0x([0-9A-F]{2})>")


def decode(tokenizer: Any, ids: Sequence[int]) -> str:
    """Decode ``ids`` without special tokens and without removing spaces; half a character is one U+FFFD."""
    text = _plain(tokenizer, ids)
    return _plain(tokenizer, _whole(tokenizer, ids)) if LOST in text else text


def _plain(tokenizer: Any, ids: Sequence[int]) -> str:
    text: str = tokenizer.decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False)
    return text


def _whole(tokenizer: Any, ids: Sequence[int]) -> list[int]:
    """Replace byte tokens in ``ids`` that are not a character by the byte tokens of U+FFFD.

    A decoder with byte fallback makes U+FFFD of every byte in a sequence if a single one is invalid. Such a sequence
    may contain line breaks (in LLaMA-2 "\n" is a byte token) and whole words of a script without its own tokens.
    """
    tokens = tokenizer.convert_ids_to_tokens(list(ids))
    bytes_of = [int(found[1], 16) if (found := BYTE.fullmatch(token or "")) else None for token in tokens]
    if all(byte is None for byte in bytes_of) or not _falls_back(tokenizer):
        return list(ids)
    whole: list[int] = []
    for in_bytes, some in groupby(zip(ids, bytes_of, strict=True), key=lambda pair: pair[1] is not None):
        pairs = list(some)
        if in_bytes:
            decoded = bytes(byte for _token, byte in pairs if byte is not None).decode(errors="replace")
            whole += _byte_tokens(tokenizer, decoded)
        else:
            whole += [token for token, _byte in pairs]
    return whole


def _falls_back(tokenizer: Any) -> bool:
    """Return whether tokens that are named like bytes are decoded as bytes."""
    ids = _byte_tokens(tokenizer, LOST)
    return None not in ids and _plain(tokenizer, ids) == LOST


def _byte_tokens(tokenizer: Any, text: str) -> list[int]:
    ids: list[int] = tokenizer.convert_tokens_to_ids([f"<0x{byte:02X}>" for byte in text.encode()])
    return ids


@define
class Continuation:
    """The tokens generated after ``prompt``. Stop strings are matched in decoded text: they may span tokens.

    Only the continuation is searched: a stop string in the prompt has no effect. Neither has one in the reasoning, line
    breaks and echo of the prompt at the start of a ``chat`` model's message, which are not part of its ``text``.
    """

    tokenizer: Any
    prompt: Sequence[int]
    request: Generate
    eos: frozenset[int]
    chat: bool = False
    tokens: list[int] = field(factory=list, init=False)
    finish: Literal["stop", "eos", "length"] | None = field(default=None, init=False)
    text: str = field(default="", init=False)
    _window: int = field(init=False)
    _before: str = field(init=False)
    _opened: str = field(init=False)
    _stops: tuple[str, ...] = field(init=False)

    def __attrs_post_init__(self) -> None:
        # A character has at most four tokens, so this many contain the longest stop string.
        self._stops = tuple(stop for stop in self.request.stop if stop)
        self._window = 4 * max(map(len, self._stops), default=0) + SLACK
        self._before = decode(self.tokenizer, self.prompt[-ANCHOR:])
        turn = decode(self.tokenizer, self.prompt[-2 * SLACK :]).rstrip() if self.chat else ""
        self._opened = THOUGHT if turn.endswith(THOUGHT) else ""  # by the template

    def add(self, token: int) -> bool:
        """Add the next token; return True if it ended the row."""
        self.tokens.append(token)
        if token in self.eos:
            self._end("eos", self.tokens[:-1])
        elif self._stops and self._near() and self._over():
            self._end("stop", self.tokens)
        elif len(self.tokens) >= self.request.max_tokens:
            self._end("length", self.tokens)
        return self.finish is not None

    def _near(self) -> bool:
        """Return whether a stop string may be complete now, from the last few tokens."""
        if len(self.tokens) <= self._window:
            return True
        tail = decode(self.tokenizer, self.tokens[-self._window :])
        return any(stop in tail for stop in self._stops)

    def _over(self) -> bool:
        text = self._decoded(self.tokens)
        return self._read(text)[1] and (not self.chat or has_content(self._opened + text, self.request))

    def _read(self, text: str, *, ended: bool = False) -> tuple[str, bool]:
        """Return the continuation in the generated text, and whether a stop string ended it."""
        return (
            continuation(self._opened + text, self.request, ended=ended)
            if self.chat
            else cut_at_stops(text, self._stops)
        )

    def _end(self, finish: Literal["stop", "eos", "length"], tokens: Sequence[int]) -> None:
        # However the row ended, its text contains no stop string.
        self.text, stopped = self._read(self._decoded(tokens), ended=finish != "length")
        self.finish = "stop" if stopped else finish

    def _decoded(self, tokens: Sequence[int]) -> str:
        if not tokens:
            return ""
        both = decode(self.tokenizer, [*self.prompt[-ANCHOR:], *tokens])
        if both.startswith(self._before):
            return both[len(self._before) :]
        return decode(self.tokenizer, tokens)
