"""Decode a group of rows together: admitted while there is memory, retired individually, replaced by others."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence

import torch
from attrs import define, field
from torch import Tensor

from ke_core.plugin import ModelUnavailable, NotFinite
from ke_plugin_hf.decoding.drafts import LENGTHS, Drafter, best_length, worthwhile
from ke_plugin_hf.decoding.forward import DecodingState, Forward, Prefix
from ke_plugin_hf.decoding.inner import inner_groups, read_each
from ke_plugin_hf.decoding.memory import RowBatchSize, RowBytes, first_pass, free_after_failure, retry_smaller
from ke_plugin_hf.decoding.prefill import PrefillCache, PrefillState
from ke_plugin_hf.decoding.sampling import Sampler, choose
from ke_plugin_hf.decoding.text import Continuation


@define(eq=False)
class DecodingRow:
    """One request in progress: its prompt's tokens, its sampler, and the generated tokens."""

    ids: Sequence[int]
    chooser: Sampler
    written: Continuation
    error: Exception | None = field(default=None, init=False)
    canceled: bool = field(default=False, init=False)
    known: PrefillState | None = field(default=None, init=False)
    continues: tuple[int, ...] = field(default=(), init=False)  # the tokens of the state that it was read from
    drafter: Drafter = field(factory=Drafter, init=False)

    @property
    def so_far(self) -> list[int]:
        """Return prompt and generated tokens: a row whose keys and values were discarded resumes from here."""
        return [*self.ids, *self.written.tokens]

    @property
    def ended(self) -> bool:
        """Whether there is nothing more to generate."""
        return self.written.finish is not None or self.error is not None

    @property
    def progress(self) -> float:
        """The fraction of an unfinished row that is done, judged by its token limit."""
        return len(self.written.tokens) / self.written.request.max_tokens

    @property
    def remaining(self) -> int:
        """Return how many more tokens its limit allows."""
        return self.written.request.max_tokens - len(self.written.tokens)

    @property
    def longest(self) -> int:
        """Return the maximum number of its tokens."""
        return len(self.ids) + self.written.request.max_tokens

    def goes_on(self, token: int | NotFinite) -> bool:
        """Add the next token, or record that there is none. Return whether the row continues."""
        if self.canceled:
            self.error = ModelUnavailable("the request was canceled")
            return False
        if isinstance(token, NotFinite):
            self.error = token
            return False
        return not self.written.add(token)


Refill = Callable[[Sequence[DecodingRow]], Sequence[DecodingRow]]
"""Gets rows that ended, and returns rows that join the others."""
REFILLED, PATIENCE = 4, 8
"""Rows are passed on, and others join, when at least one in ``REFILLED`` ended, and after ``PATIENCE`` steps anyway.

Joining copies the caches of all rows. But a client that waits for its answer needs only its own row.
"""


@define(eq=False)
class Decoder:
    """Runs rows that begin with ``prefix`` to their ends, as many at a time as ``size`` allows.

    ``readings``: keys and values of earlier rows, to which those of these rows are added, if the prefix is shared.
    ``in_parts``: whether rows may be read in parts, from keys and values of other rows, and with guesses.
    ``refill``: gets rows that ended, perhaps none, and returns others, which begin with ``prefix`` too.
    ``report`` is called after each token with the number of rows that ended and were not passed to ``refill`` yet, plus
    the fractions of the others that are done.
    """

    forward: Forward
    prefix: Prefix
    size: RowBatchSize
    row_bytes: RowBytes
    readings: PrefillCache
    in_parts: bool
    refill: Refill
    report: Callable[[float], None]
    _open: list[DecodingRow] = field(factory=list, init=False)
    _active: list[DecodingRow] = field(factory=list, init=False)
    _steps: int = field(default=0, init=False)  # since rows were passed on
    _state: DecodingState | None = field(default=None, init=False)

    def run(self, rows: Iterable[DecodingRow]) -> None:
        """Generate all rows, and those that replace them. A row that does not fit even in a batch of one gets an
        ``error``.
        """
        waiting = deque(self._arranged(rows))
        while waiting or self._active:
            new = [waiting.popleft() for _ in range(self._joining(waiting))]
            self._open += new
            try:
                if new:
                    self._admit(new)
                else:
                    self._step()
            except Exception as error:
                if not retry_smaller(error):
                    raise
                again = self._given_up(new, error)
                self.readings.clear()
                free_after_failure(error)
                waiting.extendleft(reversed(again))
                self._open = [row for row in self._open if row not in again]
            waiting.extendleft(reversed(self._arranged(self._replaced())))

    def _arranged(self, rows: Iterable[DecodingRow]) -> list[DecodingRow]:
        # Longest first: memory runs out at once or not at all, and rows of a batch, padded to its longest, are similar.
        rows = sorted(rows, key=lambda row: row.longest, reverse=True)
        if self.in_parts and self.forward.mode == "shared":
            for row in rows:
                row.known = self.readings.longest(row.ids[:-1], len(self.prefix.ids))
        return rows

    def _replaced(self) -> Sequence[DecodingRow]:
        """Pass on the rows that ended, and return the rows that replace them: when it is time (``PATIENCE``)."""
        ended = [row for row in self._open if row.ended]
        self.report(len(ended) + sum(row.progress for row in self._active))
        self._steps += 1
        if self._active and self._steps < PATIENCE and len(ended) * REFILLED < len(self._open):
            return ()
        self._steps, self._open = 0, [row for row in self._open if not row.ended]
        return self.refill(ended)

    def _joining(self, waiting: Sequence[DecodingRow]) -> int:
        """Return how many rows to admit. Joining copies every cache, so it waits until as many as are running fit."""
        if not waiting:
            return 0
        room = self.size.fit(map(self._bytes, waiting), [self._bytes(row) for row in self._active])
        return room if room == len(waiting) or room >= len(self._active) else 0

    def _bytes(self, row: DecodingRow) -> int:
        return self.row_bytes.of(row.longest)

    def _given_up(self, new: Sequence[DecodingRow], error: Exception) -> list[DecodingRow]:
        """Return the rows to read again, in smaller batches, with their generated tokens."""
        tried = [*self._active, *(row for row in new if row not in self._active)]
        self._active, self._state, self.in_parts = [], None, False  # both need memory
        for row in tried:
            row.known = None
        self.size.failed([self._bytes(row) for row in tried])
        unfinished = [row for row in tried if not row.ended]
        if len(tried) > 1:
            return unfinished
        for row in unfinished:
            row.error = error
        return []

    def _admit(self, new: Sequence[DecodingRow]) -> None:
        """Read the tokens of ``new`` rows, longest first, and add them to the running rows."""
        if self.in_parts:
            self._read_inner_prefixes([row for row in new if row.known is None])
        new = sorted(new, key=self._unread, reverse=True)
        while new:
            some = first_pass([self._unread(row) for row in new], self.size.device)
            self._read(new[:some])
            new = new[some:]

    def _read_inner_prefixes(self, new: Sequence[DecodingRow]) -> None:
        """Read each prefix that several rows share, once."""
        begin = len(self.prefix.ids)
        rows = [row.so_far[begin:-1] for row in new]
        shared = {
            at: tuple(rows[at][: group.prefix])
            for group in inner_groups(rows, self.size.device)
            if group.prefix
            for at in group.rows
        }
        layers = read_each(self.forward, self.prefix, list(shared.values()), self.size.device)
        for at, ids in shared.items():
            new[at].known = PrefillState(ids=(*self.prefix.ids, *ids), first=begin, layers=layers[ids])

    def _read(self, new: Sequence[DecodingRow]) -> None:
        """Run one pass. A separate function, so that its temporary tensors are freed before the next."""
        fed = [row.so_far[len(self.prefix.ids) :] for row in new]
        known = [row.known.layers if row.known else () for row in new]
        logits, state = self.forward.prefill(self.prefix, fed, known=known, prompts=[len(row.ids) for row in new])
        for row in new:
            ids = row.known.ids if row.known else ()
            row.continues, row.known = (ids if tuple(row.so_far[: len(ids)]) == ids else ()), None
        left = self._write(new, logits[:, -1])
        if not left:
            return
        if len(left) < len(new):
            state.keep(left)
        if self._state is None:
            self._state = state
        else:
            self._state.join(state)
        self._active += [new[at] for at in left]

    def _unread(self, row: DecodingRow) -> int:
        known = row.known.layers[0][0].shape[-2] if row.known else 0
        return len(row.so_far) - len(self.prefix.ids) - known

    def _step(self) -> None:
        """Generate one more token for every row, or several where guesses are right."""
        if self._state is None:
            raise AssertionError("rows without a state")
        guesses = self._guesses()
        longest = max(map(len, guesses))
        fed = [
            [row.written.tokens[-1], *guess, *[0] * (longest - len(guess))]
            for row, guess in zip(self._active, guesses, strict=True)
        ]
        logits = self.forward.step(self._state, fed)
        left, right = self._check(guesses, logits)
        if longest:
            self._state.forget([longest - count for count in right])
        if len(left) == len(self._active):
            return
        if self.forward.mode == "shared":
            self._remember(self._state, set(left))
        self._active = [self._active[at] for at in left]
        if left:
            self._state.keep(left)
        else:
            self._state = None

    def _guesses(self) -> list[list[int]]:
        """Return the guessed next tokens of each row."""
        if not self.in_parts or not worthwhile(len(self._active), self.size.device):
            return [[] for _row in self._active]
        # No row reads more tokens than its limit allows, padding included. Its last token is never read.
        most = min(LENGTHS[-1], *(row.remaining - 1 for row in self._active))
        guesses = [row.drafter.guess(row.so_far, most) for row in self._active]
        length = best_length([row.drafter for row in self._active], guesses, self.size.device)
        return [guess[:length] for guess in guesses]

    def _check(self, guesses: Sequence[Sequence[int]], logits: Tensor) -> tuple[list[int], list[int]]:
        """Give each row its next tokens from ``logits`` [B, T, vocabulary], as long as its guesses are right.

        Returns the positions of the rows that continue, and the number of right guesses of every row.
        """
        left, right = [], [0] * len(guesses)
        checked = list(range(len(guesses)))
        for place in range(logits.shape[1]):
            chosen = logits[:, place]
            if len(checked) < len(chosen):
                chosen = chosen.index_select(0, torch.tensor(checked, device=chosen.device))
            some = self._write([self._active[at] for at in checked], chosen)
            on = [checked[at] for at in some]
            checked = [
                at
                for at in on
                if place < len(guesses[at]) and self._active[at].written.tokens[-1] == guesses[at][place]
            ]
            left += [at for at in on if at not in checked]
            for at in checked:
                right[at] += 1
            if not checked:
                break
        for row, guess, count in zip(self._active, guesses, right, strict=True):
            if guess:
                row.drafter.checked(len(guess), count)
        return sorted(left), right

    def _remember(self, state: DecodingState, left: set[int]) -> None:
        """Keep the keys and values of finished rows, except of their last token. Those that reached a stop may be
        continued.
        """
        for at, row in enumerate(self._active):
            if at not in left and row.written.finish == "stop":
                ids = tuple(row.so_far[:-1])
                reading = PrefillState(ids=ids, first=len(self.prefix.ids), layers=state.own(at))
                self.readings.keep(reading, instead=row.continues)

    @staticmethod
    def _write(rows: Sequence[DecodingRow], logits: Tensor) -> list[int]:
        """Give each row its next token and return the positions of rows that continue. Rows without a token get an
        ``error``.
        """
        chosen = zip(rows, choose([row.chooser for row in rows], logits), strict=True)
        return [at for at, (row, token) in enumerate(chosen) if row.goes_on(token)]
