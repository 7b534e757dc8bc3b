"""Log-probabilities of given continuations. Tokens that several of them share, such as their prompt, are read once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from attrs import define, evolve, field, frozen
from torch import Tensor

from ke_plugin_hf.decoding.forward import Forward, Layers, Prefix
from ke_plugin_hf.decoding.groups import PrefixGroup
from ke_plugin_hf.decoding.inner import inner_groups, read_each
from ke_plugin_hf.decoding.memory import RowBatchSize, RowBytes, first_pass, free_after_failure, retry_smaller


@define(eq=False)
class ScoringRow:
    """A continuation to score: ``ids`` of prompt and continuation, of which the last ``count`` are scored.

    ``matches``: how many of these are the arg max given the tokens before them.
    """

    ids: Sequence[int]
    count: int
    logprob: float = field(default=0.0, init=False)
    matches: int = field(default=0, init=False)
    error: Exception | None = field(default=None, init=False)

    @property
    def prompt(self) -> int:
        """The number of prompt tokens."""
        return len(self.ids) - self.count

    @property
    def longest(self) -> int:
        """Return the number of its tokens."""
        return len(self.ids)

    def scores(self, logits: Tensor) -> Tensor:
        """Return ``logprob`` and ``matches``, float32 [2], from ``logits`` [at least count, vocabulary].

        The last row of the logits predicts the last token.
        """
        if not self.count:
            return torch.zeros(2, dtype=torch.float32, device=logits.device)
        logits = logits[-self.count :]
        wanted = torch.tensor(self.ids[-self.count :], dtype=torch.int64, device=logits.device)
        scored = torch.log_softmax(logits.float(), dim=-1).gather(1, wanted[:, None]).sum()
        return torch.stack([scored, (logits.argmax(dim=-1) == wanted).sum().to(scored.dtype)])


def take_scores(rows: Sequence[ScoringRow], logits: Sequence[Tensor]) -> None:
    """Set the score of each row from its logits. They are copied from the device together."""
    for row, (logprob, matches) in zip(
        rows, torch.stack(list(map(ScoringRow.scores, rows, logits))).tolist(), strict=True
    ):
        row.logprob, row.matches = logprob, int(matches)


def windows(before: Sequence[int], text: Sequence[int], context: int) -> Iterator[tuple[list[int], int]]:
    """Split a text that is scored as a whole into rows of at most ``context`` tokens to read.

    Yields the ids of each row and how many of its last ones are scored. Each token of ``text`` is scored once, the
    first one after ``before``. Rows overlap by one token, except the last one, which has as many tokens before its
    scored ones as the context allows. lm-evaluation-harness splits texts in the same way (``loglikelihood_rolling``).
    """
    ids = [*before, *text]
    done = len(before)
    while done < len(ids):
        end = min(len(ids), context + 1 if done == len(before) else done + context)
        yield ids[max(0, end - context - 1) : end], end - done
        done = end


@frozen(kw_only=True, eq=False)
class ScoringInput:
    """Tokens to read after the prefix, the rows that they score, and keys and values of their first tokens."""

    ids: Sequence[int]
    rows: Sequence[ScoringRow]
    known: Layers = ()

    @property
    def unread(self) -> int:
        """The number of tokens to read; at least one."""
        return max(1, len(self.ids) - (self.known[0][0].shape[-2] if self.known else 0))

    @property
    def keep(self) -> int:
        """The number of last positions whose logits are needed."""
        return max(row.count for row in self.rows)


@define(eq=False)
class Scorer:
    """Scores rows that begin with ``prefix``. A row that does not fit even separately gets an ``error``.

    ``in_parts``: whether rows may be read in parts, from keys and values of other rows.
    ``report`` is called after each pass with the number of scored rows.
    """

    forward: Forward
    prefix: Prefix
    size: RowBatchSize
    row_bytes: RowBytes
    in_parts: bool
    report: Callable[[float], None]
    _done: int = field(default=0, init=False)

    def run(self, rows: Sequence[ScoringRow]) -> None:
        """Score all rows. The last token of each is predicted, never read: rows of one prompt that differ only in that
        token share a pass.
        """
        begin = len(self.prefix.ids)
        same: dict[tuple[int, tuple[int, ...]], list[ScoringRow]] = {}
        for row in rows:
            same.setdefault((row.prompt, tuple(row.ids[begin:-1])), []).append(row)
        inputs = [ScoringInput(ids=ids, rows=some) for (_prompt, ids), some in same.items()]
        if not self.in_parts:
            self._score(inputs)
            return
        # The logits of the last ``keep`` tokens are needed, so they are read with their row.
        free = [one.ids[: len(one.ids) - one.keep] for one in inputs]
        for some in self._portions(inner_groups(free, self.size.device)):
            self._score(self._with_prefixes(some, inputs, free))

    def _portions(self, groups: Sequence[PrefixGroup]) -> Iterator[list[PrefixGroup]]:
        """Split groups into portions whose prefixes are read in about one pass and kept together; longest first."""
        portion: list[PrefixGroup] = []
        for group in sorted(groups, key=lambda group: group.prefix, reverse=True):
            tokens = [group.prefix for group in (*portion, group)]
            if portion and first_pass(tokens, self.size.device) < len(tokens):
                yield portion
                portion = []
            portion.append(group)
        if portion:
            yield portion

    def _with_prefixes(
        self, groups: Sequence[PrefixGroup], inputs: Sequence[ScoringInput], free: Sequence[Sequence[int]]
    ) -> list[ScoringInput]:
        """Read the prefix of each group once, and return its inputs, with the keys and values of the prefix."""
        shared = {at: tuple(free[at][: group.prefix]) for group in groups for at in group.rows}
        try:
            layers = read_each(self.forward, self.prefix, [ids for ids in shared.values() if ids], self.size.device)
        except Exception as error:
            if not retry_smaller(error):
                raise
            free_after_failure(error)
            layers = {}  # without them, each row is read completely, as many at a time as fit
        return [evolve(inputs[at], known=layers.get(ids, ())) for at, ids in shared.items()]

    def _score(self, inputs: Sequence[ScoringInput]) -> None:
        waiting = sorted(inputs, key=lambda one: one.unread, reverse=True)
        while waiting:
            together = waiting[: first_pass([one.unread for one in waiting], self.size.device)]
            longest = len(self.prefix.ids) + max(len(one.ids) for one in together) + 1
            sizes = [self.row_bytes.of(longest, one.keep) for one in together]
            some = together[: self.size.fit(sizes)]
            try:
                self._read(some)
            except Exception as error:
                if not retry_smaller(error):
                    raise
                free_after_failure(error)
                self.size.failed(sizes[: len(some)])
                if len(some) > 1:
                    continue
                for row in some[0].rows:
                    row.error = error
            waiting = waiting[len(some) :]
            self._done += sum(len(one.rows) for one in some)
            self.report(self._done)

    def _read(self, some: Sequence[ScoringInput]) -> None:
        """Run one pass. A separate function, so that its temporary tensors are freed before the next or a retry."""
        logits, _cache = self.forward.prefill(
            self.prefix,
            [one.ids for one in some],
            keep=max(one.keep for one in some),
            known=[one.known for one in some],
            prompts=[one.rows[0].prompt for one in some],
        )
        pairs = [(row, its) for one, its in zip(some, logits, strict=True) for row in one.rows]
        take_scores(*zip(*pairs, strict=True))
