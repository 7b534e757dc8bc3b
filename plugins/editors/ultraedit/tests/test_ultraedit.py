"""UltraEdit on tiny models against a plain implementation: one edit and one token at a time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from attrs import evolve
from torch import Tensor

from ke_core.plugin import BadData, Edit, EditFailed, UnsupportedChange
from ke_plugin_hf.testing import Family, tiny_model
from ke_plugin_ultraedit import UltraEditConfig
from ke_plugin_ultraedit.editor import UltraEdit, UltraEditedModel
from ke_plugin_ultraedit.normalizer import RunningStatistics
from ke_plugin_ultraedit.shifts import Features, shift, values
from ke_testing.examples import MOVE_GATE, MOVE_TOWER
from ke_testing.fakes import make_session
from ke_weights.plugin import Delta, Dense, LowRank, Patch, dense, layer_gradients, map_orientation, rewrite, target_ids
from ke_weights.testing.reference_edits import off
from ke_weights.testing.weights import changes, weights_of

ETA = 1e-3
EDITS = (MOVE_TOWER, MOVE_GATE)
NAMES = {
    "llama": ("model.layers.1.mlp.up_proj", "model.layers.2.mlp.up_proj", "model.layers.2.mlp.down_proj"),
    "gpt2": ("transformer.h.1.mlp.c_fc", "transformer.h.2.mlp.c_fc", "transformer.h.2.mlp.c_proj"),
}
CONFIG = UltraEditConfig(modules=("up:1-2", "down:2"), eta=ETA, batch=1)


class PlainUltraEdit:
    """Section 3 of the paper with explicit loops. It keeps every feature and computes mean and deviation from them."""

    def __init__(self, model: Any, names: Sequence[str]) -> None:
        self.model, self.names = model, names
        self.seen: dict[tuple[int, int], list[Tensor]] = {}

    def pairs(self, edit: Edit) -> dict[str, list[tuple[Tensor, Tensor]]]:
        """Return (h, g) of each linear map at the positions that predict a token of the answer."""
        one, kept = rewrite(edit), {}
        prompt = self.model.encode(one.prompt)
        answer = list(target_ids(self.model.tokenizer, one.prompt, one.target))
        handles = []
        for name in self.names:

            def hook(_module: Any, args: Any, output: Tensor, name: str = name) -> Tensor:
                output = output if output.requires_grad else output.requires_grad_()
                output.retain_grad()
                kept[name] = (args[0], output)
                return output

            handles.append(self.model.module.get_submodule(name).register_forward_hook(hook))
        logs = self.model.module(input_ids=torch.tensor([prompt + answer])).logits[0].log_softmax(-1)
        at = [len(prompt) - 1 + j for j in range(len(answer))]
        (-logs[at, answer].mean()).backward()
        for handle in handles:
            handle.remove()
        return {name: [(x[0, t].detach().double(), y.grad[0, t].double()) for t in at] for name, (x, y) in kept.items()}

    def turn(self, edits: Sequence[Edit], batch: int) -> dict[str, Tensor]:
        """Return S^T of each linear map for one turn, and add it to the weights."""
        found = [self.pairs(edit) for edit in edits]
        if batch > 1:  # one mini-batch: its loss is the mean over the tokens of all edits
            every = sum(len(pairs[self.names[0]]) for pairs in found)
            found = [
                {name: [(h, g * len(tokens) / every) for h, g in tokens] for name, tokens in pairs.items()}
                for pairs in found
            ]
        for pairs in found:
            for name in self.names:
                self.seen.setdefault(self.shape(name), []).extend(torch.cat(pair) for pair in pairs[name])
        shifts = {}
        for name in self.names:
            every = torch.stack(self.seen[self.shape(name)])
            mean, deviation = every.mean(0), every.std(0)
            tokens = [pair for pairs in found for pair in pairs[name]]
            wanted = []
            for h, g in tokens:
                unit = (torch.cat([h, g]) - mean) / (deviation + torch.finfo(torch.float32).eps)
                wanted.append(-ETA * float(unit[: len(h)] @ unit[: len(h)]) * unit[len(h) :])
            hidden, change = torch.stack([h for h, _g in tokens]), torch.stack(wanted)
            identity = torch.eye(hidden.shape[1], dtype=hidden.dtype)
            shifts[name] = (torch.linalg.inv(hidden.T @ hidden + identity) @ hidden.T @ change).T
        for name, change in shifts.items():
            owner = self.model.module.get_submodule(name)
            map_orientation(owner, owner.weight.data).add_(change.to(owner.weight.dtype))
        return shifts

    def shape(self, name: str) -> tuple[int, int]:
        owner = self.model.module.get_submodule(name)
        rows, columns = map_orientation(owner, owner.weight).shape
        return columns, rows


def oriented(model: Any, found: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return changes by the name of the linear map, as [out, in]."""
    named = {name.removesuffix(".weight"): tensor for name, tensor in found.items()}
    return {name: map_orientation(model.module.get_submodule(name), tensor) for name, tensor in named.items()}


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_two_turns_equal_the_reference(family: Family, batch: int, tmp_path: Path) -> None:
    plain = PlainUltraEdit(tiny_model(family), NAMES[family])
    plain.model.module.requires_grad_(requires_grad=True)
    model = tiny_model(family)
    before = weights_of(model)
    config = evolve(CONFIG, batch=batch)
    with UltraEdit(config).edit(make_session(model, root=tmp_path), EDITS) as edited:
        first = plain.turn(EDITS, batch)
        ours = oriented(model, changes(model, before))
        assert ours.keys() == first.keys()
        for name, expected in first.items():
            assert off(ours[name].double(), expected) < 1e-5
        middle = weights_of(model)
        edited.change(add=[MOVE_GATE])
        second, ours = plain.turn([MOVE_GATE], 1), oriented(model, changes(model, middle))
        for name, expected in second.items():
            assert off(ours[name].double(), expected) < 1e-5


def test_statistics_of_batches_equal_those_of_all_features() -> None:
    torch.manual_seed(0)
    features = 3 + 2 * torch.randn(23, 7, dtype=torch.float64)
    found = RunningStatistics.empty(features)
    for part in features.split([1, 4, 10, 8]):
        found = found.updated(part, released=False)
    assert found.count == 23
    torch.testing.assert_close(found.mean, features.mean(0))
    torch.testing.assert_close((found.squares / 22).sqrt(), features.std(0))


def test_released_deviation_is_too_large() -> None:
    """The released rule adds n times the unbiased variance of n rows: for batches of 4, 4/3 of their squares."""
    torch.manual_seed(0)
    features = torch.randn(400, 6, dtype=torch.float64)
    exact = released = RunningStatistics.empty(features)
    for part in features.split(4):
        exact, released = exact.updated(part, released=False), released.updated(part, released=True)
    ratio = (released.squares / exact.squares).sqrt()
    assert ((ratio > 1.10) & (ratio < 1.16)).all()


def test_statistics_are_shared_by_maps_of_one_shape(tmp_path: Path) -> None:
    with UltraEdit(CONFIG).edit(make_session(tiny_model("llama"), root=tmp_path), EDITS) as edited:
        assert isinstance(edited, UltraEditedModel)
        tokens = {shape: found.count for shape, found in edited.statistics.items()}
    (up, down) = tokens.values()
    assert up == 2 * down


@pytest.mark.parametrize("tokens", [3, 20])
def test_shift_minimizes_the_ridge_regression(tokens: int) -> None:
    torch.manual_seed(0)
    h, v = torch.randn(tokens, 8, dtype=torch.float64), torch.randn(tokens, 5, dtype=torch.float64)
    made = shift(Features(h=h, g=v), v)
    assert isinstance(made, LowRank if tokens < 8 else Dense)
    s = dense(made).T.clone().requires_grad_()
    (((h @ s - v) ** 2).sum() + (s**2).sum()).backward()
    assert s.grad is not None
    assert float(s.grad.abs().max()) < 1e-12


def test_value_is_the_normalized_gradient_times_the_squared_length_of_the_input() -> None:
    statistics = RunningStatistics(count=2, mean=torch.zeros(5).double(), squares=torch.ones(5).double())
    features = Features(h=torch.tensor([[3.0, 4.0]]), g=torch.tensor([[1.0, 0.0, -2.0]]))
    found = values(features, statistics, 0.1)
    torch.testing.assert_close(found, torch.tensor([[-2.5, 0.0, 5.0]]).double(), rtol=1e-6, atol=1e-6)


def test_nested_edit_continues_the_statistics(tmp_path: Path) -> None:
    nested, added = (tiny_model("llama") for _ in range(2))
    editor, session = UltraEdit(CONFIG), make_session(nested, root=tmp_path)
    with editor.edit(session, [MOVE_TOWER]), editor.edit(session, [MOVE_GATE]):
        digest = nested.digest
    with UltraEdit(CONFIG).edit(make_session(added, root=tmp_path), [MOVE_TOWER]) as edited:
        edited.change(add=[MOVE_GATE])
        assert added.digest == digest
        with pytest.raises(UnsupportedChange, match="cannot be removed"):
            edited.change(remove=[MOVE_GATE.id])


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
def test_loaded_model_is_the_saved_one_and_continues_the_same_sequence(tmp_path: Path, dtype: Any) -> None:
    model, path = tiny_model("gpt2", dtype=dtype), tmp_path / "state"
    with UltraEdit(CONFIG).edit(make_session(model, root=tmp_path), [MOVE_TOWER]) as edited:
        assert isinstance(edited, UltraEditedModel)
        edited.save(path)
        saved = model.digest
        edited.change(add=[MOVE_GATE])
        whole, details = model.digest, edited.details
    fresh = tiny_model("gpt2", dtype=dtype)
    unedited = fresh.digest
    with UltraEdit(CONFIG).load(make_session(fresh, root=tmp_path), path) as loaded:
        assert fresh.digest == saved
        loaded.change(add=[MOVE_GATE])
        assert fresh.digest == whole
        assert loaded.details == details
        assert loaded.details["edits_so_far"] == 2
    assert fresh.digest == unedited


def test_file_of_other_maps_or_dtype_is_rejected(tmp_path: Path) -> None:
    model, path = tiny_model("llama"), tmp_path / "state"
    with UltraEdit(CONFIG).edit(make_session(model, root=tmp_path), [MOVE_TOWER]) as edited:
        assert isinstance(edited, UltraEditedModel)
        edited.save(path)
    other = UltraEdit(UltraEditConfig(modules=("up:1",), eta=ETA))
    with pytest.raises(BadData, match="other linear maps"), other.load(make_session(model, root=tmp_path), path):
        pass
    half = make_session(tiny_model("llama", dtype="bfloat16"), root=tmp_path)
    with pytest.raises(BadData, match="another shape or dtype"), UltraEdit(CONFIG).load(half, path):
        pass
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    with pytest.raises(BadData, match="damaged"), UltraEdit(CONFIG).load(make_session(model, root=tmp_path), path):
        pass


def test_gradient_that_is_not_finite_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_model("llama")
    with UltraEdit(CONFIG).edit(make_session(model, root=tmp_path), [MOVE_TOWER]) as edited:
        before = model.digest
        with monkeypatch.context() as patched:
            patched.setattr("ke_plugin_ultraedit.turns.layer_gradients", without_gradients)
            with pytest.raises(EditFailed, match=MOVE_GATE.id):
                edited.change(add=[MOVE_GATE])
        assert isinstance(edited, UltraEditedModel)
        assert (model.digest, edited.edits, edited.turns) == (before, 1, 1)


@pytest.mark.parametrize("error", [EditFailed("full"), KeyboardInterrupt()])
def test_error_between_two_updates_changes_nothing(
    error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, add = tiny_model("gpt2"), Patch.add

    def add_or_raise(self: Patch, name: str, delta: Delta) -> None:
        if name.startswith(NAMES["gpt2"][1]):
            raise error
        add(self, name, delta)

    session = make_session(model, root=tmp_path)
    with model.recording() as recorded, UltraEdit(CONFIG).edit(session, [MOVE_TOWER]) as edited:
        before = model.digest
        with monkeypatch.context() as patched:
            patched.setattr(Patch, "add", add_or_raise)
            with pytest.raises(type(error)):
                edited.change(add=[MOVE_GATE])
        assert isinstance(edited, UltraEditedModel)
        assert (model.digest, edited.edits, edited.turns) == (before, 1, 1)
        assert {len(updates) for updates in recorded.deltas().values()} == {1}
        edited.change(add=[MOVE_GATE])
        after = model.digest
    with UltraEdit(CONFIG).edit(session, [MOVE_TOWER]) as edited:
        edited.change(add=[MOVE_GATE])
        assert model.digest == after


def without_gradients(*args: Any) -> Any:
    """Return gradients of which each number is NaN."""
    made = layer_gradients(*args)
    return evolve(made, gradients={name: one * float("nan") for name, one in made.gradients.items()})


@pytest.mark.parametrize(
    ("changes", "match"),
    [({"profile": "paper"}, "released variance is NaN"), ({"modules": ("up:2",)}, "features equal their mean")],
)
def test_features_of_one_token_without_variance_are_rejected(
    changes: dict[str, Any], match: str, tmp_path: Path
) -> None:
    assert MOVE_TOWER.after is not None
    entity = evolve(MOVE_TOWER.after.objects[0], label="the")
    edit = evolve(MOVE_TOWER, after=evolve(MOVE_TOWER.after, objects=(entity,)))
    session = make_session(tiny_model("llama"), root=tmp_path)
    editor = UltraEdit(evolve(CONFIG, **changes))
    with pytest.raises(EditFailed, match=match), editor.edit(session, [edit]):
        pass
