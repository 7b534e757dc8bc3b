"""Float32 products through oneDNN equal torch's own, with their gradients."""

import copy

import pytest
import torch
from torch import nn
from torch.autograd import forward_ad

from ke_core.plugin import ModelRequest
from ke_plugin_hf import products
from ke_plugin_hf.loading import load
from ke_plugin_hf.products import OneDnnLinear, linear, use_onednn
from ke_plugin_hf.testing import saved, tiny_model
from ke_plugin_hf.wrapping import wrap

pytestmark = pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="this torch has no oneDNN")


def numbers(*shape, dtype=torch.float32):
    return torch.randn(shape, generator=torch.Generator().manual_seed(len(shape)), dtype=torch.float64).to(dtype)


@pytest.mark.parametrize("shape", [(1, 96), (40, 96), (3, 20, 96)])
@pytest.mark.parametrize("biased", [True, False])
def test_product_equals_the_product_in_float64(shape, biased):
    x, weight, bias = numbers(*shape), numbers(80, 96), numbers(80) if biased else None
    expected = nn.functional.linear(x.double(), weight.double(), None if bias is None else bias.double())
    assert torch.allclose(linear(x, weight, bias).double(), expected, atol=1e-4, rtol=0)


def test_strided_inputs_and_weights_are_read_as_they_are():
    x, weight = numbers(40, 2, 96)[:, 1], numbers(96, 80).t()
    assert torch.allclose(linear(x, weight).double(), x.double() @ weight.double().t(), atol=1e-4, rtol=0)


@pytest.mark.parametrize("bias", [numbers(160)[::2], numbers(1).expand(80), numbers(1)[0]])
def test_biases_that_onednn_would_misread_are_added(bias):
    x, weight = numbers(40, 96), numbers(80, 96)
    assert torch.equal(linear(x, weight, bias), nn.functional.linear(x, weight, bias))


@pytest.mark.parametrize(("rows", "size"), [(0, 96), (40, 0)])
def test_empty_products(rows, size):
    assert torch.equal(linear(numbers(rows, size), numbers(80, size)), torch.zeros(rows, 80))


def test_autocast_stays_in_effect():
    with torch.autocast("cpu", torch.bfloat16):
        assert linear(numbers(40, 96), numbers(80, 96)).dtype == torch.bfloat16


def test_gradients_equal_those_in_float64():
    parts = [numbers(2, 30, 96), numbers(80, 96), numbers(80)]
    found = [part.clone().requires_grad_() for part in parts]
    expected = [part.double().requires_grad_() for part in parts]
    linear(*found).square().sum().backward()
    nn.functional.linear(*expected).square().sum().backward()
    for its, other in zip(found, expected, strict=True):
        assert torch.allclose(its.grad.double(), other.grad, rtol=1e-4, atol=1e-2)


def test_one_state_is_a_row():
    x, weight = numbers(96).requires_grad_(), numbers(4000, 96).requires_grad_()
    found = linear(x, weight)
    found.sum().backward()
    assert torch.allclose(found.double(), weight.double() @ x.double(), atol=1e-4, rtol=0)
    assert torch.allclose(x.grad, weight.sum(0), atol=1e-3)
    assert torch.allclose(weight.grad, x.detach().expand(4000, 96))


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")  # torch uses it itself
def test_forward_mode_gives_tangents():
    x, weight = numbers(40, 96), numbers(80, 96)
    with forward_ad.dual_level():
        found = linear(forward_ad.make_dual(x, torch.ones_like(x)), weight)
        tangent = forward_ad.unpack_dual(found).tangent
    assert torch.allclose(tangent, weight.sum(1).expand(40, 80), atol=1e-4)


def test_gradients_have_gradients():
    x, weight = numbers(30, 96).requires_grad_(), numbers(80, 96)

    def second(product):
        (first,) = torch.autograd.grad(product(x, weight).pow(3).sum(), x, create_graph=True)
        return torch.autograd.grad(first.square().sum(), x)[0]

    found, expected = second(linear), second(nn.functional.linear)
    assert torch.allclose(found, expected, rtol=1e-3, atol=1e-3 * float(expected.abs().max()))


def test_a_frozen_weight_gets_no_gradient():
    x, weight = numbers(30, 96).requires_grad_(), numbers(80, 96)
    linear(x, weight).sum().backward()
    assert x.grad is not None
    assert weight.grad is None


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_dtypes_are_left_to_torch(dtype):
    x, weight = numbers(40, 96, dtype=dtype), numbers(80, 96, dtype=dtype)
    assert torch.equal(linear(x, weight), nn.functional.linear(x, weight))


def test_layers_of_a_model_compute_with_the_current_weights(monkeypatch):
    monkeypatch.setattr(products, "_mkl_is_slow", lambda: True)
    module = nn.Sequential(nn.Linear(96, 80), nn.ReLU())
    x, names = numbers(40, 96), list(module.state_dict())
    before = module(x)
    use_onednn(module)
    assert isinstance(module[0], OneDnnLinear)
    assert list(module.state_dict()) == names
    assert torch.allclose(module(x), before, atol=1e-5)
    other = copy.deepcopy(module)
    with torch.no_grad():
        module[0].weight.mul_(2)
    assert not torch.allclose(module(x), before, atol=1e-2)
    assert torch.allclose(other(x), before, atol=1e-5)


def test_layers_of_other_classes_keep_their_class(monkeypatch):
    class Scaled(nn.Linear):
        pass

    monkeypatch.setattr(products, "_mkl_is_slow", lambda: True)
    module = nn.Sequential(Scaled(4, 4))
    use_onednn(module)
    assert type(module[0]) is Scaled


def test_loaded_models_use_it_where_mkl_is_slow_and_modules_of_the_caller_stay(monkeypatch, tmp_path):
    tiny = tiny_model("llama")
    folder = saved(tiny, tmp_path)
    for slow in (True, False):
        monkeypatch.setattr(products, "_mkl_is_slow", lambda slow=slow: slow)
        loaded = load(ModelRequest(id=str(folder), device="cpu", dtype="float32"), folder)
        assert any(type(part) is OneDnnLinear for part in loaded.module.modules()) is slow
        wrap(tiny.module, tiny.tokenizer, "mine", chat=False)
        assert not any(type(part) is OneDnnLinear for part in tiny.module.modules())
