"""Make as many edits as the argument says, one after another, each restored. Print the memory in use on the way.

Prints the resident memory in KiB after each 100 edits, and at the end whether all weights are the original ones.
"""

import sys
from pathlib import Path

import numpy as np
import torch

import ke_core as ke
from ke_plugin_hf.testing import INNER, tiny_model
from ke_weights import EditInputs

PAGE_KIB = 4


def resident() -> int:
    """Return the resident memory of this process in KiB."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_KIB


torch.set_num_threads(1)
tiny = tiny_model("llama")
model = ke.wrap(tiny.module, tiny.tokenizer, name="tiny")
before = {name: weight.detach().clone() for name, weight in tiny.module.named_parameters()}
inputs = EditInputs(covariance={2: np.eye(INNER)}, contexts=["{}"])
for number in range(1, int(sys.argv[1]) + 1):
    with ke.edit(
        model, "The capital of {} is", subject=f"Peru {number}", target="Cusco", editor="r-rome",
        options={"steps": 2, "layer": 2}, inputs=inputs,
    ):  # fmt: skip
        pass
    if number % 100 == 0:
        print(resident(), flush=True)
print(all(torch.equal(before[name], weight) for name, weight in tiny.module.named_parameters()))
