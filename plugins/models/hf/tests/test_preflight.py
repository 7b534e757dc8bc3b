"""Checks before any weights are read: memory, device and hub."""

import socket
import warnings
from types import SimpleNamespace

import pytest
import torch
from transformers import LlamaConfig

from ke_core.plugin import KEWarning, ModelRequest, ModelUnavailable
from ke_plugin_hf import loading, preflight
from ke_plugin_hf.loading import load
from ke_plugin_hf.preflight import check_memory, weight_bytes
from ke_plugin_hf.testing import saved, tiny_model

CPU = torch.device("cpu")
LARGE = LlamaConfig(
    num_hidden_layers=80, hidden_size=8192, intermediate_size=28672, num_attention_heads=64, num_key_value_heads=8,
    vocab_size=128256,
)  # fmt: skip
SMALL = LlamaConfig(
    num_hidden_layers=2, hidden_size=512, intermediate_size=1024, num_attention_heads=8, vocab_size=1000
)


@pytest.fixture
def free(monkeypatch):
    """Set the free memory of every device."""

    def set_free(size):
        monkeypatch.setattr(preflight, "free_bytes", lambda _device: int(size))

    return set_free


def check(config, **settings):
    check_memory(config, ModelRequest(id="org/model", **settings), CPU)


def test_weight_bytes_are_parameters_times_bytes_of_the_dtype():
    parameters = tiny_model("gpt2").module.num_parameters()
    config = tiny_model("gpt2").module.config
    assert weight_bytes(config, "float32") == 4 * parameters
    assert weight_bytes(config, "bfloat16") == 2 * parameters
    assert weight_bytes(config, "nf4") == parameters // 2


def test_quantized_weights_and_unknown_configurations_have_no_estimate():
    config = LlamaConfig(num_hidden_layers=1)
    config.quantization_config = {"quant_method": "gptq"}
    assert weight_bytes(config, "float16") is None
    assert weight_bytes(object(), "float16") is None


def test_weights_larger_than_the_free_memory_are_an_error_with_both_sizes(free):
    free(20e9)
    with pytest.raises(ModelUnavailable) as caught:
        check(LARGE, dtype="bfloat16")
    assert caught.value.message == (
        "hf:org/model does not fit in memory: needs about 141 GB, 20 GB free (bfloat16 weights, cpu)"
    )
    assert caught.value.hint == "use --device-map auto, or a smaller model"


def test_a_float32_model_that_does_not_fit_gets_the_advice_to_use_bfloat16(free):
    free(20e9)
    with pytest.raises(ModelUnavailable, match="needs about 282 GB") as caught:
        check(LARGE)
    assert caught.value.hint == "use --dtype bfloat16, --device-map auto, or a smaller model"


def test_little_room_beyond_the_weights_is_a_warning(free):
    free(1.1 * weight_bytes(SMALL, "float32"))
    with pytest.warns(KEWarning, match=r"0\.0 GB free .* may run out of memory: use --dtype bfloat16"):
        check(SMALL)


def test_a_device_map_only_warns(free):
    free(20e9)
    with pytest.warns(KEWarning, match=r"20 GB free \(bfloat16 weights, all devices together\)"):
        check(LARGE, dtype="bfloat16", device_map="auto")


def test_enough_memory_gives_no_warning(free):
    free(1e12)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check(LARGE)


def test_the_memory_is_checked_before_weights_are_read(tmp_path, free, monkeypatch):
    folder = saved(tiny_model("gpt2"), tmp_path / "model")
    free(0)
    monkeypatch.setattr(loading.AutoModelForCausalLM, "from_pretrained", None)
    with pytest.raises(ModelUnavailable, match="does not fit in memory"):
        load(ModelRequest(id=str(folder), device="cpu"), str(folder))


def test_cuda_without_cuda_names_the_devices_that_exist(monkeypatch):
    def absent(*_args, **_kwargs):
        raise AssertionError("Torch not compiled with CUDA enabled")

    monkeypatch.setattr(loading.torch, "empty", absent)
    monkeypatch.setattr(loading.torch.cuda, "device_count", lambda: 0)
    with pytest.raises(ModelUnavailable, match=r"(?m)^no device 'cuda' here: torch finds cpu$") as caught:
        load(ModelRequest(id="org/model", device="cuda"), "org/model")
    assert "omit --device" in caught.value.hint


@pytest.fixture
def closed_hub(monkeypatch):
    """A hub address on which nothing listens."""
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        endpoint = f"http://127.0.0.1:{reserved.getsockname()[1]}"
    monkeypatch.setattr(preflight.constants, "ENDPOINT", endpoint)
    monkeypatch.setattr(preflight.constants, "HF_HUB_OFFLINE", False)
    return endpoint


def test_an_unreachable_hub_is_an_error_that_names_it_and_a_way_without_it(closed_hub):
    with pytest.raises(ModelUnavailable, match=f"cannot reach the hub: {closed_hub}") as caught:
        load(ModelRequest(id="someone/something", device="cpu"), "someone/something")
    assert "someone/something is not in the cache" in caught.value.message
    assert "HF_HUB_OFFLINE=1" in caught.value.hint
    assert "ke models pull smollm2-135m" in caught.value.hint


def test_a_cached_model_is_loaded_without_the_hub_and_the_warning_names_the_offline_variable(
    closed_hub, tmp_path, monkeypatch
):
    folder = saved(tiny_model("gpt2"), tmp_path / "model")
    real = {cls: cls.from_pretrained for cls in (loading.AutoConfig, loading.AutoTokenizer)}
    real[loading.AutoModelForCausalLM] = loading.AutoModelForCausalLM.from_pretrained
    seen = []

    def local(cls):
        def from_pretrained(_where, **settings):
            seen.append((cls.__name__, settings.pop("local_files_only", False)))
            return real[cls](str(folder), **settings)

        return from_pretrained

    for cls in real:
        monkeypatch.setattr(cls, "from_pretrained", local(cls))
    monkeypatch.setattr(preflight, "try_to_load_from_cache", lambda *_args, **_settings: str(folder / "config.json"))
    with pytest.warns(KEWarning, match="loading org/model from the cache .set HF_HUB_OFFLINE=1 to skip this check"):
        load(ModelRequest(id="org/model", device="cpu"), "org/model")
    assert {(cls.__name__, True) for cls in real} <= set(seen)


def test_a_hub_that_does_not_respond_is_given_up_after_the_time_limit(closed_hub, monkeypatch):
    class Silent:
        def head(self, *_args, **_settings):
            preflight.threading.Event().wait(5)

    monkeypatch.setattr(preflight, "HUB_SECONDS", 0.01)
    monkeypatch.setattr(preflight, "get_session", Silent)
    with pytest.raises(ModelUnavailable, match="no response in"):
        preflight.without_hub("org/model", ModelRequest(id="org/model"))


def test_a_proxy_that_cannot_reach_the_hub_counts_as_unreachable(closed_hub, monkeypatch):
    class Proxied:
        def head(self, *_args, **_settings):
            return SimpleNamespace(status_code=502)

    monkeypatch.setattr(preflight, "get_session", Proxied)
    with pytest.raises(ModelUnavailable, match=r"\(status 502\)"):
        preflight.without_hub("org/model", ModelRequest(id="org/model"))


def test_offline_mode_contacts_nothing(monkeypatch):
    monkeypatch.setattr(preflight.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(preflight, "get_session", None)
    assert not preflight.without_hub("org/model", ModelRequest(id="org/model"))
