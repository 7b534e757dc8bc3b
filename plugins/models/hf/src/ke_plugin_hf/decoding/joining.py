"""Decide which rows join a group that is running."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import define, field

from ke_core.plugin import Completed
from ke_plugin_hf.decoding.decoding import DecodingRow
from ke_plugin_hf.decoding.groups import common, grouped
from ke_plugin_hf.decoding.queue import Queue

LONG = 256  # tokens of a prefix for which a row waits until a group without prefix ends
TURNS = 16  # how often rows join a group while others, which cannot, wait for its end


@define(eq=False, kw_only=True)
class Joining:
    """The rows of ``queue`` that join a running group, whose rows begin with ``prefix``.

    ``others_wait``: another group runs after it. ``supports`` says whether the backend supports texts of a length,
    ``cached`` how many of the first tokens have cached keys and values, and ``result`` returns the result of a row.
    """

    queue: Queue
    prefix: Sequence[int]
    others_wait: bool
    supports: Callable[[int], bool]
    cached: Callable[[Sequence[int]], int]
    result: Callable[[DecodingRow], Completed]
    _waited: int = field(default=0, init=False)

    def refill(self, ended: Sequence[DecodingRow]) -> list[DecodingRow]:
        """Pass on the results of ``ended`` rows, and return the rows that join.

        Rows that cannot join wait for the end of the group. So after ``TURNS`` times none joins.
        """
        self.queue.end(ended, self.result)
        waiting = self.queue.rows
        if not waiting or self._waited > TURNS:
            return []
        places = [place for place, row in waiting.items() if self.supports(row.longest) and self._begins(row.ids)]
        if not self.prefix and self._share([waiting[place].ids[:-1] for place in places]):
            places = []
        self._waited += self.others_wait or len(places) < len(waiting)
        return self.queue.take(places)

    def _begins(self, ids: Sequence[int]) -> bool:
        length = len(self.prefix)
        return len(ids) > length and tuple(ids[:length]) == tuple(self.prefix)

    def _share(self, rows: Sequence[Sequence[int]]) -> bool:
        """Return whether rows that could join a group without prefix are better off with one, in the next group."""
        if any(group.prefix for group in grouped(rows)):
            return True
        running = [row.ids for row in self.queue.running]
        return any(
            self.cached(ids) >= LONG or any(common(ids, other) >= LONG for other in running)
            for ids in rows
            if len(ids) >= LONG
        )
