"""Log-probabilities of given continuations: one pass over each, with shared prefixes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from attrs import define, field
from torch import Tensor

from ke_plugin_hf.decoding.forward import Forward, Prefix
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

    def take(self, logits: Tensor) -> None:
        """Set the score from ``logits`` [at least count, vocabulary], whose last row predicts the last token."""
        if not self.count:
            return
        logits = logits[-self.count :]
        wanted = torch.tensor(self.ids[-self.count :], dtype=torch.int64, device=logits.device)
        scored = torch.log_softmax(logits.float(), dim=-1)
        self.logprob = float(scored.gather(1, wanted[:, None]).sum())
        self.matches = int((logits.argmax(dim=-1) == wanted).sum())


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


def score_rows(
    forward: Forward, prefix: Prefix, size: RowBatchSize, row_bytes: RowBytes, rows: Sequence[ScoringRow],
    report: Callable[[float], None],
) -> None:  # fmt: skip
    """Score ``rows``, which begin with ``prefix``. A row that does not fit even separately gets an ``error``.

    ``report`` is called after each pass with the number of scored rows.
    The last token is predicted, never read: rows of one prompt that differ only in that token share a pass.
    """
    begin = len(prefix.ids)
    same: dict[tuple[int, tuple[int, ...]], list[ScoringRow]] = {}
    for row in sorted(rows, key=lambda row: len(row.ids), reverse=True):
        same.setdefault((row.prompt, tuple(row.ids[begin:-1])), []).append(row)
    waiting = [(fed, alike) for (_prompt, fed), alike in same.items()]
    while waiting:
        together = waiting[: first_pass([len(fed) + 1 for fed, _rows in waiting], size.device)]
        longest = begin + len(together[0][0]) + 1
        keeps = [max(row.count for row in alike) for _fed, alike in together]
        sizes = [row_bytes.of(longest, keep) for keep in keeps]
        some = together[: size.fit(sizes)]
        try:
            _read(forward, prefix, some, keep=max(keeps[: len(some)]))
        except Exception as error:
            if not retry_smaller(error):
                raise
            free_after_failure(error)
            size.failed(sizes[: len(some)])
            if len(some) > 1:
                continue
            for row in some[0][1]:
                row.error = error
        waiting = waiting[len(some) :]
        report(len(rows) - sum(len(alike) for _fed, alike in waiting))


def _read(forward: Forward, prefix: Prefix, some: Sequence[tuple[Sequence[int], list[ScoringRow]]], keep: int) -> None:
    """Run one pass. A separate function, so that its temporary tensors are freed before the next or a retry."""
    fed, prompts = [fed for fed, _rows in some], [rows[0].prompt for _fed, rows in some]
    logits = forward.prefill(prefix, fed, keep=keep, prompts=prompts)[0]  # the cache is not needed
    for (_fed, alike), its in zip(some, logits, strict=True):
        for row in alike:
            row.take(its)
