"""Make as many edits as the argument says, one after another, each restored. Print what is in memory on the way.

After each tenth of the edits: the objects that the garbage collector knows, tensors, values in them, and the resident
memory in KiB. At the end: whether all weights are the original ones.
"""

import gc
import sys
from pathlib import Path

import numpy as np
import torch

import ke_core as ke
from ke_plugin_hf.testing import INNER, tiny_model
from ke_weights import EditInputs

PAGE_KIB = 4


def held() -> tuple[int, int, int, int]:
    """Return the objects, tensors, values in them, and KiB of resident memory of this process."""
    gc.collect()
    objects = gc.get_objects()
    sizes = [one.numel() for one in objects if type(one) in (torch.Tensor, torch.nn.Parameter)]
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_KIB
    return len(objects), len(sizes), sum(sizes), resident


torch.set_num_threads(1)
tiny = tiny_model("llama")
model = ke.wrap(tiny.module, tiny.tokenizer, name="tiny")
before = {name: weight.detach().clone() for name, weight in tiny.module.named_parameters()}
inputs = EditInputs(covariance={2: np.eye(INNER)}, contexts=["{}"])
edits = int(sys.argv[1])
for number in range(1, edits + 1):
    with ke.edit(
        model, "The capital of {} is", subject=f"Peru {number}", target="Cusco", editor="r-rome",
        options={"steps": 2, "layer": 2}, inputs=inputs,
    ):  # fmt: skip
        pass
    if number % (edits // 10) == 0:
        print(*held(), flush=True)
print(all(torch.equal(before[name], weight) for name, weight in tiny.module.named_parameters()))
