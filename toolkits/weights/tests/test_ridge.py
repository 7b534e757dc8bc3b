"""The shift of a linear map against its least-squares problem."""

from __future__ import annotations

import pytest
import torch

from ke_core.plugin import EditFailed
from ke_weights.plugin import RidgeShift
from ke_weights.testing.reference_edits import off
from ke_weights.testing.weights import whole_of

RIDGE = 0.7


def problem(tokens: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return U [T, 6], D [T, 4] and dL/dS [6, 4]."""
    draw = torch.Generator().manual_seed(tokens)
    return tuple(torch.randn(*size, generator=draw, dtype=torch.float64) for size in ((tokens, 6), (tokens, 4), (6, 4)))  # type: ignore[return-value]


@pytest.mark.parametrize("tokens", [1, 5, 6, 20])
def test_shift_solves_the_least_squares_problem(tokens: int) -> None:
    u, d, _gradient = problem(tokens)
    rows = torch.cat([u, RIDGE**0.5 * torch.eye(6, dtype=torch.float64)])
    wanted = torch.linalg.lstsq(rows, torch.cat([d, torch.zeros(6, 4, dtype=torch.float64)])).solution
    made = RidgeShift.of(u, d, RIDGE)
    assert off(made.shift(), wanted) < 1e-12
    assert off(whole_of(made.delta()), wanted.T) < 1e-12


@pytest.mark.parametrize("tokens", [1, 5, 6, 20])
def test_gradients_equal_autograd_through_the_inverse(tokens: int) -> None:
    u, d, of_shift = problem(tokens)
    d.requires_grad_()
    log_ridge = torch.tensor(RIDGE, dtype=torch.float64).log().requires_grad_()
    s = torch.linalg.inv(u.T @ u + log_ridge.exp() * torch.eye(6, dtype=torch.float64)) @ u.T @ d
    (s * of_shift).sum().backward()
    of_d, of_ridge = RidgeShift.of(u, d.detach(), RIDGE).gradients(of_shift)
    assert d.grad is not None
    assert log_ridge.grad is not None
    assert off(of_d, d.grad) < 1e-12
    assert of_ridge == pytest.approx(float(log_ridge.grad), rel=1e-12)


def test_large_ridge_gives_no_shift() -> None:
    u, d, _gradient = problem(5)
    assert float(RidgeShift.of(u, d, 1e12).shift().abs().max()) < 1e-10


def test_hint_of_a_singular_system_names_no_covariance() -> None:
    u, d, _gradient = problem(5)
    with pytest.raises(EditFailed, match="the ridge regression is singular") as caught:
        RidgeShift.of(u, d, -1e9)
    assert caught.value.hint == "apply fewer edits at once"


def test_no_tokens_give_no_shift() -> None:
    made = RidgeShift.of(torch.zeros(0, 6), torch.zeros(0, 4), RIDGE)
    assert torch.equal(whole_of(made.delta()), torch.zeros(4, 6, dtype=torch.float64))
