"""AlphaEdit's closed form, null space, and keys of earlier edits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from attrs import evolve
from torch import Tensor

from ke_core.plugin import BadConfig, EditFailed
from ke_plugin_alphaedit import AlphaEditConfig, derive
from ke_plugin_alphaedit import editor as editor_module
from ke_plugin_alphaedit.editor import AlphaEdit, null_space_details
from ke_plugin_hf.testing import FAMILIES, Family, tiny_model
from ke_testing.examples import MOVE_GATE, MOVE_TOWER, facts_of
from ke_testing.fakes import make_session
from ke_weights import PUBLISHED_MULTI_LAYER
from ke_weights.plugin import KeyCovariance, NullSpace, average_keys, null_space
from ke_weights.testing.reference import F, random_problem
from ke_weights.testing.reference_edits import FLOAT32_PARTS, ReferenceModel, off
from ke_weights.testing.weights import whole_of

RANK = 30
EDITS = (MOVE_TOWER, MOVE_GATE)
SMALL = AlphaEditConfig(
    tokens=1500, document_length=64, template_length=6, layers=(1, 2), steps=6, lr=0.5, weight_decay=0.5, clamp=0.75,
)  # fmt: skip


@pytest.fixture
def data() -> Tensor:
    """Return keys of a text, [tokens, f]: large along 18 directions, small along 30."""
    draw = torch.Generator().manual_seed(0)
    turn = torch.linalg.qr(torch.randn(F, F, dtype=torch.float64, generator=draw)).Q
    sizes = torch.cat([torch.full((RANK,), 0.05), torch.full((F - RANK,), 3.0)]).double()
    return torch.randn(2000, F, dtype=torch.float64, generator=draw) * sizes @ turn.T


@pytest.fixture
def space(data: Tensor) -> NullSpace:
    return null_space(KeyCovariance(data.T @ data / 2000, 2000), 0, 0.02, 1.0)


@pytest.mark.parametrize("count", [1, 7, 29, 30, 45])
@pytest.mark.parametrize("earlier", [0, 5, 40])
def test_reduced_form_equals_the_published_one(space: NullSpace, count: int, earlier: int) -> None:
    """X^T with (P (K K^T + S) + L2 I) X = P K R^T, also in the paper's notation."""
    (keys, residual), (old, _) = random_problem(count), random_problem(max(earlier, 1), 1)
    kept = [old[:, :2], old[:, 2:]] if earlier else []
    ours = whole_of(space.update(keys, residual, kept))
    projection, eye = space.basis @ space.basis.T, torch.eye(F, dtype=torch.float64)
    before = sum((one @ one.T for one in kept), torch.zeros(F, F, dtype=torch.float64))
    solved = torch.linalg.solve(projection @ (keys @ keys.T + before) + eye, projection @ keys @ residual.T)
    written = residual @ keys.T @ projection @ torch.linalg.inv((before + keys @ keys.T) @ projection + eye)
    assert off(ours, solved.T) < 1e-10
    assert off(ours, written) < 1e-10


def test_update_stays_in_the_null_space_and_keeps_common_keys(space: NullSpace, data: Tensor) -> None:
    """D P = D."""
    assert space.basis.shape == (F, RANK)
    update = whole_of(space.update(*random_problem(7), []))
    projection = space.basis @ space.basis.T
    assert off(update @ projection, update) < 1e-12
    common = data - data @ projection
    assert float((update @ common.T).norm() / (update.norm() * common.norm())) < 1e-12
    assert space.fraction < 0.01


def test_keys_of_earlier_edits_are_preserved(space: NullSpace) -> None:
    (old, _), (keys, residual) = random_problem(6, 1), random_problem(6)
    for ridge in (1.0, 10.0):
        place = evolve(space, l2=ridge)
        moved = [float((whole_of(place.update(keys, residual, kept)) @ old).norm()) for kept in ([], [old])]
        assert moved[1] < 0.5 * moved[0]


def test_threshold_below_every_eigenvalue_is_an_error(data: Tensor) -> None:
    with pytest.raises(EditFailed, match=r"no eigenvalue of layer 3 is below .* 1e-09: the smallest one is 0\.00"):
        null_space(KeyCovariance(data.T @ data / 2000, 2000), 3, 1e-9, 1.0)


def test_derived_threshold_and_ridge_follow_from_the_spectrum(data: Tensor) -> None:
    covariance = KeyCovariance(data.T @ data / 2000, 2000)
    space = null_space(covariance, 0, None, None)
    assert space.basis.shape[1] == RANK
    assert space.fraction <= 0.01
    inside = data @ space.basis
    assert space.l2 == pytest.approx(float((inside**2).sum(1).mean()), rel=1e-9)
    scaled = null_space(KeyCovariance(100 * covariance.matrix, 2000), 0, None, None)
    assert scaled.basis.shape == space.basis.shape  # neither depends on the scale of a model's keys
    assert scaled.l2 == pytest.approx(100 * space.l2)


def test_attention_sinks_change_neither_threshold_nor_fraction(data: Tensor) -> None:
    """Keys of first tokens, in one direction, are 1e5 times as large (squared) as the others."""
    sinks = data[:6].mean(0) * 1e3
    plain = null_space(KeyCovariance(data.T @ data / 2000, 2000), 0, None, None)
    found = null_space(KeyCovariance((data.T @ data + 6 * torch.outer(sinks, sinks)) / 2000, 2000), 0, None, None)
    assert found.basis.shape == plain.basis.shape
    assert found.threshold == pytest.approx(plain.threshold, rel=0.2)
    assert found.fraction == pytest.approx(plain.fraction, rel=0.2)


@pytest.mark.parametrize("family", FAMILIES)
def test_outputs_for_common_keys_do_not_change(family: Family, tmp_path: Path) -> None:
    model = tiny_model(family, dtype="float64")
    plain = ReferenceModel(model, family)
    before = {layer: plain.weight(layer) for layer in (1, 2)}
    moments = {layer: plain.covariance(layer, 1500, 64) for layer in (1, 2)}
    with AlphaEdit(SMALL).edit(make_session(model, root=tmp_path), EDITS) as edited:
        change = {layer: plain.change(layer, before[layer]) for layer in (1, 2)}
        spaces: Any = edited.details["null_spaces"]
    for layer, covariance in moments.items():
        values, vectors = torch.linalg.eigh(covariance)
        small = values < spaces[str(layer)]["threshold"] * (1 - 1e-5)  # the threshold is the next eigenvalue
        assert int(small.sum()) == spaces[str(layer)]["rank"]
        common = vectors[:, ~small]
        assert float((change[layer] @ common).norm() / change[layer].norm()) < (
            1e-5 if family in FLOAT32_PARTS else 1e-9
        )
        usual = values[:-1] if values[-1] > values[:-1].sum() else values
        assert float(values[small].sum() / usual.sum()) == pytest.approx(spaces[str(layer)]["share"], rel=1e-3)


def test_large_fraction_of_the_trace_is_a_warning(data: Tensor) -> None:
    covariance = KeyCovariance(data.T @ data / 2000, 2000)
    narrow, wide = null_space(covariance, 0, None, None), null_space(covariance, 0, 1e3, None)
    found = null_space_details({1: narrow, 2: wide})
    assert found["1"]["share"] < 0.05
    assert "warning" not in found["1"]
    assert found["2"]["warning"].startswith("the null space carries 100% of tr(C)")


def test_keys_are_kept_while_edits_are_active(tmp_path: Path) -> None:
    model = tiny_model("gpt2")
    editor, session = AlphaEdit(SMALL), make_session(model, root=tmp_path)

    def held() -> list[int]:
        return [len(batches) for batches in editor._earlier._values.values() if batches]

    with editor.edit(session, [MOVE_TOWER]):
        assert held() == [1]
        with editor.edit(session, [MOVE_GATE]):
            assert held() == [2]
        assert held() == [1]
        with pytest.raises(ZeroDivisionError), editor.edit(session, [MOVE_GATE]):
            raise ZeroDivisionError
        assert held() == [1]
    assert held() == []


def test_failed_edit_leaves_no_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_model("gpt2")
    editor, session = AlphaEdit(SMALL), make_session(model, root=tmp_path)
    real, calls = average_keys, []

    def fails(*args: Any) -> Tensor:
        calls.append(args)
        if len(calls) == 4:  # the second edit's, at its second layer
            raise ZeroDivisionError
        return real(*args)

    monkeypatch.setattr("ke_weights.locate_editor.average_keys", fails)
    with editor.edit(session, [MOVE_TOWER]):
        with pytest.raises(ZeroDivisionError), editor.edit(session, [MOVE_GATE]):
            pass
        assert [len(batches) for batches in editor._earlier._values.values()] == [1]


def test_second_edit_preserves_the_key_of_the_first(tmp_path: Path) -> None:
    model = tiny_model("gpt2", dtype="float64")
    config = evolve(SMALL, layers=(2,), l2=1e-3, nullspace_threshold=1e3)  # all directions: the edits' keys decide
    editor, session, plain = AlphaEdit(config), make_session(model, root=tmp_path), ReferenceModel(model, "gpt2")
    moved = []
    for forget in (False, True):
        with editor.edit(session, [MOVE_TOWER]) as first:
            plain.templates = first.details["templates"]  # type: ignore[assignment]
            key, before = plain.grouped_key(MOVE_TOWER, 2), plain.weight(2)
            (batches,) = editor._earlier._values.values()
            kept = batches.copy()
            if forget:
                batches.clear()
            with editor.edit(session, [MOVE_GATE]):
                moved.append(float((plain.change(2, before) @ key).norm()))
            batches[:] = kept
    assert moved[0] < 0.5 * moved[1]


def test_update_does_not_depend_on_reverted_edits(tmp_path: Path) -> None:
    editor, session = AlphaEdit(SMALL), make_session(tiny_model("llama"), root=tmp_path)
    norms = []
    for edits in (EDITS[:1], EDITS[1:], EDITS, EDITS[:1]):
        with editor.edit(session, edits) as edited:
            norms.append(edited.details["relative_update_norms"])
    assert norms[0] == norms[3] != norms[1]


def test_each_model_has_its_own_null_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is computed once, at the first edit."""
    taken: list[KeyCovariance] = []
    real = editor_module.null_space
    monkeypatch.setattr(
        editor_module, "null_space", lambda covariance, *more: taken.append(covariance) or real(covariance, *more)
    )
    editor = AlphaEdit(SMALL)
    sessions = [make_session(tiny_model("llama", seed=seed), root=tmp_path) for seed in (0, 1)]
    spaces = []
    for session in sessions:
        for edit in EDITS:
            with editor.edit(session, [edit]) as edited:
                spaces.append(edited.details["null_spaces"])
    assert spaces[0] == spaces[1] != spaces[2] == spaces[3]
    assert len(taken) == 4
    with editor.edit(sessions[0], EDITS[:1]), editor.edit(sessions[1], EDITS[:1]) as other:
        assert other.details["null_spaces"] == spaces[2]


OWN = {
    ("gpt2", 48, 1600, 6400): (10.0, "AlphaEdit's authors"),
    ("gptj", 28, 4096, 16384): (10.0, "AlphaEdit's authors"),
    ("llama", 32, 4096, 14336): (10.0, "AlphaEdit's authors"),
    ("qwen2", 28, 3584, 18944): (1.0, "EasyEdit"),
}
"""Models with published configurations of AlphaEdit: l2, and who published it."""


@pytest.mark.parametrize("key", OWN, ids=lambda key: f"{key[0]}-{key[1]}-{key[3]}")
def test_published_model_gets_its_threshold_and_ridge(key: Any) -> None:
    found = derive(AlphaEditConfig(), facts_of(*key))
    l2, source = OWN[key]
    assert (found["nullspace_threshold"].value, found["l2"].value) == (0.02, l2)
    assert found["layers"].value == PUBLISHED_MULTI_LAYER[key].values["layers"]
    assert all(one.reason.startswith("published for") and source in one.reason for one in found.values())


@pytest.mark.parametrize(
    "key", [key for key in PUBLISHED_MULTI_LAYER if key not in OWN], ids=lambda key: f"{key[0]}-{key[1]}-{key[3]}"
)
def test_model_published_for_memit_only_gets_derived_threshold_and_ridge(key: Any) -> None:
    found = derive(AlphaEditConfig(), facts_of(*key))
    assert (found["nullspace_threshold"].value, found["l2"].value) == (None, None)
    assert "published" not in found["nullspace_threshold"].reason + found["l2"].reason
    for name, value in PUBLISHED_MULTI_LAYER[key].values.items():
        assert (found[name].value, found[name].reason) == (value, f"MEMIT's, {PUBLISHED_MULTI_LAYER[key].reason}")


def test_given_or_traced_layers_replace_memits() -> None:
    neox = facts_of("gpt_neox", 44, 6144, 24576)
    with pytest.raises(BadConfig, match="no causal trace"):
        derive(AlphaEditConfig(layers="trace"), neox)
    given = derive(AlphaEditConfig(layers=(1, 2), lr=0.1), neox)
    assert (given["layers"].reason, given["lr"].reason) == ("given", "given")


def test_unknown_model_gets_derived_threshold_and_ridge() -> None:
    found = derive(AlphaEditConfig(l2=2.0), facts_of("llama", 30, 576, 1536))
    assert found["nullspace_threshold"].value is None
    assert "mean eigenvalue of C" in found["nullspace_threshold"].reason
    assert (found["l2"].value, found["l2"].reason) == (2.0, "given")
