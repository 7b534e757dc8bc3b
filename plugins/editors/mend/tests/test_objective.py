"""One training step against autograd through the updated weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.func import functional_call

from ke_plugin_hf.testing import tiny_model
from ke_plugin_mend.network import MendNetwork
from ke_plugin_mend.objective import LossWeights, by_row, objective
from ke_weights.hypernetwork import divergence
from ke_weights.plugin import frozen_module, map_orientation
from ke_weights.testing.hypernetwork import shaken

WEIGHTS = LossWeights(0.1, 1.0)


def plain(model: Any, network: MendNetwork, examples: Any) -> tuple[Tensor, float]:
    """Equation 4, one edit at a time, with the updated weights formed."""
    module, total, inner = model.module, torch.zeros((), dtype=torch.float64), 0.0
    factors: dict[str, list[tuple[Tensor, Tensor]]] = {name: [] for name in network.shapes}

    def row(of: Any, at: int) -> Tensor:
        return of.ids[at : at + 1, : int(of.mask[at].sum())]

    def nll(logits: Tensor, of: Any, at: int) -> Tensor:
        mine = of.row == at
        return -logits[0, of.column[mine]].log_softmax(-1)[range(int(mine.sum())), of.token[mine]].mean()

    for at in range(len(examples.inner.ids)):
        seen: dict[str, Any] = {}
        handles = [
            module.get_submodule(name).register_forward_hook(
                lambda _m, args, out, name=name, seen=seen: seen.__setitem__(name, (args[0], out.requires_grad_()))
            )
            for name in network.shapes
        ]
        loss = nll(module(input_ids=row(examples.inner, at)).logits, examples.inner, at)
        for handle in handles:
            handle.remove()
        inner += float(loss.detach())
        gradients = torch.autograd.grad(loss, [seen[name][1] for name in network.shapes])
        for name, gradient in zip(network.shapes, gradients, strict=True):
            x, g = seen[name][0][0].detach(), gradient[0]
            kept = g.abs().sum(-1) > 0
            factors[name].append((x[kept], g[kept]))
    for name, pairs in factors.items():
        network.network(name).norm_x.update(torch.cat([x for x, _g in pairs]))
        network.network(name).norm_g.update(torch.cat([g for _x, g in pairs]))
    numbers = {name: n for n, name in enumerate(network.shapes)}
    within = {name: [k for k in network.shapes if network.shapes[k] == network.shapes[name]].index(name)
              for name in network.shapes}  # fmt: skip
    for at in range(len(examples.inner.ids)):
        changed = {}
        for name in network.shapes:
            x, g = network.network(name)(*factors[name][at], within[name])
            delta = network.steps[numbers[name]] * sum(torch.outer(b, a) for a, b in zip(x, g, strict=True))
            part = module.get_submodule(name)
            stored = part.weight
            changed[f"{name}.weight"] = stored + map_orientation(part, delta)
        after = functional_call(module, changed, (row(examples.outer, at),)).logits
        edit = nll(after, examples.outer, at)
        other = examples.ids[at : at + 1, : int(examples.mask[at].sum())]
        base = module(input_ids=other).logits.log_softmax(-1).detach()
        now = functional_call(module, changed, (other,)).logits.log_softmax(-1)
        total = total + 0.1 * edit + (base.exp() * (base - now)).sum(-1).mean()
    return total / len(examples.inner.ids), inner / len(examples.inner.ids)


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_gradient_equals_autograd_through_updated_weights(family: Any, kit: Any, tmp_path: Path) -> None:
    model = tiny_model(family, dtype="float64")
    training, again = (kit.begin("mend", model, tmp_path) for _ in range(2))
    network, other = shaken(training), shaken(again)
    for one in (network, other):
        one.steps.data.copy_(-1e-3 * torch.arange(1, len(one.steps) + 1))
    examples = training.sampler.batch(0, 2, model.device)
    with frozen_module(model.module), torch.enable_grad():
        ours = objective(model.module, network, examples, WEIGHTS)
        ours.total.backward()
        theirs, before = plain(model, other, examples)
        theirs.backward()
    tight = 1e-9 if family == "gpt2" else 1e-5  # rotary embeddings are float32 in any model
    assert float(ours.total.detach()) == pytest.approx(float(theirs.detach()), rel=max(tight, 1e-7))
    assert ours.before == pytest.approx(before, rel=1e-6)
    for (name, mine), (_name, its) in zip(network.named_parameters(), other.named_parameters(), strict=True):
        assert mine.grad is not None, name
        assert its.grad is not None, name
        assert float(its.grad.norm()) > 0, name
        assert float((mine.grad - its.grad).norm() / its.grad.norm()) < max(tight, 1e-6), name


def test_kl_is_zero_for_equal_logits_and_not_symmetric() -> None:
    draw = torch.Generator().manual_seed(0)
    one, two = (torch.randn(2, 3, 5, generator=draw) for _ in range(2))
    mask = torch.tensor([[1, 1, 1], [1, 0, 0]])
    assert float(divergence(one, one, mask).abs().max()) < 1e-7
    assert not torch.allclose(divergence(one, two, mask), divergence(two, one, mask), rtol=1e-2)
    poisoned = two.clone()
    poisoned[1, 1:] = 100.0
    assert torch.equal(divergence(one, two, mask), divergence(one, poisoned, mask))


def test_tokens_are_placed_in_their_rows() -> None:
    vectors, row = torch.arange(1.0, 7).reshape(3, 2), torch.tensor([0, 2, 2])
    assert by_row(vectors, row, 3).tolist() == [[[1, 2], [0, 0]], [[0, 0], [0, 0]], [[3, 4], [5, 6]]]
