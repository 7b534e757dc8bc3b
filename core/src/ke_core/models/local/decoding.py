"""Decoding a group of rows together: admitted while there is room, retired one at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from attrs import define, field
from torch import Tensor

from ke_core.models.local.forward import Forward, Prefix, State
from ke_core.models.local.memory import BatchSize, first_pass, out_of_memory
from ke_core.models.local.sampling import Chooser, choose
from ke_core.models.local.text import Continuation


@define(eq=False)
class Row:
    """One request on its way: its prompt's tokens, how it chooses, what it has written."""

    ids: Sequence[int]
    chooser: Chooser
    written: Continuation
    error: Exception | None = field(default=None, init=False)

    def restart(self) -> None:
        """Run again from the beginning; ends with the same text."""
        self.chooser.restart()
        self.written.restart()


@define(eq=False)
class Decoder:
    """Runs rows that begin with ``prefix`` to their ends, ``size`` at a time."""

    forward: Forward
    prefix: Prefix
    size: BatchSize
    row_bytes: int
    _active: list[Row] = field(factory=list, init=False)
    _state: State | None = field(default=None, init=False)

    def run(self, rows: Iterable[Row]) -> None:
        """Fill in what each row writes; one for which not even a batch of one fits gets an ``error``."""
        # Longest first: memory runs out at once or not at all, and neighbours in a batch need little padding.
        waiting = deque(sorted(rows, key=lambda row: len(row.ids), reverse=True))
        while waiting or self._active:
            room = self.size.rows(self.row_bytes) - len(self._active)
            new = [waiting.popleft() for _ in range(min(room, len(waiting)))] if room >= len(self._active) else []
            try:
                if new:
                    self._admit(new)
                else:
                    self._step()
            except Exception as error:
                if not out_of_memory(error):
                    raise
                tried = [*self._active, *(row for row in new if row not in self._active)]
                self._active, self._state = [], None
                self.size.failed(len(tried))
                unfinished = [row for row in tried if row.written.finish is None]
                if len(tried) == 1 and unfinished:
                    tried[0].error = error
                    continue
                for row in reversed(unfinished):
                    row.restart()
                    waiting.appendleft(row)

    def _admit(self, new: Sequence[Row]) -> None:
        """Read the prompts of ``new``, longest first, and let them join the rows on their way."""
        fed = [row.ids[len(self.prefix.ids) :] for row in new]
        while fed:
            some = first_pass([len(ids) for ids in fed], self.size.device)
            logits, state = self.forward.prefill(self.prefix, fed[:some])
            left = self._write(new[:some], logits[:, -1])
            if left:
                if len(left) < some:
                    state.keep(left)
                if self._state is None:
                    self._state = state
                else:
                    self._state.join(state)
                self._active += [new[at] for at in left]
            fed, new = fed[some:], new[some:]

    def _step(self) -> None:
        """One token more for every row."""
        if self._state is None:
            raise AssertionError("rows without a state")
        logits = self.forward.step(self._state, [row.written.tokens[-1] for row in self._active])
        left = self._write(self._active, logits)
        if len(left) == len(self._active):
            return
        self._active = [self._active[at] for at in left]
        if left:
            self._state.keep(left)
        else:
            self._state = None

    @staticmethod
    def _write(rows: Sequence[Row], logits: Tensor) -> list[int]:
        """Give each row its next token; the places of those that go on."""
        tokens = choose([row.chooser for row in rows], logits)
        return [at for at, (row, token) in enumerate(zip(rows, tokens, strict=True)) if not row.written.add(token)]
