"""Where to compute in float64: on a tensor's device, or on the CPU if its device does not support it.

Apple's MPS has no float64.
"""

from __future__ import annotations

import torch
from torch import Tensor

WITHOUT = frozenset({"mps"})


def home(device: torch.device) -> torch.device:
    """Return the device itself, or the CPU if the device has no float64."""
    return torch.device("cpu") if device.type in WITHOUT else device


def double(tensor: Tensor) -> Tensor:
    """Convert ``tensor`` to float64 at ``home``. Moving comes first: a device without float64 cannot convert it."""
    return tensor.to(home(tensor.device)).double()
