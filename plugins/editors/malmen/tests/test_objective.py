"""One training step, and one edit, against the published equations written out."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.func import functional_call

from ke_plugin_hf.testing import tiny_model
from ke_plugin_malmen import MalmenConfig, RLEditConfig
from ke_plugin_malmen.network import MalmenNetwork
from ke_plugin_malmen.objective import SequenceWeights, sequence_step
from ke_weights.plugin import frozen_module, map_orientation
from ke_weights.testing.hypernetwork import shaken

WEIGHTS = SequenceWeights(edit=1.0, locality=0.6, shift=1e-2, discount=0.95)


class PlainSequence:
    """Steps of a sequence: one edit at a time, weights and S formed, S differentiated by autograd."""

    def __init__(self, model: Any, network: MalmenNetwork) -> None:
        self.model, self.module, self.network = model, model.module, network
        self.sums = {name: torch.zeros(shape) for name, shape in network.shapes.items()}

    def changed(self, sums: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return the weights with the shifts added, as stored."""
        parts = {name: self.module.get_submodule(name) for name in sums}
        return {f"{name}.weight": part.weight + map_orientation(part, sums[name].T) for name, part in parts.items()}

    def logits(self, sums: dict[str, Tensor], ids: Tensor) -> Tensor:
        found: Tensor = functional_call(self.module, self.changed(sums), (ids,)).logits
        return found

    def nll(self, logits: Tensor, of: Any, at: int) -> Tensor:
        mine = of.row == at
        return -logits[0, of.column[mine]].log_softmax(-1)[range(int(mine.sum())), of.token[mine]].mean()

    def factors(self, batch: Any) -> dict[str, tuple[Tensor, Tensor]]:
        """Return inputs and gradients of the outputs at the answer positions of all edits."""
        pieces: dict[str, list[tuple[Tensor, Tensor]]] = {name: [] for name in self.sums}
        for at in range(len(batch.inner.ids)):
            seen: dict[str, Any] = {}
            handles = [
                self.module.get_submodule(name).register_forward_hook(
                    lambda _m, args, out, name=name, seen=seen: seen.__setitem__(name, (args[0], out.requires_grad_()))
                )
                for name in self.sums
            ]
            loss = self.nll(self.logits(self.sums, row(batch.inner, at)), batch.inner, at)
            for handle in handles:
                handle.remove()
            gradients = torch.autograd.grad(loss, [seen[name][1] for name in self.sums])
            columns = batch.inner.column[batch.inner.row == at]
            for name, gradient in zip(self.sums, gradients, strict=True):
                pieces[name].append((seen[name][0][0, columns].detach(), gradient[0, columns]))
        joined = {name: tuple(map(torch.cat, zip(*pairs, strict=True))) for name, pairs in pieces.items()}
        return {name: (u, g) for name, (u, g) in joined.items()}

    def changes(self, name: str, u: Tensor, g: Tensor) -> Tensor:
        """Return D of MALMEN section 3.1, with the layers written out."""
        network, part = self.network, self.network.network(name)
        number = [other for other in network.shapes if network.shapes[other] == network.shapes[name]].index(name)
        y = torch.cat([part.norm_x(u), part.norm_g(g)], dim=1)
        for layer in part.layers:
            y = y + layer.scale[number] * (y @ (layer.u @ layer.v).T + layer.b).clamp(min=0) + layer.shift[number]  # type: ignore[operator,index]
        eta = torch.log1p(network.steps.exp())[list(network.shapes).index(name)]
        u_new, g_new = y[:, : u.shape[1]], y[:, u.shape[1] :]
        return torch.stack([-eta * (a @ b) * c for a, b, c in zip(u, u_new, g_new, strict=True)])

    def step(self, batches: list[Any], weights: SequenceWeights) -> Tensor:
        """Return L, which autograd differentiates through S, and add S to the sums."""
        found = self.factors(batches[0])
        for name, (u, g) in found.items():
            self.network.network(name).norm_x.update(u)
            self.network.network(name).norm_g.update(g)
        before, after, total = self.sums, {}, torch.zeros(())
        for name, (u, g) in found.items():
            ridge = self.network.ridges[list(self.network.shapes).index(name)].exp()
            inverse = torch.linalg.inv(u.T @ u + ridge * torch.eye(u.shape[1], dtype=u.dtype))
            s = inverse @ u.T @ self.changes(name, u, g)
            after[name] = before[name] + s
            total = total + weights.shift * s.square().sum()
        for age, batch in enumerate(batches):
            edits = len(batch.inner.ids)
            for at in range(edits):
                edit = self.nll(self.logits(after, row(batch.outer, at)), batch.outer, at)
                other = batch.ids[at : at + 1, : int(batch.mask[at].sum())]
                base = self.logits(before, other).log_softmax(-1).detach()
                now = self.logits(after, other).log_softmax(-1)
                locality = (base.exp() * (base - now)).sum(-1).mean()
                total = total + weights.discount**age * (edit + weights.locality * locality) / edits
        self.sums = {name: one.detach() for name, one in after.items()}
        return total


def row(of: Any, at: int) -> Tensor:
    ids: Tensor = of.ids[at : at + 1, : int(of.mask[at].sum())]
    return ids


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_two_steps_equal_autograd_through_the_solution(family: Any, kit: Any, tmp_path: Path) -> None:
    model = tiny_model(family, dtype="float64")
    training = kit.begin("rledit", model, tmp_path)
    network, other = shaken(training), copy.deepcopy(training.network)
    old, new = (training.sampler.batch(start, 2, model.device) for start in (0, 2))
    plain, shifts = PlainSequence(model, other), {}
    plain.sums = {name: one.double() for name, one in plain.sums.items()}
    tight = 1e-8 if family == "gpt2" else 1e-5  # rotary embeddings are float32 in any model
    for batches in ([old], [new, old]):
        network.zero_grad()
        other.zero_grad()
        with frozen_module(model.module), torch.enable_grad():
            ours = sequence_step(model.module, network, batches, shifts, WEIGHTS)
            theirs = plain.step(batches, WEIGHTS)
            theirs.backward()
        shifts = ours.shifts
        assert float(ours.losses.total) == pytest.approx(float(theirs.detach()), rel=max(tight, 1e-7))
        for name, s in plain.sums.items():
            assert float((shifts[name] - s).norm() / s.norm()) < tight, name
        for (name, mine), (_name, its) in zip(network.named_parameters(), other.named_parameters(), strict=True):
            assert mine.grad is not None, name
            assert its.grad is not None, name
            assert float(its.grad.norm()) > 0, name
            assert float((mine.grad - its.grad).norm() / its.grad.norm()) < max(tight, 1e-6), name


def test_gradient_equals_finite_differences(kit: Any, tmp_path: Path) -> None:
    model = tiny_model("gpt2", dtype="float64")
    training = kit.begin("malmen", model, tmp_path)
    network = shaken(training)
    batch = training.sampler.batch(0, 2, model.device)

    def loss(of: MalmenNetwork) -> float:
        with frozen_module(model.module), torch.enable_grad():
            return float(sequence_step(model.module, of, [batch], {}, WEIGHTS).losses.total)

    with frozen_module(model.module), torch.enable_grad():
        sequence_step(model.module, network, [batch], {}, WEIGHTS)
    for name, parameter in network.named_parameters():
        assert parameter.grad is not None
        place = int(parameter.grad.abs().argmax())
        found = []
        for change in (1e-5, -1e-5):
            # The normalizers are those before the step, so that both sides update them the same way.
            moved = shaken(kit.begin("malmen", model, tmp_path))
            with torch.no_grad():
                dict(moved.named_parameters())[name].view(-1)[place] += change
            found.append(loss(moved))
        slope = (found[0] - found[1]) / 2e-5
        assert float(parameter.grad.view(-1)[place]) == pytest.approx(slope, rel=1e-5), name


def test_first_step_of_a_sequence_is_a_step_of_malmen(kit: Any, tmp_path: Path) -> None:
    """With equal weights of the terms and without |S|^2."""
    model = tiny_model("llama")
    same: dict[str, Any] = {"locality_weight": 1.0, "rank": 8, "batch": 2, "modules": ("down:2",)}
    configs = {"malmen": MalmenConfig(**same), "rledit": RLEditConfig(**same, shift_weight=0.0)}
    one, other = (kit.begin(name, model, tmp_path, config) for name, config in configs.items())
    other.network = one_layered = one.network.__class__(one.network.shapes, rank=8, layers=2, step=1e-4, positive=True)
    one.network.load_state_dict(one_layered.state_dict())
    steps = []
    for training in (one, other):
        with frozen_module(model.module), torch.enable_grad():
            steps.append(training.compute())
    assert torch.equal(steps[0].total, steps[1].total)
    for mine, its in zip(one.network.parameters(), other.network.parameters(), strict=True):
        assert mine.grad is not None
        assert its.grad is not None
        assert torch.equal(mine.grad, its.grad)


def test_untrained_network_is_the_identity_on_normalized_factors(kit: Any, tmp_path: Path) -> None:
    training = kit.begin("rledit", tiny_model("llama"), tmp_path)
    training.advance()
    network = kit.begin("rledit", tiny_model("llama"), tmp_path).network
    name = next(iter(network.shapes))
    part = network.network(name)
    u, g = torch.randn(7, network.shapes[name][0]), torch.randn(7, network.shapes[name][1])
    part.norm_x.update(u)
    part.norm_g.update(g)
    found = part(u, g, 0)
    assert torch.equal(found[0], part.norm_x(u))
    assert torch.equal(found[1], part.norm_g(g))
