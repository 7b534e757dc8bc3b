"""NSE on tiny models against a reference implementation, and its limits."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from attrs import evolve
from torch import Tensor

from ke_core.plugin import Cloze, Edit
from ke_plugin_hf.testing import Family, tiny_model
from ke_plugin_nse.editor import _Passes, most_active
from ke_testing.examples import FOUR_MOVES
from ke_testing.fakes import make_session
from ke_weights.testing.reference_edits import ReferenceModel
from ke_weights.testing.reference_memit import LAYERS, LIMITS, ReferenceMemit, distances
from ke_weights.testing.weights import changes, weights_of
from ke_weights.testing.wrapping import wrapped_editor

pytestmark = pytest.mark.usefixtures("one_thread")
ALL = {"alpha": "0", "upper": "1e9", "p": "1", "passes": "1"}
"""Options that write every neuron of every edit once."""


class ReferenceNse(ReferenceMemit):
    """Algorithm of section 3 with explicit loops over passes, layers and neurons."""

    alpha, upper, p, passes = 0.0, 1e9, 1.0, 1

    def target(self, edit: Edit) -> Tensor:
        """Return z of the original weights."""
        now = {layer: self.model.weight(layer) for layer in LAYERS}
        for layer in LAYERS:
            self.model.put(layer, self.originals[layer].to(now[layer].dtype))
        z = super().target(edit)
        for layer in LAYERS:
            self.model.put(layer, now[layer])
        return z

    def batch(self, edits: Sequence[Edit]) -> dict[int, Tensor]:
        self.sums = getattr(self, "sums", {layer: torch.zeros_like(c) for layer, c in self.covariances.items()})
        z = {edit.id: self.target(edit) for edit in edits}
        for _ in range(self.passes):
            off = {edit.id: float((z[edit.id] - self.state(edit)).norm()) for edit in edits}
            chosen = [edit for edit in edits if self.alpha < off[edit.id] < self.upper]
            if not chosen:
                break
            for place, layer in enumerate(LAYERS):
                keys = self.keys(chosen, layer)
                residual = torch.stack([z[edit.id] - self.state(edit) for edit in chosen], 1) / (len(LAYERS) - place)
                self.add(layer, self.solved(layer, keys, residual))
        for layer in LAYERS:
            keys = self.keys(edits, layer)
            self.sums[layer] += keys @ keys.T
        return {layer: self.final(layer) for layer in LAYERS}

    def solved(self, layer: int, keys: Tensor, residual: Tensor) -> Tensor:
        """Return the update of the chosen columns; the other columns are zero."""
        scores = keys.abs().sum(1)
        chosen: list[int] = []
        for neuron in sorted(range(len(scores)), key=lambda at: -float(scores[at])):
            if float(scores[[*chosen, neuron]].sum()) <= self.p * float(scores.sum()) + 1e-9:
                chosen.append(neuron)
            else:
                break
        normal = (self.normal(layer, keys) + self.sums[layer])[chosen][:, chosen]
        update = torch.zeros(len(residual), len(keys), dtype=torch.float64)
        update[:, chosen] = residual @ keys[chosen].T @ torch.linalg.inv(normal)
        return update


class ReferencePasses(ReferenceNse):
    """Three passes with 80% of the activations; some edits are near in time, and some are too far away."""

    alpha, upper, p, passes = 1.5, 12.5, 0.8, 3


@pytest.mark.parametrize(("family", "dtype"), LIMITS)
def test_all_neurons_in_one_pass_equal_the_reference(family: Family, dtype: str, tmp_path: Path) -> None:
    assert max(distances("nse", ReferenceNse, family, dtype, tmp_path, ALL)) < LIMITS[family, dtype]


@pytest.mark.parametrize(("family", "dtype"), LIMITS)
def test_selected_neurons_in_passes_equal_the_reference(family: Family, dtype: str, tmp_path: Path) -> None:
    reference = ReferencePasses
    options = {name: str(getattr(reference, name)) for name in ("alpha", "upper", "p", "passes")}
    assert max(distances("nse", reference, family, dtype, tmp_path, options)) < LIMITS[family, dtype]


def test_only_the_selected_columns_change(tmp_path: Path) -> None:
    model = tiny_model("llama")
    plain, editor = ReferenceModel(model, "llama"), wrapped_editor("nse", ALL | {"p": "0.5"})
    before = {layer: plain.weight(layer) for layer in LAYERS}
    with editor.edit(make_session(model, root=tmp_path), FOUR_MOVES[:1]):
        for layer in LAYERS:
            columns = (plain.weight(layer) != before[layer]).any(0)
            assert 0 < int(columns.sum()) < len(columns) / 2


def test_neurons_are_selected_by_their_cumulative_score() -> None:
    keys = torch.tensor([[1.0, -1.0], [4.0, 0.0], [0.0, 0.0], [-1.5, 1.5], [0.5, 0.5]])  # scores 2, 4, 0, 3, 1
    assert most_active(keys, 1.0).tolist() == [0, 1, 2, 3, 4]
    assert most_active(keys, 0.9).tolist() == [0, 1, 3]
    assert most_active(keys, 0.7).tolist() == [1, 3]
    assert most_active(keys, 0.01).tolist() == [1]


@pytest.mark.parametrize(("option", "above"), [("alpha", set()), ("upper", {edit.id for edit in FOUR_MOVES})])
def test_edits_outside_the_limits_are_not_written_and_those_above_are_reported(
    option: str, above: set[str], tmp_path: Path
) -> None:
    model = tiny_model("gpt2")
    before = weights_of(model)
    editor = wrapped_editor("nse", ALL | {option: "1e6" if option == "alpha" else "1e-6"})
    with editor.edit(make_session(model, root=tmp_path), FOUR_MOVES) as edited:
        assert not changes(model, before)
        details: Any = edited.details
    assert (details["passes"], set(details["above_upper"])) == ([], above)
    assert ("4 edits were not written" in details.get("warning", "")) == bool(above)


@pytest.mark.parametrize(
    ("seen", "above"),
    [
        (([1.0, 20.0], [20.0, 5.0], [20.0, 20.0]), {}),  # each is in one pass, and ends far from its target
        (([1.0, 20.0], [1.0, 30.0], [1.0, 5.0]), {FOUR_MOVES[1].id: 30.0}),  # the second one is in no pass
        (([1.0, 0.1], [1.0, 0.1], [1.0, 20.0]), {}),  # the second one is finished from the start
    ],
)
def test_edits_are_reported_as_not_written_if_no_pass_wrote_them(
    seen: Any, above: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    distances_ = iter(seen)
    monkeypatch.setattr(_Passes, "_left", lambda _self: torch.tensor([next(distances_)], dtype=torch.float64))
    editor = wrapped_editor("nse", ALL | {"alpha": "0.5", "upper": "10", "passes": "2"})
    with editor.edit(make_session(tiny_model("gpt2"), root=tmp_path), FOUR_MOVES[:2]) as edited:
        details: Any = edited.details
    assert details["above_upper"] == above
    assert ("not written" in details.get("warning", "")) == bool(above)


def test_targets_do_not_depend_on_earlier_edits(tmp_path: Path) -> None:
    """The target of the second edit is that of the original model, and its cached file is used."""
    session = make_session(tiny_model("llama"), root=tmp_path)
    editor = wrapped_editor("nse", ALL)
    with editor.edit(session, FOUR_MOVES[1:2]) as edited:
        alone: Any = edited.details
    files = set((tmp_path / "targets").iterdir())
    with editor.edit(session, FOUR_MOVES[:1]):
        seen = set((tmp_path / "targets").iterdir())
        with editor.edit(session, FOUR_MOVES[1:2]) as edited:
            later: Any = edited.details
        assert set((tmp_path / "targets").iterdir()) == seen > files
    assert later["edits"] != alone["edits"]  # the remaining distance differs
    without = [{name: value for name, value in one["edits"][FOUR_MOVES[1].id].items() if name != "missed"}
               for one in (alone, later)]  # fmt: skip
    assert without[0] == without[1]


def test_further_passes_reach_the_targets(tmp_path: Path) -> None:
    session = make_session(tiny_model("gpt2"), root=tmp_path)
    missed = []
    for passes in (1, 2, 3):
        with wrapped_editor("nse", ALL | {"passes": str(passes)}).edit(session, FOUR_MOVES) as edited:
            details: Any = edited.details
        assert len(details["passes"]) == passes
        missed.append(sum(one["missed"] for one in details["edits"].values()))
    assert missed == sorted(missed, reverse=True)
    assert missed[2] < missed[0] / 5


def test_update_wrappers_filter_the_sum_of_all_passes(tmp_path: Path) -> None:
    """A wrapper that changes nothing leaves the result of two passes."""
    found = []
    for name, more in (("nse", {}), ("nse+rect", {"rect.keep": "1"})):
        model = tiny_model("llama")
        before = weights_of(model)
        editor = wrapped_editor(name, ALL | {"passes": "2"} | more)
        with editor.edit(make_session(model, root=tmp_path / name), FOUR_MOVES[:2]) as edited:
            found.append((changes(model, before), edited.details["relative_update_norms"]))
    (plain, norms), (wrapped, wrapped_norms) = found
    assert set(plain) == set(wrapped)
    for name, change in plain.items():
        torch.testing.assert_close(wrapped[name], change, rtol=1e-4, atol=1e-6)
    assert wrapped_norms == pytest.approx(norms, rel=1e-5)


def test_kept_keys_are_those_of_the_weights_that_a_wrapper_leaves(tmp_path: Path) -> None:
    model = tiny_model("gpt2")
    editor: Any = wrapped_editor("nse+rect", ALL | {"rect.keep": "0.01"})
    with editor.edit(make_session(model, root=tmp_path), FOUR_MOVES[:1]):
        ((context, (kept,)),) = editor._history._values.items()
        plain = ReferenceModel(model, "gpt2", context.templates)
        for layer in LAYERS:
            expected = plain.grouped_key(FOUR_MOVES[0], layer)
            torch.testing.assert_close(kept[layer][:, 0].to(expected), expected, rtol=1e-5, atol=1e-6)


def test_trace_holds_the_update_of_all_passes(tmp_path: Path) -> None:
    model = tiny_model("gpt2", dtype="float64")
    plain, editor = ReferenceModel(model, "gpt2"), wrapped_editor("nse", ALL | {"passes": "2"})
    before, trace = {layer: plain.weight(layer) for layer in LAYERS}, editor.traced()
    with editor.edit(make_session(model, root=tmp_path), FOUR_MOVES[:2]):
        (batch,) = trace.batches
        for layer in LAYERS:
            made = batch.layers[layer]
            assert made.keys.shape[1] == made.residuals.shape[1] == 4
            torch.testing.assert_close(torch.tensor(made.update), plain.change(layer, before[layer]))


def abandoning_the_last(wanted: Tensor, value: Tensor, _anchor: float, _limit: float) -> tuple[Tensor, Tensor]:
    """Abandon the last edit of the batch, and scale no other."""
    gone = torch.arange(wanted.shape[1]) == wanted.shape[1] - 1
    return torch.where(gone, value, wanted), gone


def test_abandoned_edits_are_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their target is a state of the original weights. That of the edited ones is another one, and stays."""
    first, other = FOUR_MOVES[:1], FOUR_MOVES[1:2]
    abandoned = evolve(FOUR_MOVES[0], id="abandoned", cloze=Cloze(template="{} was built by", subject="Eiffel Tower"))
    found: list[dict[str, Tensor]] = []
    for batch in ([abandoned], other, [*other, abandoned]):
        model, editor = tiny_model("llama", dtype="float64"), wrapped_editor("nse+nas", ALL | {"nas.anchor": "0"})
        session, nas = make_session(model, root=tmp_path), editor.wrappers["nas"]
        with editor.edit(session, first), monkeypatch.context() as patch:
            before = weights_of(model)
            if abandoned in batch:
                nas.config = evolve(nas.config, anchor=1.0)
                patch.setattr("ke_plugin_nas.wrapper.scale_to", abandoning_the_last)
            with editor.edit(session, batch) as edited:
                details: Any = edited.details
                found.append(changes(model, before))
            assert details["wrappers"]["nas"].get("abandoned", []) == [abandoned.id] * (abandoned in batch)
            assert not details["above_upper"]
    nothing, plain, both = found
    assert not nothing
    assert set(plain) == set(both) != set()
    for name, change in plain.items():
        torch.testing.assert_close(both[name], change, rtol=1e-9, atol=1e-12)
