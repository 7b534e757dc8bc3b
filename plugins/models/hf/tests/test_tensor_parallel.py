"""When a model can be split over processes. tests/test_many_processes.py splits one."""

import pytest
import torch

from ke_core.plugin import KEError, ModelRequest, ModelUnavailable
from ke_plugin_hf import tensor_parallel
from ke_plugin_hf.decoding import memory
from ke_plugin_hf.decoding.memory import out_of_memory
from ke_plugin_hf.loading import load
from ke_plugin_hf.tensor_parallel import check_split
from ke_plugin_hf.testing import saved, tiny_config, tiny_model

CPU = torch.device("cpu")


class Processes:
    def __init__(self, size):
        self.size = self.rank = size


@pytest.mark.parametrize(
    ("family", "size", "settings", "message"),
    [
        ("llama", 1, {}, "splits a model over several processes, and there is one"),
        ("llama", 2, {"device_map": "auto"}, "both place the model"),
        ("llama", 2, {"dtype": "nf4"}, "does not split 4-bit weights"),
        ("llama", 2, {"tp": "always"}, "--tp always: unknown"),
        ("llama", 7, {}, "key-value heads, which 7 processes cannot share equally"),
        ("gpt2", 2, {}, r"transformers has no plan to split hf:tiny \(gpt2\)"),
    ],
)
def test_a_model_that_cannot_be_split_is_refused(monkeypatch, family, size, settings, message):
    monkeypatch.setattr(tensor_parallel, "world", lambda: Processes(size))
    request = ModelRequest(**{"id": "tiny", "tp": "auto", **settings})
    with pytest.raises(ModelUnavailable, match=message):
        check_split(request, tiny_config(family), CPU)


def test_without_a_launcher_nothing_is_loaded(tmp_path):
    folder = saved(tiny_model(), tmp_path / "model")
    with pytest.raises(ModelUnavailable, match="several processes") as raised:
        load(ModelRequest(id="tiny", device="cpu", tp="auto"), str(folder))
    assert "torchrun" in raised.value.hint


def test_work_is_not_repeated_in_smaller_pieces_by_one_process_of_several(monkeypatch):
    assert out_of_memory(MemoryError())
    part = tiny_model().module
    monkeypatch.setattr(memory, "SPLIT", {part})
    with pytest.raises(KEError, match="process 0, which holds a part of the model"):
        out_of_memory(MemoryError())
    assert not out_of_memory(ValueError("other"))
