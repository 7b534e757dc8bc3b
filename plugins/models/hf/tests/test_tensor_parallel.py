"""When a model can be split over processes, and what ends a run. tests/test_many_processes.py splits a model."""

import pytest
import torch

from ke_core.plugin import ModelRequest, ModelUnavailable, ProcessLost
from ke_plugin_hf import tensor_parallel
from ke_plugin_hf.decoding.memory import out_of_memory, retry_smaller
from ke_plugin_hf.loading import load
from ke_plugin_hf.tensor_parallel import FAILED, SPLIT, check_split, in_step, parts, prepare_split
from ke_plugin_hf.testing import saved, tiny_config, tiny_model

CPU, CUDA = torch.device("cpu"), torch.device("cuda")


class Processes:
    def __init__(self, size):
        self.size, self.rank = size, 0


@pytest.fixture
def part():
    """A module of which this process holds a part."""
    module = torch.nn.Linear(1, 1)
    SPLIT.add(module)
    yield module
    SPLIT.discard(module)
    FAILED.discard(module)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"device_map": "auto"}, "both place the model"),
        ({"dtype": "nf4"}, "does not split 4-bit weights"),
        ({"device": "cuda"}, "transformers chooses the devices"),
    ],
)
def test_settings_that_place_the_model_in_another_way_are_refused(monkeypatch, settings, message):
    monkeypatch.setattr(tensor_parallel, "started", lambda: 2)
    with pytest.raises(ModelUnavailable, match=message):
        prepare_split(ModelRequest(**{"id": "tiny", "tp": "auto", **settings}))


@pytest.mark.parametrize(
    ("family", "size", "message"),
    [
        ("llama", 7, "key-value heads, which 7 processes cannot share equally"),
        ("gpt2", 2, r"transformers has no plan to split hf:tiny \(gpt2\)"),
    ],
)
def test_a_model_that_cannot_be_split_is_refused(monkeypatch, family, size, message):
    monkeypatch.setattr(tensor_parallel, "world", lambda: Processes(size))
    with pytest.raises(ModelUnavailable, match=message):
        check_split(ModelRequest(id="tiny", tp="auto"), tiny_config(family))


def test_without_a_launcher_nothing_is_loaded(tmp_path):
    folder = saved(tiny_model(), tmp_path / "model")
    with pytest.raises(ModelUnavailable, match="several processes") as raised:
        load(ModelRequest(id="tiny", device="cpu", tp="auto"), str(folder))
    assert "torchrun" in raised.value.hint


def test_the_processes_of_one_machine_share_its_main_memory(monkeypatch):
    monkeypatch.setattr(tensor_parallel, "world", lambda: Processes(8))
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    assert (parts(CUDA), parts(CPU)) == (8, 2)


def test_work_is_not_repeated_in_smaller_pieces_by_one_process_of_several(part):
    assert out_of_memory(MemoryError())
    assert not retry_smaller(MemoryError())
    SPLIT.discard(part)
    assert retry_smaller(MemoryError())
    assert not retry_smaller(ValueError("other"))


def test_an_error_in_one_process_ends_the_run(part, monkeypatch):
    monkeypatch.setattr(tensor_parallel, "smallest", lambda number: number)
    assert in_step(part, len, ["a", "b"]) == 2
    with pytest.raises(ProcessLost, match="process 0 of 1 stopped: no memory"):
        in_step(part, failing, ["a"])
    assert part in FAILED
    with pytest.raises(MemoryError):
        in_step(torch.nn.Linear(1, 1), failing, ["a"])  # a whole model: the caller decides


def test_different_requests_in_two_processes_end_the_run(part, monkeypatch):
    monkeypatch.setattr(tensor_parallel, "smallest", lambda number: number - 1)
    with pytest.raises(ProcessLost, match="the processes have different requests"):
        in_step(part, len, ["a"])


def failing(_requests):
    raise MemoryError("no memory")
