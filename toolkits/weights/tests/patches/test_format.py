"""A patch file holds what it should, and anything else is refused in one line."""

import hashlib
import json

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from ke_core.plugin import BadPatch, canonical
from ke_plugin_hf.guard import LowRank
from ke_weights.patches import combined, read_patch, write_patch
from ke_weights.patches.delta import dense_tensor, inner, norm
from ke_weights.patches.format import hashes

DOWN = "model.layers.1.mlp.down_proj.weight"


@pytest.fixture
def stored(opened, kit):
    return kit.make_patch(opened(), {DOWN: kit.low_rank(), "model.layers.2.mlp.down_proj.weight": kit.dense()})


@pytest.fixture
def file(stored, tmp_path):
    write_patch(stored, tmp_path / "p.safetensors")
    return tmp_path / "p.safetensors"


def rewritten(file, *, tensors=None, change=None, honest=True, raw=None):
    """The file with other tensors or another description; ``honest``: with hashes that fit."""
    with safe_open(file, framework="pt") as stream:
        about = stream.metadata()
    found = load_file(file)
    info = json.loads(about["patch"])
    if tensors:
        found |= tensors
        if honest:
            for weight in info["weights"]:
                weight["sha256"] = hashes({name: found[name] for name in weight["sha256"]})
    if change:
        change(info)
    text = raw if raw is not None else canonical(info)
    save_file(found, file, metadata=about | {"patch": text, "sha256": hashlib.sha256(text.encode()).hexdigest()})
    return file


def test_a_patch_comes_back_as_it_was_written(stored, file):
    found = read_patch(file)
    assert found.info == stored.info
    assert found.id == stored.id
    for name, delta in stored.deltas.items():
        assert type(found.deltas[name]) is type(delta)
        assert torch.equal(dense_tensor(found.deltas[name]), dense_tensor(delta))
    weight = found.info.weights[0]
    assert (weight.kind, weight.rank, weight.shape) == ("low-rank", 2, (64, 176))
    assert weight.norm == pytest.approx(float(dense_tensor(stored.deltas[DOWN]).norm()), rel=1e-5)
    assert found.info.edits[0].source == "an encyclopedia"
    assert found.info.edits[0].date == "2026-01-31"


def test_any_safetensors_reader_can_open_it(file):
    with safe_open(file, framework="np") as stream:
        assert set(stream.keys()) == {f"left/{DOWN}", f"right/{DOWN}", "dense/model.layers.2.mlp.down_proj.weight"}
        assert stream.metadata()["format"] == "ke-patch"


@pytest.mark.parametrize("keep", [0, 5, 100, 0.5, -1])
def test_a_truncated_patch_is_refused_in_one_line(file, keep):
    content = file.read_bytes()
    file.write_bytes(content[: int(len(content) * keep) if isinstance(keep, float) else keep])
    with pytest.raises(BadPatch, match="truncated") as caught:
        read_patch(file)
    assert "\n" not in caught.value.message


def test_a_flipped_bit_is_noticed(file):
    content = bytearray(file.read_bytes())
    content[-5] ^= 1
    file.write_bytes(content)
    with pytest.raises(BadPatch, match="is damaged: the update of"):
        read_patch(file)


def test_a_changed_description_is_noticed(file):
    file.write_bytes(file.read_bytes().replace(b"an encyclopedia", b"an encyclopaedi"))
    with pytest.raises(BadPatch, match="its metadata was changed"):
        read_patch(file)


def test_nan_is_refused_even_with_hashes_that_fit(file):
    left = load_file(file)[f"left/{DOWN}"]
    left[0, 0] = float("nan")
    with pytest.raises(BadPatch, match="NaN or infinity"):
        read_patch(rewritten(file, tensors={f"left/{DOWN}": left}))


def test_a_wrong_shape_is_refused_even_with_hashes_that_fit(file):
    with pytest.raises(BadPatch, match="shape"):
        read_patch(rewritten(file, tensors={f"left/{DOWN}": torch.zeros(63, 2)}))


def test_factors_that_do_not_meet_are_refused(file):
    with pytest.raises(BadPatch, match="shape"):
        read_patch(rewritten(file, tensors={f"left/{DOWN}": torch.zeros(64, 3)}))


def test_a_tensor_too_many_is_refused(file):
    with pytest.raises(BadPatch, match="does not list"):
        read_patch(rewritten(file, tensors={"dense/x": torch.zeros(1)}))


@pytest.mark.parametrize(
    ("raw", "words"), [("{", "is cut off"), ("[]", "format None"), ('{"schema": 99}', "format 99")]
)
def test_a_newer_format_and_a_broken_description_are_refused(file, raw, words):
    with pytest.raises(BadPatch, match=words):
        read_patch(rewritten(file, raw=raw))


def test_a_missing_field_is_named(file):
    with pytest.raises(BadPatch, match="does not fit") as caught:
        read_patch(rewritten(file, change=lambda info: info["base"].pop("weights")))
    assert any("weights" in line for line in caught.value.details)


def test_other_safetensors_files_folders_and_nothing_are_refused(tmp_path):
    save_file({"a": torch.zeros(1)}, tmp_path / "x.safetensors")
    for path, words in (
        (tmp_path / "x.safetensors", "not a patch file"),
        (tmp_path, "a folder"),
        (tmp_path / "y", "not exist"),
    ):
        with pytest.raises(BadPatch, match=words):
            read_patch(path)


def test_the_id_follows_edits_and_numbers(opened, kit):
    model = opened()
    one = kit.make_patch(model, {DOWN: kit.low_rank()})
    assert one.id == kit.make_patch(model, {DOWN: kit.low_rank()}).id
    assert one.id != kit.make_patch(model, {DOWN: kit.low_rank(seed=1)}).id
    assert one.id != kit.make_patch(model, {DOWN: kit.low_rank()}, edits=(kit.fact("Someone"),)).id


def test_low_rank_updates_of_one_weight_are_put_side_by_side(kit):
    parts = [kit.low_rank(seed=1), kit.low_rank(rank=3, seed=2)]
    total = combined(parts)
    assert isinstance(total, LowRank)
    assert total.left.shape == (64, 5)
    assert torch.allclose(dense_tensor(total), dense_tensor(parts[0]) + dense_tensor(parts[1]), atol=1e-6)


@pytest.mark.parametrize(("out", "inner_"), [(64, 176), (176, 64)])
def test_more_ranks_than_the_weight_has_are_compressed(kit, out, inner_):
    parts = [kit.low_rank(rank=50, seed=seed, out=out, inner=inner_) for seed in range(3)]
    total = combined(parts)
    assert total.left.shape[1] == 64
    expected = sum(dense_tensor(part) for part in parts)
    assert float((dense_tensor(total) - expected).norm() / expected.norm()) < 1e-6


def test_compression_finds_the_rank_there_is(kit):
    one = kit.low_rank(rank=3)
    total = combined([one] * 30)
    assert total.left.shape[1] == 3
    assert torch.allclose(dense_tensor(total), 30 * dense_tensor(one), rtol=1e-4, atol=1e-5)


def test_one_dense_update_makes_the_sum_dense(kit):
    total = combined([kit.low_rank(), kit.dense()])
    assert torch.allclose(total.delta, dense_tensor(kit.low_rank()) + kit.dense().delta)


def test_inner_products_of_factors_are_those_of_the_matrices(kit):
    one, other = kit.low_rank(seed=1), kit.low_rank(rank=4, seed=2)
    for a, b in ((one, other), (one, kit.dense()), (kit.dense(), one)):
        assert inner(a, b) == pytest.approx(
            float((dense_tensor(a).double() * dense_tensor(b).double()).sum()), rel=1e-5
        )
    assert norm(one) == pytest.approx(float(dense_tensor(one).norm()), rel=1e-5)
