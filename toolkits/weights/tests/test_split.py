"""Models on several accelerators: no tensor is indexed with a tensor on another device."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from attrs import frozen
from torch._subclasses.fake_tensor import FakeTensorMode

from ke_weights import optimize
from ke_weights.offset_rows import OffsetRows
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


def test_offset_is_moved_to_the_rows_of_the_block_below() -> None:
    """torch checks the devices of fake tensors, which need no hardware."""
    with FakeTensorMode():
        tail = Tail(hidden=torch.zeros(4, 3, 2, device="cuda:0"), start=torch.zeros(4), calls=())
        rows = OffsetRows(tail, torch.zeros(4, dtype=torch.long, device="cuda:0"), 2, ())
        placed = rows._placed(torch.zeros(2, 2, device="cuda:1"))
    assert (placed.device, placed.shape) == (torch.device("cuda:0"), (4, 3, 2))


def test_optimized_outputs_are_on_the_device_of_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of attention and MLP are on the device of their block; the losses and the offset are on one device."""
    with FakeTensorMode():
        outputs = torch.zeros(3, 2, device="cuda:1")
        monkeypatch.setattr(optimize, "mlp_states", lambda *_: outputs)
        monkeypatch.setattr(optimize, "attention_states", lambda *_: outputs)
        settings = SimpleNamespace(layer=1, site="attention+mlp")
        part: Any = SimpleNamespace(settings=settings, modules=None, device=torch.device("cuda:0"))
        clean = optimize._Optimization._clean(part, [])
    assert (clean.device, clean.shape) == (torch.device("cuda:0"), (3, 2, 2))
