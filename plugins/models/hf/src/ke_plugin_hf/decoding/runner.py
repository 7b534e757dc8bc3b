"""Run sets of requests on one model: merge equal requests, group shared prefixes, choose a backend."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from attrs import define, evolve, field

from ke_core.plugin import (
    Completed,
    ContextOverflow,
    Generate,
    Generated,
    KEError,
    ModelUnavailable,
    NextRequests,
    Score,
    Scored,
)
from ke_plugin_hf.decoding.decoding import Decoder, DecodingRow
from ke_plugin_hf.decoding.forward import NO_PREFIX, Forward, Prefix
from ke_plugin_hf.decoding.groups import SHORTEST, PrefixGroup, grouped
from ke_plugin_hf.decoding.joining import Joining
from ke_plugin_hf.decoding.memory import (
    KEEPERS,
    SMALLER,
    RowBatchSize,
    RowBytes,
    cached_width,
    free_after_failure,
    retry_smaller,
)
from ke_plugin_hf.decoding.one_by_one import OneRow, generate_each, generate_single, score_single
from ke_plugin_hf.decoding.prefill import PrefillCache
from ke_plugin_hf.decoding.prefixes import Prefixes
from ke_plugin_hf.decoding.queue import Queue
from ke_plugin_hf.decoding.sampling import Sampler
from ke_plugin_hf.decoding.scoring import Scorer, ScoringRow, windows
from ke_plugin_hf.decoding.text import Continuation
from ke_plugin_hf.decoding.tokens import PromptTokenizer
from ke_plugin_hf.decoding.verify import Backends


@define(eq=False)
class LocalRunner:
    """Runs requests on a module. ``digest`` identifies what it computes at the time of a call.

    ``adapted``: an adaptor is open. It may treat tokens of a prompt and of an answer differently, so each row is read
    completely, without keys and values of other rows. ``report`` is called with the number of finished rows of a call;
    a row that is half generated counts as half a row.
    """

    module: Any
    coder: PromptTokenizer
    eos: frozenset[int]
    context: int
    digest: Callable[[], str]
    adapted: Callable[[], bool]
    size: RowBatchSize
    report: Callable[[float], None]
    unneeded: Callable[[], Collection[int]]
    backends: Backends = field(init=False)
    prefixes: Prefixes = field(factory=Prefixes, init=False)
    readings: PrefillCache = field(factory=PrefillCache, init=False)

    def __attrs_post_init__(self) -> None:
        self.backends = Backends(self.module)
        KEEPERS.add(self)

    def release(self) -> bool:
        """Free what is cached between calls; return whether there was anything."""
        kept = bool(len(self.prefixes) or len(self.readings))
        self.prefixes.clear()
        self.readings.clear()
        return kept

    def about_to_change(self) -> None:
        """Prepare for new weights, which may need all memory: keep only caches of the current ones.

        The model returns to the current weights. Caches of earlier, undone edits are not needed again.
        """
        if len(self.prefixes) or len(self.readings):
            digest = self.digest()
            self.prefixes.only(digest)
            self.readings.begin(digest, self.readings.room)

    def generate(self, requests: Sequence[Generate]) -> list[Generated | Exception]:
        """Return one result per request, in order. Equal requests run once; sampled ones differ by their seeds."""
        requests = [_plain(request) for request in requests]
        distinct = list(dict.fromkeys(requests))
        results: dict[Generate, Any] = {}

        def keep(found: Mapping[int, Completed], _ended: object) -> tuple[()]:
            results.update((distinct[place], result) for place, result in found.items())
            return ()

        self.complete(distinct, keep)
        return [results[request] for request in requests]

    def complete(self, requests: Sequence[Generate | Score], following: NextRequests) -> None:
        """Pass the result of each request to ``following``, and complete what follows (see ``ContinuousModel``)."""
        self.size.begin()
        self.readings.begin(self.digest(), self.size.spare)
        queue = Queue(rows_of=self._rows_of, following=following, unneeded=self.unneeded)
        queue.add(requests)
        while queue.rows or queue.scores:
            if queue.scores:
                scores, queue.scores = queue.scores, {}
                queue.pass_on(dict(zip(scores, self.score(list(scores.values()), queue.finished), strict=True)))
            self._decode(queue)

    def _rows_of(self, requests: Sequence[Generate]) -> list[DecodingRow | Exception]:
        """Return the row of each request, or the error of one that is too long."""
        coded = self.coder.prompts([request.prompt for request in requests])
        return [
            self._row(request, ids)
            if len(ids) + request.max_tokens <= self.context
            else self._overflow(len(ids), request.max_tokens)
            for request, ids in zip(requests, coded, strict=True)
        ]

    def _row(self, request: Generate, ids: Sequence[int]) -> DecodingRow:
        written = Continuation(self.coder.tokenizer, ids, request, self.eos, self.coder.chat)
        return DecodingRow(ids, Sampler(request), written)

    def score(self, requests: Sequence[Score], finished: int = 0) -> list[Scored | Exception]:
        """Return one score per request, in order. Equal continuations of the same prompt are scored once.

        ``finished``: the number of requests of the call that are finished already.
        """
        self.size.begin()
        pairs = dict.fromkeys(pair for request in requests for pair in request.pairs)
        prompts = list(dict.fromkeys(prompt for prompt, _text in pairs if prompt))
        coded = dict(zip(prompts, self.coder.prompts(prompts), strict=True))
        rows = {(prompt, text): self._rows(prompt, coded.get(prompt, ()), text) for prompt, text in pairs}
        fitting = [row for some in rows.values() for row in some if row.count and self._fits(row)]
        self._score(fitting, [row.ids[: -row.count - 1] for row in fitting], finished)
        return [self._scored([rows[pair] for pair in request.pairs]) for request in requests]

    def _rows(self, prompt: str, ids: Sequence[int], text: str) -> list[ScoringRow]:
        """Return the rows to score: one row after a prompt, or windows of a text that is scored as a whole."""
        if prompt:
            after = self.coder.continuation(prompt, ids, text)
            return [ScoringRow([*ids, *after], len(after))]
        return [ScoringRow(window, count) for window, count in windows(*self.coder.whole(text), self.context)]

    def _fits(self, row: ScoringRow) -> bool:
        """Return whether the row fits into the model's context. Its last token is predicted and never read."""
        return len(row.ids) - 1 <= self.context

    def _decode(self, queue: Queue) -> None:
        """Generate the waiting rows. Rows that follow or arrive join a running group if they have its prefix."""
        rows = queue.take()
        left = len(rows)
        # The last token of a prompt is always read with its row, because it predicts the first new token.
        for some, forward, prefix in self._groups(rows, [row.ids[:-1] for row in rows]):
            left -= len(some)
            if forward is None:
                for row in some:
                    generate_each([row], partial(generate_single, self.module))
                    queue.end([row], self._generated)
                continue
            joining = Joining(
                queue=queue,
                prefix=prefix.ids,
                others_wait=left > 0,
                supports=partial(self.backends.supports, forward.mode),
                cached=self._cached,
                result=self._generated,
            )
            Decoder(
                forward,
                prefix,
                self.size,
                self._row_bytes(forward, prefix),
                self.readings,
                in_parts=self.in_parts(forward),
                refill=joining.refill,
                report=partial(self._report_of, queue),
            ).run(some)

    def _cached(self, ids: Sequence[int]) -> int:
        """Return how many of these tokens need not be read, because their keys and values are cached."""
        return 0 if self.adapted() else len(self.prefixes.longest(self.digest(), ids).ids)

    def _score(self, rows: Sequence[ScoringRow], shareable: Sequence[Sequence[int]], finished: int) -> None:
        for some, forward, prefix in self._groups(rows, shareable):
            if forward is None:
                generate_each(some, partial(score_single, self.module))
            else:
                row_bytes, parts = self._row_bytes(forward, prefix), self.in_parts(forward)
                Scorer(forward, prefix, self.size, row_bytes, parts, partial(self._report, finished)).run(some)
            finished += len(some)

    def in_parts(self, forward: Forward) -> bool:
        """Return whether rows may be read in parts. An adaptor may treat tokens of prompts and answers differently."""
        return forward.extends and not self.adapted()

    def _groups(
        self, rows: Sequence[OneRow], shareable: Sequence[Sequence[int]]
    ) -> Iterator[tuple[list[OneRow], Forward | None, Prefix]]:
        """Yield each group of rows with its backend and its prefix."""
        for group in grouped(shareable):
            some = [rows[at] for at in group.rows]
            forward, prefix = self._ready(group, shareable[group.rows[0]], max(row.longest for row in some))
            yield some, forward, prefix

    def _report(self, before: int, finished: float) -> None:
        self.report(before + finished)

    def _report_of(self, queue: Queue, finished: float) -> None:
        self.report(queue.finished + finished)

    def _ready(self, group: PrefixGroup, ids: Sequence[int], longest: int) -> tuple[Forward | None, Prefix]:
        """Return the backend of a group, and its prefix. A single row uses a cached prefix if there is one."""
        if self.adapted():
            return self._without_prefix(longest), NO_PREFIX
        digest = self.digest()
        alone = len(group.rows) == 1
        length = len(self.prefixes.longest(digest, ids).ids) if alone else group.prefix
        try:
            forward = self.backends.best(longest, prefix=length >= SHORTEST)
            if forward is None or forward.mode == "plain":
                return forward, NO_PREFIX
            return forward, self.prefixes.get(forward, digest, ids[:length])
        except Exception as error:
            if not retry_smaller(error):
                raise
            free_after_failure(error)
            self.release()  # without a prefix, whole prompts still fit in small batches, or report that they do not
            return self._without_prefix(longest), NO_PREFIX

    def _without_prefix(self, longest: int) -> Forward | None:
        """Return the backend for whole prompts; None (each row separately) also if memory is too small to try one."""
        try:
            return self.backends.best(longest, prefix=False)
        except Exception as error:
            if not retry_smaller(error):
                raise
            free_after_failure(error)
            return None

    def _row_bytes(self, forward: Forward, prefix: Prefix) -> RowBytes:
        """Return an upper bound: keys and values of a token in every layer, temporary values of one layer, logits."""
        config = self.module.config.get_text_config()
        item: int = self.module.dtype.itemsize
        width = int(config.hidden_size)
        token = 2 * int(config.num_hidden_layers) * cached_width(config) * item
        if prefix.layers:
            token = sum(k[:, 0].nbytes + v[:, 0].nbytes for k, v in prefix.layers)
        return RowBytes(
            token=token + 24 * width * item,
            shared=len(prefix.ids) if forward.mode == "shared" else 0,
            logits=3 * 4 * int(config.vocab_size),
        )

    def _generated(self, row: DecodingRow) -> Generated | Exception:
        if isinstance(row.error, KEError):
            return row.error
        if row.error is not None:
            return self._too_big(len(row.ids), row.error)
        if row.written.finish is None:
            raise AssertionError("an unfinished row")
        return Generated(
            text=row.written.text, finish=row.written.finish, prompt_tokens=len(row.ids), tokens=len(row.written.tokens)
        )

    def _scored(self, found: Sequence[Sequence[ScoringRow]]) -> Scored | Exception:
        """Return the scores of continuations, each with one row or several windows."""
        for row in (row for rows in found for row in rows):
            if not self._fits(row):
                return self._overflow(len(row.ids) - row.count, row.count)
            if row.error is not None:
                return self._too_big(len(row.ids), row.error)
        return Scored.of(
            (math.fsum(row.logprob for row in rows), sum(row.count for row in rows), sum(row.matches for row in rows))
            for rows in found
        )

    def _overflow(self, prompt: int, more: int) -> KEError:
        return ContextOverflow(
            f"a prompt of {prompt} tokens plus {more} exceeds the model's context of {self.context}",
            hint="shorten the prompt, request fewer tokens, or use a model with a longer context",
        )

    def _too_big(self, length: int, error: Exception) -> KEError:
        failure = ModelUnavailable(f"out of memory for a single prompt of {length} tokens", hint=SMALLER)
        failure.__cause__ = error
        return failure


def _plain(request: Generate) -> Generate:
    """Return a greedy request without fields for sampling, so that equal ones compare equal."""
    return evolve(request, seed=None, top_k=0) if request.temperature == 0 else request
