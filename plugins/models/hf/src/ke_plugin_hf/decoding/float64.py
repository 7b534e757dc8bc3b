"""Where float64 can live: beside a tensor, unless its device has none.

Apple's MPS has none, so whatever must be computed in float64 is computed on the processor there.
"""

from __future__ import annotations

import torch
from torch import Tensor

WITHOUT = frozenset({"mps"})


def home(device: torch.device) -> torch.device:
    """The device itself, or the processor where the device has no float64."""
    return torch.device("cpu") if device.type in WITHOUT else device


def double(tensor: Tensor) -> Tensor:
    """``tensor`` in float64, at ``home``: moved first, because a device without float64 cannot make it."""
    return tensor.to(home(tensor.device)).double()
