"""The requests of a call that wait for the model, and those that follow from results."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from attrs import define, field

from ke_core.plugin import Completed, Generate, NextRequests, Score
from ke_plugin_hf.decoding.decoding import DecodingRow


@define(eq=False, kw_only=True)
class Queue:
    """Waiting requests, by position: ``rows`` to generate and ``scores``. ``finished`` counts results.

    ``rows_of`` returns the rows of requests, or the error of a request. ``unneeded`` returns the positions of requests
    that were canceled.
    """

    rows_of: Callable[[Sequence[Generate]], Sequence[DecodingRow | Exception]]
    following: NextRequests
    unneeded: Callable[[], Collection[int]]
    rows: dict[int, DecodingRow] = field(factory=dict, init=False)
    scores: dict[int, Score] = field(factory=dict, init=False)
    finished: int = field(default=0, init=False)
    _running: dict[DecodingRow, int] = field(factory=dict, init=False)
    _added: int = field(default=0, init=False)

    def add(self, requests: Sequence[Generate | Score]) -> None:
        """Add requests. One that has no row gets its error at once."""
        places = dict(enumerate(requests, self._added))
        self._added += len(requests)
        self.scores |= {place: one for place, one in places.items() if isinstance(one, Score)}
        texts = {place: one for place, one in places.items() if isinstance(one, Generate)}
        rows = dict(zip(texts, self.rows_of(list(texts.values())), strict=True))
        self.rows |= {place: row for place, row in rows.items() if isinstance(row, DecodingRow)}
        failed = {place: row for place, row in rows.items() if isinstance(row, Exception)}
        if failed:
            self.pass_on(failed)

    def pass_on(self, results: Mapping[int, Completed]) -> None:
        """Pass results on, and add the requests that follow, and those that have arrived."""
        self.finished += len(results)
        new = self.following(results, False)  # noqa: FBT003  no interrupt
        if new:
            self.add(new)

    @property
    def running(self) -> Iterable[DecodingRow]:
        """The rows that were taken and did not end yet."""
        return self._running

    def take(self, places: Sequence[int] | None = None) -> list[DecodingRow]:
        """Remove and return the waiting rows at ``places``, to run them; default: all."""
        taken = {place: self.rows.pop(place) for place in (list(self.rows) if places is None else places)}
        self._running |= {row: place for place, row in taken.items()}
        return list(taken.values())

    def end(self, rows: Sequence[DecodingRow], result: Callable[[DecodingRow], Completed]) -> None:
        """Pass on the results of rows that ended, and cancel rows that are not needed any more."""
        self.pass_on({self._running.pop(row): result(row) for row in rows})
        unneeded = self.unneeded()
        for row, place in self._running.items():
            row.canceled = place in unneeded
