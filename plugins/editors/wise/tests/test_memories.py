"""Sharding, merging, and the state that is carried from edit to edit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from attrs import evolve
from torch import Tensor

from ke_core.plugin import BadData
from ke_plugin_hf.testing import tiny_model
from ke_plugin_wise import WiseConfig
from ke_plugin_wise.editor import Wise
from ke_plugin_wise.memories import Sharding, SideMemories, SideMemory, read_memories
from ke_plugin_wise.ties import ties
from ke_testing.examples import FOUR_MOVES
from ke_testing.fakes import make_session
from ke_testing.kit import expect_same, unchanged

HOW = Sharding(variant="retrieve", save_freq=2, merge_freq=4, density=1.0)
SMALL = WiseConfig(module="down:2", steps=2, lr=2.0, alpha=1.0, beta=4.0, gamma=2.0, act_ratio=0.8, contexts=0)
pytestmark = pytest.mark.usefixtures("one_thread")


def memory(number: int) -> SideMemory:
    """Return what the training of an edit would leave; its score is 10 minus its number."""
    entries = torch.randn(3, 4, generator=torch.Generator().manual_seed(number), dtype=torch.float32)
    return SideMemory(entries, 10.0 - number)


def after(count: int, how: Sharding) -> SideMemories:
    found = SideMemories()
    for number in range(count):
        found = found.after(memory(number), how, torch.float32)
    return found


def differences(memories: tuple[SideMemory, ...]) -> list[Tensor]:
    return [one.difference for one in memories]


def test_a_shard_ends_after_save_freq_edits() -> None:
    assert torch.equal(differences(after(1, HOW).used(HOW))[0], memory(0).difference)
    two = after(2, HOW)
    assert two.open is None
    assert [one.activation for one in two.shards] == [9.0]
    three = after(3, HOW)
    assert [one.activation for one in three.used(HOW)] == [8.0, 9.0]
    assert torch.equal(differences(three.used(HOW))[1], memory(1).difference)


def test_retrieval_keeps_every_merged_memory_with_its_smallest_score() -> None:
    eight = after(8, HOW)
    assert [one.activation for one in eight.used(HOW)] == [7.0, 3.0]
    for merged, shards in zip(eight.used(HOW), ((1, 3), (5, 7)), strict=True):
        parts = [memory(number).difference for number in shards]
        assert torch.equal(merged.difference, ties(parts, [0.5, 0.5], 1.0))


def test_merge_variant_has_one_merged_memory_and_one_threshold() -> None:
    how = evolve(HOW, variant="merge", density=0.53)
    first = ties([memory(1).difference, memory(3).difference], [0.5, 0.5], 0.53)
    assert torch.equal(differences(after(4, how).used(how))[0], first)
    five, six = after(5, how), after(6, how)
    assert torch.equal(differences(five.used(how))[0], memory(4).difference)
    assert [one.activation for one in five.used(how)] == [6.0, 6.0]
    now = ties([memory(5).difference, first], [0.4, 0.6], 0.53)  # a shard is used before its merge is complete
    assert torch.equal(differences(six.used(how))[0], now)
    second = ties([memory(5).difference, memory(7).difference, first], [0.2, 0.2, 0.6], 0.53)
    assert torch.equal(differences(after(8, how).used(how))[0], second)
    assert [one.activation for one in after(8, how).used(how)] == [3.0]


@pytest.mark.parametrize("variant", ["retrieve", "merge"])
@pytest.mark.parametrize("count", range(9))
def test_memories_are_restored_from_their_tensors(variant: Any, count: int) -> None:
    how = evolve(HOW, variant=variant)
    one = after(count, how)
    other = read_memories(one.tensors(), count)
    for number in range(count, 9):
        one, other = (found.after(memory(number), how, torch.float32) for found in (one, other))
    assert all(map(torch.equal, differences(one.used(how)), differences(other.used(how))))
    assert [part.activation for part in one.used(how)] == [part.activation for part in other.used(how)]


def test_finished_memories_have_the_dtype_of_the_model() -> None:
    found = SideMemories()
    for number in range(5):
        found = found.after(memory(number), HOW, torch.bfloat16)
    assert [one.difference.dtype for one in found.used(HOW)] == [torch.float32, torch.bfloat16]


@pytest.mark.parametrize("variant", ["retrieve", "merge"])
def test_a_sequence_is_saved_and_continued_in_the_middle_of_a_shard(variant: Any, tmp_path: Path) -> None:
    config = evolve(SMALL, save_freq=2, merge_freq=2, variant=variant)
    model = tiny_model()
    with Wise(config).edit(make_session(model, root=tmp_path), FOUR_MOVES[:1]) as edited:
        for at, edit in enumerate(FOUR_MOVES[1:], start=1):
            edited.save(tmp_path / f"{at}")
            edited.change(add=[edit])
        digest, names = model.digest, list(edited.edits)
        assert len(model.adaptors[0].state["thresholds"]) == (2 if variant == "retrieve" else 1)
    for at in (1, 2, 3):
        fresh = tiny_model()
        with unchanged(fresh), Wise(config).load(make_session(fresh, root=tmp_path), tmp_path / f"{at}") as loaded:
            loaded.change(add=FOUR_MOVES[at:])
            expect_same(fresh, digest, f"a sequence that was continued after {at} edits gives another model")
            assert list(loaded.edits) == names


def test_one_batch_equals_single_changes(tmp_path: Path) -> None:
    model = tiny_model()
    with Wise(SMALL).edit(make_session(model, root=tmp_path), FOUR_MOVES[:2]):
        digest = model.digest
    with Wise(SMALL).edit(make_session(model, root=tmp_path), FOUR_MOVES[:1]) as edited:
        edited.change(add=FOUR_MOVES[1:2])
        expect_same(model, digest, "two changes of one edit differ from one of two edits")


def test_removing_an_edit_learns_the_others_again(tmp_path: Path) -> None:
    model = tiny_model()
    first, second, third = FOUR_MOVES[:3]
    with Wise(SMALL).edit(make_session(model, root=tmp_path), [first, third]):
        digest = model.digest
    base = model.digest
    with Wise(SMALL).edit(make_session(model, root=tmp_path), [first, second, third]) as edited:
        edited.change(remove=[second.id])
        expect_same(model, digest, "a removed edit leaves a trace")
        edited.change(remove=[first.id, third.id])
        expect_same(model, base, "without edits, the model is another one")


def test_file_of_another_matrix_is_refused(tmp_path: Path) -> None:
    with Wise(SMALL).edit(make_session(tiny_model(), root=tmp_path), FOUR_MOVES[:1]) as edited:
        edited.save(tmp_path / "saved")
    other = Wise(evolve(SMALL, module="up:2"))
    with pytest.raises(BadData, match="of another shape than"):
        other.load(make_session(tiny_model(), root=tmp_path), tmp_path / "saved").__enter__()
