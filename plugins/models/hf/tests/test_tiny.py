"""Tiny models are identical everywhere and make mistakes visible."""

import pytest
import torch

from ke_plugin_hf.testing import CONTEXT, FAMILIES, INNER, KV_HEADS, WIDTH, tiny_model


@pytest.mark.parametrize("family", FAMILIES)
def test_equal_arguments_give_equal_weights(family):
    assert tiny_model(family).digest == tiny_model(family).digest
    assert tiny_model(family).digest != tiny_model(family, seed=1).digest


@pytest.mark.parametrize("family", FAMILIES)
def test_dimensions_of_tiny_models_differ(family):
    model = tiny_model(family)
    config = model.module.config
    assert INNER != WIDTH
    assert model.module.get_output_embeddings().weight is not model.module.get_input_embeddings().weight
    assert getattr(config, "num_key_value_heads", KV_HEADS) < config.num_attention_heads
    assert model.context == CONTEXT
    with torch.no_grad():
        logits = model.module(torch.tensor([model.encode("The capital of France is")])).logits[0, -1]
    assert logits.std() > 0.5


@pytest.mark.parametrize(
    "text", ["The capital of France is Paris.", " two  spaces\n\tand tab ", "naïve 日本 🙂", "W. G. Sebald"]
)
def test_every_text_survives_encoding(text):
    model = tiny_model()
    assert model.decode(model.encode(text)) == text
    assert model.encode(text)[0] != 1
    assert tiny_model(bos=True).encode(text) == [1, *model.encode(text)]
