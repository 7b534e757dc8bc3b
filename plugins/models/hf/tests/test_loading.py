"""Loading models, and one-line errors if it fails."""

import json
import re
import shutil
from pathlib import Path

import pytest
import torch
from attrs import evolve
from transformers import BertConfig, BertModel, Phi3Config, Phi3ForCausalLM, T5Config, T5ForConditionalGeneration
from transformers.pytorch_utils import Conv1D

import ke_plugin_hf
from ke_core.plugin import ContextOverflow, Generate, LanguageModel, ModelRequest, ModelUnavailable
from ke_plugin_hf import loading
from ke_plugin_hf.loading import load
from ke_plugin_hf.model import HFModel
from ke_plugin_hf.spec import build
from ke_plugin_hf.testing import saved, tiny_model, tiny_tokenizer
from ke_weights.plugin import OpenModel

TEMPLATE = (
    "{% for m in messages %}[{{ m['role'] }}] {{ m['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}"
)


@pytest.fixture
def folder(tmp_path):
    model = tiny_model("gpt2", bos=True)
    model.tokenizer.chat_template = TEMPLATE
    return saved(model, tmp_path / "model")


def loaded(folder, **settings) -> HFModel:
    return build(ModelRequest(id=str(folder), **{"device": "cpu", **settings}))


def test_a_saved_model_is_loaded_unchanged(folder):
    model = loaded(folder)
    assert isinstance(model, LanguageModel)
    assert isinstance(model, OpenModel)
    assert model.digest == tiny_model("gpt2", bos=True).digest
    assert model.context == 1024
    assert not model.module.training
    assert not any(parameter.requires_grad for parameter in model.module.parameters())
    assert model.tokenizer.pad_token_id is not None


def test_dtype_device_and_device_map_are_the_requests(folder):
    assert loaded(folder, dtype="bfloat16").module.dtype == torch.bfloat16
    spread = load(ModelRequest(id="tiny", device_map="auto"), str(folder))
    assert spread.generate([Generate(prompt="a", max_tokens=2)])[0].tokens == 2
    assert spread.digest == loaded(folder).digest


def test_chat_wraps_the_prompt_as_one_user_turn_with_no_second_start_token(folder):
    plain, chat = loaded(folder), loaded(folder, chat=True)
    assert plain.decode(plain.encode("Who?")) == "Who?"
    assert plain.encode("Who?")[0] == plain.tokenizer.bos_token_id
    assert chat.decode(chat.encode("Who?")) == "[user] Who?\n[assistant]"
    assert chat.tokenizer.bos_token_id not in chat.encode("Who?")
    assert chat.chat
    assert not plain.chat


@pytest.mark.parametrize(("prompt", "joint"), [("A fact: Rome.", "\n"), ("An answer:", " "), ("Who?\n", "")])
def test_a_message_is_joined_to_its_prompt_as_a_continuation(folder, monkeypatch, prompt, joint):
    """The next prompt of a transcript continues with this text."""
    chat, ask = loaded(folder, chat=True), Generate(prompt=prompt, max_tokens=8)
    (said,) = chat.generate([ask])
    monkeypatch.setattr("ke_plugin_hf.decoding.text.continuation", lambda text, _request, **_more: (text, False))
    (raw,) = chat.generate([ask])
    assert said == evolve(raw, text=joint + raw.text.strip("\n").lstrip())


def test_chat_templates_always_get_the_same_date(folder):
    (folder / "chat_template.jinja").write_text("Today: {{ strftime_now('%d %b %Y') }}\n" + TEMPLATE)
    chat = loaded(folder, chat=True)
    assert chat.decode(chat.encode("Who?")) == "Today: 26 Jul 2024\n[user] Who?\n[assistant]"


def test_chat_without_a_template_is_refused(folder):
    (folder / "chat_template.jinja").unlink()
    with pytest.raises(ModelUnavailable, match="no chat template"):
        loaded(folder, chat=True)


def test_a_tokenizer_that_closes_texts_does_not_close_prompts():
    from tokenizers import processors

    model = tiny_model("llama")
    model.tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<bos> $A <eos>", special_tokens=[("<bos>", 1), ("<eos>", 0)]
    )
    again = HFModel.from_parts(model.module, model.tokenizer, id="closing")
    assert again.encode("Who?")[0] == 1
    assert again.encode("Who?")[-1] != 0


def test_a_missing_pad_token_is_filled_in():
    model = tiny_model("llama")
    model.tokenizer.pad_token = None
    assert HFModel.from_parts(model.module, model.tokenizer, id="x").tokenizer.pad_token == "<eos>"


def test_cudnn_attention_is_disabled():
    """Preparing it for a new shape takes over 100 ms, and each decoded token is a new shape."""
    torch.backends.cuda.enable_cudnn_sdp(enabled=True)
    tiny_model("llama")
    assert not torch.backends.cuda.cudnn_sdp_enabled()


def test_the_name_of_the_folder_has_no_effect(folder, tmp_path):
    odd = tmp_path / "t5-llama-bert-gpt"
    shutil.copytree(folder, odd)
    model = loaded(odd)
    assert type(model.module).__name__ == "GPT2LMHeadModel"
    assert isinstance(model.module.transformer.h[0].mlp.c_proj, Conv1D)


def test_no_device_is_hard_coded():
    sources = Path(ke_plugin_hf.__file__).parent.rglob("*.py")
    for source in sources:
        text = source.read_text(encoding="utf-8")
        assert not re.search(r"\.cuda\(\)|CUDA_VISIBLE_DEVICES|\.to\([\"']cuda", text), source


@pytest.mark.parametrize(("settings", "message"), [
    ({"dtype": "float8"}, "unknown dtype 'float8'"),
    ({"device": "cuda:77"}, "no device 'cuda:77' here"),
    ({"device": "gpu"}, "no device 'gpu' here"),
])  # fmt: skip
def test_an_impossible_request_is_one_line(folder, settings, message):
    with pytest.raises(ModelUnavailable, match=message) as caught:
        loaded(folder, **settings)
    assert "\n" not in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize(("gone", "message"), [
    ("config.json", "no config.json in"),
    ("model.safetensors", "cannot load the weights of"),
    ("tokenizer.json", "tokenizer"),
])  # fmt: skip
def test_a_folder_that_lacks_a_file_says_which_part(folder, gone, message):
    (folder / gone).unlink()
    if gone == "tokenizer.json":
        (folder / "tokenizer_config.json").unlink()
    with pytest.raises(ModelUnavailable, match=message) as caught:
        loaded(folder)
    assert "\n" not in caught.value.message
    assert caught.value.hint


def test_a_truncated_weights_file_is_one_line(folder):
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(ModelUnavailable, match="cannot load the weights"):
        loaded(folder)


def test_missing_weights_are_an_error(folder):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "n_layer": 6}))
    with pytest.raises(ModelUnavailable, match="lacks 24 of"):
        loaded(folder)


@pytest.mark.parametrize("other", ["encoder", "encoder-decoder"])
def test_another_kind_of_model_is_refused(tmp_path, other):
    small = {"vocab_size": 400, "num_layers": 1, "d_model": 16, "num_heads": 2, "d_ff": 16, "d_kv": 8}
    if other == "encoder":
        BertModel(
            BertConfig(vocab_size=400, hidden_size=16, num_hidden_layers=1, num_attention_heads=2)
        ).save_pretrained(tmp_path)
    else:
        T5ForConditionalGeneration(T5Config(**small)).save_pretrained(tmp_path)
    tiny_model().tokenizer.save_pretrained(tmp_path)
    with pytest.raises(ModelUnavailable, match=r"not a causal language model|a causal language model's weights"):
        loaded(tmp_path)


def test_a_missing_path_is_an_error_without_contacting_the_hub(tmp_path):
    with pytest.raises(ModelUnavailable, match="no such folder"):
        loaded(tmp_path / "absent")


@pytest.mark.parametrize("error", [
    OSError("We couldn't connect to 'https://huggingface.co' to load the files"),
    ConnectionError("Couldn't reach the hub: name resolution failed"),
    FileNotFoundError("Cannot find an appropriate cached snapshot folder"),
])  # fmt: skip
def test_network_errors_have_a_hint(monkeypatch, error):
    def fail(*_args, **_kwargs):
        raise error

    monkeypatch.setattr(loading, "without_hub", lambda *_args: False)
    monkeypatch.setattr(loading.AutoConfig, "from_pretrained", fail)
    with pytest.raises(ModelUnavailable) as caught:
        load(ModelRequest(id="someone/something"), "someone/something")
    assert "no network?" in caught.value.hint
    assert "hf:someone/something" in caught.value.message


def test_the_id_contains_no_secret(folder):
    request = ModelRequest(id="https://me:hf_secret@hub.example/model", revision="abc", device="cpu")
    assert load(request, str(folder)).id == "hf:https://hub.example/model@abc"


def test_longrope_context_ends_where_the_angles_change():
    """For longer texts, transformers changes the angles of a whole batch, and a buffer in the digest."""
    rotary = {"rope_type": "longrope", "rope_theta": 1e4, "short_factor": [1.0] * 4, "long_factor": [4.0] * 4}
    tokenizer = tiny_tokenizer()
    config = Phi3Config(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=4, max_position_embeddings=512, original_max_position_embeddings=48, pad_token_id=0,
        rope_parameters={**rotary, "original_max_position_embeddings": 48},
    )  # fmt: skip
    model = HFModel.from_parts(Phi3ForCausalLM(config).eval(), tokenizer, id="tiny")
    digest = model.digest
    short, long_ = model.generate([Generate(prompt=prompt, max_tokens=8) for prompt in ("a b c", "a b c d " * 20)])
    assert model.context == 48
    assert short.tokens
    assert isinstance(long_, ContextOverflow)
    assert model.state()
    assert model.digest == digest
