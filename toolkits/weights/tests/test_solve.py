from __future__ import annotations

import pytest
import torch

from ke_core.plugin import EditFailed
from ke_weights.covariance import KeyCovariance
from ke_weights.solve import cholesky, covariance_weighted, ridge_update
from ke_weights.testing.reference import D, F, random_covariance, random_problem
from ke_weights.testing.reference_edits import off
from ke_weights.testing.weights import whole_of


@pytest.fixture
def covariance() -> KeyCovariance:
    return random_covariance()


@pytest.mark.parametrize("count", [1, 7, 11, 12, 40, 90])
def test_update_is_stationary_for_the_ridge_objective(covariance: KeyCovariance, count: int) -> None:
    keys, residual = random_problem(count)
    update = whole_of(ridge_update(covariance, keys, residual, 3.0))
    gradient = (update @ keys - residual) @ keys.T + 3.0 * update @ covariance.matrix
    assert float(gradient.norm() / (residual @ keys.T).norm()) < 1e-12


def test_fit_is_exact_for_a_vanishing_covariance_weight(covariance: KeyCovariance) -> None:
    keys, residual = random_problem(7)
    misses = [
        off(whole_of(ridge_update(covariance, keys, residual, weight)) @ keys, residual)
        for weight in (1e2, 1.0, 1e-2, 1e-6)
    ]
    assert misses == sorted(misses, reverse=True)
    assert misses[0] > 0.3
    assert misses[-1] < 1e-6


@pytest.mark.parametrize("count", [3, 11, 12, 60])
def test_all_forms_of_the_solution_are_equal(covariance: KeyCovariance, count: int) -> None:
    keys, residual = random_problem(count)
    weight, c = 5.0, covariance.matrix
    eye = torch.eye(count, dtype=torch.float64)
    scaled = torch.linalg.solve(weight * c, keys)
    direct = residual @ torch.linalg.solve(weight * c + keys @ keys.T, keys).T
    woodbury = residual @ torch.linalg.solve(eye + keys.T @ scaled, scaled.T)
    inverse = torch.linalg.inv(c)
    emmet = residual @ torch.linalg.inv(keys.T @ inverse @ keys + weight * eye) @ keys.T @ inverse
    ours = whole_of(ridge_update(covariance, keys, residual, weight))
    assert max(off(ours, other) for other in (direct, woodbury, emmet)) < 1e-10


def test_key_is_moved_half_way_if_the_weight_equals_its_length() -> None:
    """``memit``'s rule for lambda: the mean of k^T C^-1 k over the corpus is exactly f."""
    data = torch.randn(600, F, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    covariance = KeyCovariance(data.T @ data / 600, 600)
    leverage = (data * torch.linalg.solve(covariance.matrix, data.T).T).sum(1)
    assert float(leverage.mean()) == pytest.approx(F, rel=1e-9)
    typical = data[int((leverage - F).abs().argmin())][:, None]
    wanted = torch.ones(D, 1, dtype=torch.float64)
    assert float((whole_of(ridge_update(covariance, typical, wanted, float(F))) @ typical).mean()) == pytest.approx(
        0.5, abs=0.01
    )


@pytest.mark.parametrize("count", [1, 20])
def test_singular_covariance_is_an_error(count: int) -> None:
    few = torch.randn(5, F, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    with pytest.raises(EditFailed, match="singular"):
        ridge_update(KeyCovariance(few.T @ few, 5), *random_problem(count), 1.0)


def test_float32_covariance_is_solved_in_float64(covariance: KeyCovariance) -> None:
    single = KeyCovariance(covariance.matrix.float(), 600)
    update = ridge_update(single, *(part.float() for part in random_problem(3)), 2.0)
    assert (update.left.dtype, update.right.dtype) == (torch.float64, torch.float64)


@pytest.mark.parametrize("count", [1, 11, 12, 40])
def test_update_has_the_rank_of_its_edits(covariance: KeyCovariance, count: int) -> None:
    update = ridge_update(covariance, *random_problem(count), 3.0)
    assert (update.left.shape, update.right.shape) == ((D, count), (count, F))


def test_key_is_weighted_by_the_inverse_covariance(covariance: KeyCovariance) -> None:
    key = random_problem(1)[0][:, 0]
    assert off(covariance.matrix @ covariance_weighted(covariance, key), key) < 1e-12
    assert torch.equal(covariance_weighted(None, key.float()), key.float().double())


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
def test_matrix_definite_only_by_rounding_is_singular(scale: float) -> None:
    """Two keys that agree to eight digits, at every scale and for both signs of the last bit."""
    for seed in range(20):
        keys = torch.randn(F, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
        keys[:, 3] = keys[:, 0] * (1 + 1e-8)
        with pytest.raises(EditFailed, match="it is singular"):
            cholesky(scale * keys.T @ keys, "it", "more")
        keys[:, 3] += 1e-3 * random_problem(1)[0][:, 0]
        assert bool(cholesky(scale * keys.T @ keys, "it", "more").isfinite().all())


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_matrix_with_nan_has_its_own_error(value: float) -> None:
    with pytest.raises(EditFailed, match="it contains NaN or infinity") as caught:
        cholesky(torch.full((3, 3), value, dtype=torch.float64), "it", "more tokens")
    assert "more tokens" not in caught.value.hint
