"""Free memory is limited by the system and by containers."""

import pytest
import torch

from ke_plugin_hf.decoding import free
from ke_plugin_hf.decoding.free import UNKNOWN, free_bytes

CPU = torch.device("cpu")
MIB = 2**20


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine with 100 MiB available, and files of control groups as given."""
    monkeypatch.setattr(free, "PROC", tmp_path / "proc")
    monkeypatch.setattr(free, "GROUPS", tmp_path / "groups")

    def build(cgroup, **groups):
        (tmp_path / "proc" / "self").mkdir(parents=True)
        text = f"MemTotal: 900000 kB\nMemFree: 10240 kB\nMemAvailable: {100 * 1024} kB\n"
        (tmp_path / "proc" / "meminfo").write_text(text)
        (tmp_path / "proc" / "self" / "cgroup").write_text(cgroup)
        for folder, files in groups.items():
            where = tmp_path / "groups" / folder.replace("__", "/")
            where.mkdir(parents=True, exist_ok=True)
            for name, content in files.items():
                (where / name).write_text(f"{content}\n")

    return build


def second(limit, used, cache=0):
    stat = f"anon {used}\ninactive_file {cache}"
    return {"memory.max": limit, "memory.current": used, "memory.stat": stat}


def test_the_file_cache_counts_as_free(machine):
    machine("0::/\n")
    assert free_bytes(CPU) == 100 * MIB


def test_a_containers_limit_counts_less_what_it_uses_and_its_file_cache_is_free(machine):
    machine("0::/\n", **{"": second(50 * MIB, 30 * MIB, 10 * MIB)})
    assert free_bytes(CPU) == 30 * MIB


def test_a_limit_above_the_machines_memory_changes_nothing(machine):
    machine("0::/\n", **{"": second(900 * MIB, 30 * MIB)})
    assert free_bytes(CPU) == 100 * MIB


def test_parent_groups_limit_memory_too(machine):
    machine("0::/job/step\n", job=second(40 * MIB, 20 * MIB), job__step=second("max", 20 * MIB))
    assert free_bytes(CPU) == 20 * MIB


def test_more_used_than_allowed_is_nothing_left(machine):
    machine("0::/\n", **{"": second(40 * MIB, 41 * MIB)})
    assert free_bytes(CPU) == 0


@pytest.mark.parametrize("path", ["/job", "/the/hosts/own/path"])
def test_version_1_is_read_too(machine, path):
    files = {
        "memory.limit_in_bytes": 60 * MIB,
        "memory.usage_in_bytes": 50 * MIB,
        "memory.stat": f"inactive_file 1\ntotal_inactive_file {5 * MIB}",
    }
    where = "memory__job" if path == "/job" else "memory"
    machine(f"3:cpu,cpuacct:/\n2:memory:{path}\n0::/\n", **{where: files})
    assert free_bytes(CPU) == 15 * MIB


def test_unknown_free_memory_is_guessed(monkeypatch, tmp_path):
    monkeypatch.setattr(free, "PROC", tmp_path)
    assert free_bytes(CPU) == UNKNOWN


def test_free_memory_is_known_on_this_machine():
    assert free_bytes(CPU) > 10_000_000
