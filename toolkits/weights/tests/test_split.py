"""Models on several accelerators: no tensor is indexed with a tensor on another device."""

from __future__ import annotations

from typing import Any

from attrs import frozen

from ke_weights.tail import Tail


@frozen
class Placed:
    """A fake tensor. torch refuses an index on another device, unless that is the CPU."""

    device: str

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: Placed) -> Placed:
        assert index.device in {"cpu", self.device}
        return self

    def to(self, device: str) -> Placed:
        return Placed(device)


def test_tail_on_another_device_drops_finished_edits() -> None:
    hidden, start, rows = Placed("cuda:1"), Placed("cuda:0"), Placed("cuda:1")
    keep: Any = Tail.keep
    kept = keep(Tail(hidden=hidden, start=start, calls=()), rows)  # type: ignore[arg-type]
    assert (kept.hidden, kept.start) == (hidden, start)
