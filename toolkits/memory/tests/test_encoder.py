"""Sentence encoders: pooling, batching, loading and errors."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoTokenizer, BertConfig, BertModel, PreTrainedTokenizerFast, T5Config, T5Model

import ke_memory.hookimpls
import ke_memory.plugin
from ke_core.app import open_session, read_catalog
from ke_core.plugin import KEError, ModelUnavailable
from ke_core.runner.world import World
from ke_memory import encoder as encoder_module
from ke_memory.plugin import FactMemory, SentenceEncoder, load_encoder
from ke_testing.cli_fixtures import plugins_of
from ke_testing.fakes import SilentProgress

WORDS = ["[PAD]", "[UNK]", "the", "capital", "of", "france", "is", "paris", "lyon", "and", "a", "longer", "sentence",
         "with", "many", "more", "words"]  # fmt: skip
TEXTS = [
    "paris",
    "the capital of france is paris",
    "",
    "a longer sentence with many more words and the capital",
    "lyon",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A tiny untrained encoder as transformers saves it."""
    path = tmp_path_factory.mktemp("encoder")
    made = Tokenizer(models.WordLevel({word: i for i, word in enumerate(dict.fromkeys(WORDS))}, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=made, pad_token="[PAD]", unk_token="[UNK]").save_pretrained(path)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=32, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
        max_position_embeddings=12,
    )  # fmt: skip
    BertModel(config).save_pretrained(path)
    return path


@pytest.fixture
def declared(folder, tmp_path):
    """The same encoder with the files of sentence-transformers beside it."""
    for path in folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "1_Pooling").mkdir()
    (tmp_path / "modules.json").write_text(json.dumps([{"type": "x.Transformer"}, {"type": "x.Normalize"}]))
    (tmp_path / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_mean_tokens": True}))
    (tmp_path / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 4}))
    return tmp_path


def states(encoder: SentenceEncoder, text: str):
    """Last hidden states of one text without padding, by hand."""
    ids = encoder.tokenizer(text, truncation=True, max_length=encoder.longest, return_tensors="pt")["input_ids"]
    with torch.inference_mode():
        return encoder.model(input_ids=ids).last_hidden_state[0].numpy()


def test_token_vectors_are_the_scaled_last_states(folder):
    encoder = load_encoder(str(folder))
    found = encoder.embed_tokens("the capital of france")
    plain = states(encoder, "the capital of france")
    assert found.shape == (4, 16)
    assert np.allclose(found, plain / np.linalg.norm(plain, axis=1, keepdims=True), atol=1e-6)


def test_batched_and_single_texts_agree(folder):
    encoder = load_encoder(str(folder))
    texts = TEXTS
    together = encoder.embed(texts * 40)
    assert together.dtype == np.float32
    assert together.shape == (200, 16)
    alone = np.concatenate([encoder.embed([text]) for text in texts])
    for start in range(0, 200, 5):
        np.testing.assert_allclose(together[start : start + 5], alone, atol=1e-6)


def test_vector_is_the_mean_over_attended_tokens(folder):
    encoder = load_encoder(str(folder))
    assert (encoder.pooling, encoder.normalized) == ("mean", False)
    texts = [text for text in TEXTS if text]
    expected = [states(encoder, text).mean(0) for text in texts]
    np.testing.assert_allclose(encoder.embed(texts), expected, atol=1e-6)


def test_declared_pooling_length_and_normalization_are_used(declared):
    encoder = load_encoder(str(declared))
    assert (encoder.pooling, encoder.normalized, encoder.longest) == ("mean", True, 4)
    found = encoder.embed(["the capital of france is paris", "the capital of france"])
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(found[0], found[1], atol=1e-6)  # cut after four tokens
    (declared / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_cls_token": True}))
    encoder = load_encoder(str(declared))
    first = states(encoder, "paris is the capital")[0]
    np.testing.assert_allclose(encoder.embed(["paris is the capital"])[0], first / np.linalg.norm(first), atol=1e-6)


def test_id_depends_on_weights_pooling_and_length(folder, declared):
    one, two = load_encoder(str(folder)), load_encoder(str(declared))
    assert one.id != two.id
    assert one.id == load_encoder(str(folder)).id
    with torch.no_grad():
        two.model.get_input_embeddings().weight.add_(1)
    other = SentenceEncoder(model=two.model, tokenizer=two.tokenizer, longest=two.longest)
    assert other.id.split(":")[1:] == two.id.split(":")[1:]
    assert other.id != two.id


def test_encoder_of_an_encoder_decoder_is_used(folder, tmp_path):
    """sentence-t5, gtr-t5: positions are relative, so that the configuration names no longest text."""
    AutoTokenizer.from_pretrained(folder).save_pretrained(tmp_path)
    config = T5Config(vocab_size=32, d_model=16, d_kv=8, d_ff=32, num_layers=2, num_heads=2, decoder_start_token_id=0)
    T5Model(config).save_pretrained(tmp_path)
    encoder = load_encoder(str(tmp_path))
    texts = [text for text in TEXTS if text]
    np.testing.assert_allclose(encoder.embed(texts), [states(encoder, text).mean(0) for text in texts], atol=1e-6)
    assert encoder.longest == 512


def test_no_texts_give_no_vectors(folder):
    assert load_encoder(str(folder)).embed([]).shape == (0, 16)


def with_dense(folder, activation, *, safe=True):
    """Put a layer of sentence-transformers behind the pooling; its weights, as saved."""
    torch.manual_seed(1)
    layer = {"linear.weight": torch.randn(4, 16), "linear.bias": torch.randn(4)}
    (folder / "2_Dense").mkdir(exist_ok=True)
    about = {"in_features": 16, "out_features": 4, "bias": True, "activation_function": activation}
    (folder / "2_Dense" / "config.json").write_text(json.dumps(about))
    if safe:
        save_file(layer, folder / "2_Dense" / "model.safetensors")
    else:
        torch.save(layer, folder / "2_Dense" / "pytorch_model.bin")
    parts = [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Dense", "Dense"), ("3_Normalize", "Normalize")]
    (folder / "modules.json").write_text(
        json.dumps([{"path": path, "type": f"sentence_transformers.models.{kind}"} for path, kind in parts])
    )
    return layer["linear.weight"].numpy(), layer["linear.bias"].numpy()


@pytest.mark.parametrize("safe", [True, False])
def test_a_dense_layer_is_applied_between_pooling_and_normalization(declared, safe):
    plain = load_encoder(str(declared))
    weight, bias = with_dense(declared, "torch.nn.modules.activation.Tanh", safe=safe)
    encoder = load_encoder(str(declared))
    expected = np.tanh(weight @ states(plain, "the capital of france").mean(0) + bias)
    np.testing.assert_allclose(
        encoder.embed(["the capital of france"])[0], expected / np.linalg.norm(expected), atol=1e-6
    )
    assert encoder.embed([]).shape == (0, 4)
    assert encoder.id.startswith(plain.id)
    assert encoder.id != plain.id


def test_unknown_activation_is_rejected(declared):
    with_dense(declared, "torch.nn.modules.activation.Softshrink")
    with pytest.raises(ModelUnavailable, match="the activation Softshrink of 2_Dense is not supported"):
        load_encoder(str(declared))


@pytest.mark.parametrize("kinds", [("Transformer", "Pooling", "LayerNorm"), ("Transformer", "Normalize", "Pooling")])
def test_unsupported_modules_are_rejected(declared, kinds):
    (declared / "modules.json").write_text(json.dumps([{"path": "", "type": f"x.{kind}"} for kind in kinds]))
    with pytest.raises(
        ModelUnavailable, match=f"has the modules {', '.join(kinds)}; supported are Transformer, Pooling"
    ):
        load_encoder(str(declared))


@pytest.mark.usefixtures("nothing_kept")
def test_out_of_memory_halves_a_batch(folder, monkeypatch):
    encoder = load_encoder(str(folder))
    whole, tried = encoder.embed(TEXTS), []
    pooled = SentenceEncoder._pooled

    def cramped(self, encoded):
        tried.append(len(encoded))
        if len(encoded) > most:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return pooled(self, encoded)

    most = 2
    monkeypatch.setattr(SentenceEncoder, "_pooled", cramped)
    np.testing.assert_allclose(encoder.embed(TEXTS), whole, atol=1e-6)
    assert tried == [5, 2, 3, 1, 2]
    most = 0
    with pytest.raises(KEError, match=r"(?m)^out of memory for a single text to embed$"):
        encoder.embed(TEXTS)


def test_encoder_uses_the_device_of_the_model(folder, monkeypatch, tmp_path):
    monkeypatch.setenv("KE_CACHE_DIR", str(tmp_path))
    given = []
    catalog = read_catalog(plugins_of(ke_memory.hookimpls))
    monkeypatch.setattr("ke_memory.encoder.load_encoder", lambda name, *, device: given.append((name, device)))
    for model in (SimpleNamespace(device=torch.device("cuda", 1)), SimpleNamespace()):
        session = open_session(model, catalog=catalog, seed=0, progress=SilentProgress(), material={}, remember=False)
        session.encoder("some")
    assert given == [("some", "cuda:1"), ("some", "")]
    assert str(load_encoder(str(folder), device="meta").model.device) == "meta"


def test_processes_are_distributed_over_accelerators(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    for rank, wanted in ((0, "cuda:0"), (1, "cuda:1"), (2, "cuda:0")):
        monkeypatch.setattr(encoder_module, "world", lambda rank=rank: World(rank=rank, size=3, local_rank=rank))
        assert encoder_module._accelerator() == wanted


def test_unknown_pooling_is_rejected(declared):
    (declared / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_lasttoken": True}))
    with pytest.raises(ModelUnavailable, match="is not supported"):
        load_encoder(str(declared))


def test_loading_failure_gives_a_one_line_error(tmp_path):
    with pytest.raises(ModelUnavailable, match="cannot load the sentence encoder") as wrong:
        load_encoder(str(tmp_path))
    assert "\n" not in wrong.value.message
    with pytest.raises(ModelUnavailable, match="smollm2-135m is not a sentence encoder"):
        load_encoder("smollm2-135m")


def test_facade_rejects_unknown_names():
    with pytest.raises(AttributeError):
        _ = ke_memory.plugin.Nothing


@pytest.mark.model
def test_minilm_finds_paraphrases():
    encoder = load_encoder("minilm-l6")
    assert (encoder.pooling, encoder.normalized, encoder.longest) == ("mean", True, 256)
    facts = [
        ("uk", "The name of the current head of the United Kingdom government is Rishi Sunak"),
        ("fr", "The capital of France is Lyon"),
        ("de", "Volkswagen was founded in the country of Japan"),
    ]
    questions = ["Who is the British prime minister?", "Which city is France's capital?", "Where was VW founded?"]
    found = FactMemory(encoder, facts).search(questions, k=1, hidden=[frozenset()] * 3)
    assert [hits[0].id for hits in found] == ["uk", "fr", "de"]
