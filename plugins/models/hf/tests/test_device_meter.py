"""The rise of accelerator memory, measured by torch's counters."""

import torch

from ke_plugin_hf.decoding.memory import DeviceMeter
from ke_plugin_hf.testing import tiny_model


def test_a_cpu_model_has_no_device_meter():
    assert tiny_model("llama").device_meter() is None


def test_the_rise_is_the_peak_above_the_start_summed_over_devices(monkeypatch):
    highest = {"cuda:0": 50, "cuda:1": 70}
    allocated = {"cuda:0": 20, "cuda:1": 10}
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda d: highest.update({str(d): allocated[str(d)]}))
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda d: allocated[str(d)])
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda d: highest[str(d)])
    meter = DeviceMeter(devices=(torch.device("cuda:0"), torch.device("cuda:1")))
    meter.start()
    assert meter.rise() == 0
    highest["cuda:1"] = 25
    assert meter.rise() == 15


def test_nested_meters_keep_the_outer_peak(monkeypatch):
    now = {"allocated": 10, "highest": 90}
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda _d: now.update(highest=now["allocated"]))
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda _d: now["allocated"])
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda _d: now["highest"])
    outer, inner = (DeviceMeter(devices=(torch.device("cuda:0"),)) for _each in range(2))
    outer.start()
    now["highest"] = 70
    inner.start()
    now["highest"] = 30
    assert inner.rise() == 20
    assert (outer.peak(), outer.rise()) == (70, 60)
