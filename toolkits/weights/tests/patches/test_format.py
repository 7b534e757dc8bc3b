"""Patch files: round trip, and one-line errors for invalid files."""

import hashlib
import json

import pytest
import torch
from attrs import evolve
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from ke_core.plugin import BadPatch, canonical
from ke_plugin_hf.guard import LowRank
from ke_weights.patches import combined, read_patch, write_patch
from ke_weights.patches.delta import dense_tensor, inner, norm
from ke_weights.patches.format import hashes
from ke_weights.report.patches import derived_values

DOWN = "model.layers.1.mlp.down_proj.weight"


@pytest.fixture
def stored(opened, kit):
    return kit.make_patch(opened(), {DOWN: kit.low_rank(), "model.layers.2.mlp.down_proj.weight": kit.dense()})


@pytest.fixture
def file(stored, tmp_path):
    write_patch(stored, tmp_path / "p.safetensors")
    return tmp_path / "p.safetensors"


def rewritten(file, *, tensors=None, change=None, honest=True, raw=None):
    """Rewrite the file with other tensors or metadata; ``honest``: with matching hashes."""
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


def test_patch_file_round_trip(stored, file):
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


def test_derived_values_are_those_that_no_option_sets(stored):
    values = {"layers": [1, 2], "lr": 0.5, "clamp": 4.0, "reasons": {"lr": "a fifth"}}
    joint = evolve(stored.info, details={"hyperparameters": values})
    assert derived_values(joint) == {"lr": 0.5, "clamp": 4.0}
    each = {"a": {"hyperparameters": values}, "b": {"hyperparameters": values | {"lr": 0.6}}}
    assert derived_values(evolve(joint, details={"edits": each})) == {"lr": "varies", "clamp": 4.0}
    assert derived_values(stored.info) == {}


def test_file_is_valid_safetensors(file):
    with safe_open(file, framework="np") as stream:
        assert set(stream.keys()) == {f"left/{DOWN}", f"right/{DOWN}", "dense/model.layers.2.mlp.down_proj.weight"}
        assert stream.metadata()["format"] == "ke-patch"


@pytest.mark.parametrize("keep", [0, 5, 100, 0.5, -1])
def test_truncated_patch_is_a_one_line_error(file, keep):
    content = file.read_bytes()
    file.write_bytes(content[: int(len(content) * keep) if isinstance(keep, float) else keep])
    with pytest.raises(BadPatch, match="truncated") as caught:
        read_patch(file)
    assert "\n" not in caught.value.message


def test_flipped_bit_is_detected(file):
    content = bytearray(file.read_bytes())
    content[-5] ^= 1
    file.write_bytes(content)
    with pytest.raises(BadPatch, match="is damaged: the update of"):
        read_patch(file)


def test_changed_metadata_is_detected(file):
    file.write_bytes(file.read_bytes().replace(b"an encyclopedia", b"an encyclopaedi"))
    with pytest.raises(BadPatch, match="its metadata was changed"):
        read_patch(file)


def test_nan_is_refused_with_matching_hashes(file):
    left = load_file(file)[f"left/{DOWN}"]
    left[0, 0] = float("nan")
    with pytest.raises(BadPatch, match="NaN or infinity"):
        read_patch(rewritten(file, tensors={f"left/{DOWN}": left}))


def test_wrong_shape_is_refused_with_matching_hashes(file):
    with pytest.raises(BadPatch, match="shape"):
        read_patch(rewritten(file, tensors={f"left/{DOWN}": torch.zeros(63, 2)}))


def test_incompatible_factors_are_refused(file):
    with pytest.raises(BadPatch, match="shape"):
        read_patch(rewritten(file, tensors={f"left/{DOWN}": torch.zeros(64, 3)}))


def test_unlisted_tensor_is_refused(file):
    with pytest.raises(BadPatch, match="does not list"):
        read_patch(rewritten(file, tensors={"dense/x": torch.zeros(1)}))


@pytest.mark.parametrize(
    ("raw", "words"), [("{", "is cut off"), ("[]", "format None"), ('{"schema": 99}', "format 99")]
)
def test_newer_format_and_damaged_metadata_are_refused(file, raw, words):
    with pytest.raises(BadPatch, match=words):
        read_patch(rewritten(file, raw=raw))


def test_missing_field_is_named(file):
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


def test_id_depends_on_edits_and_numbers(opened, kit):
    model = opened()
    one = kit.make_patch(model, {DOWN: kit.low_rank()})
    assert one.id == kit.make_patch(model, {DOWN: kit.low_rank()}).id
    assert one.id != kit.make_patch(model, {DOWN: kit.low_rank(seed=1)}).id
    assert one.id != kit.make_patch(model, {DOWN: kit.low_rank()}, edits=(kit.fact("Someone"),)).id


def test_low_rank_updates_of_one_weight_are_concatenated(kit):
    parts = [kit.low_rank(seed=1), kit.low_rank(rank=3, seed=2)]
    total = combined(parts)
    assert isinstance(total, LowRank)
    assert total.left.shape == (64, 5)
    assert torch.allclose(dense_tensor(total), dense_tensor(parts[0]) + dense_tensor(parts[1]), atol=1e-6)


@pytest.mark.parametrize(("out", "inner_"), [(64, 176), (176, 64)])
def test_rank_above_the_weights_rank_is_reduced(kit, out, inner_):
    parts = [kit.low_rank(rank=50, seed=seed, out=out, inner=inner_) for seed in range(3)]
    total = combined(parts)
    assert total.left.shape[1] == 64
    expected = sum(dense_tensor(part) for part in parts)
    assert float((dense_tensor(total) - expected).norm() / expected.norm()) < 1e-6


def test_rank_reduction_finds_the_numerical_rank(kit):
    one = kit.low_rank(rank=3)
    total = combined([one] * 30)
    assert total.left.shape[1] == 3
    assert torch.allclose(dense_tensor(total), 30 * dense_tensor(one), rtol=1e-4, atol=1e-5)


def test_one_dense_update_makes_the_sum_dense(kit):
    total = combined([kit.low_rank(), kit.dense()])
    assert torch.allclose(total.delta, dense_tensor(kit.low_rank()) + kit.dense().delta)


def test_inner_products_of_factors_equal_those_of_matrices(kit):
    one, other = kit.low_rank(seed=1), kit.low_rank(rank=4, seed=2)
    for a, b in ((one, other), (one, kit.dense()), (kit.dense(), one)):
        assert inner(a, b) == pytest.approx(
            float((dense_tensor(a).double() * dense_tensor(b).double()).sum()), rel=1e-5
        )
    assert norm(one) == pytest.approx(float(dense_tensor(one).norm()), rel=1e-5)
