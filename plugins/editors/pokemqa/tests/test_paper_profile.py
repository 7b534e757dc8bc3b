"""The profile ``paper``: two fully fine-tuned encoders, here tiny ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from attrs import evolve
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

from ke_core.plugin import BadData
from ke_memory.plugin import SentenceEncoder
from ke_plugin_pokemqa import PokemqaConfig
from ke_plugin_pokemqa.editor import Pokemqa
from ke_plugin_pokemqa.learner import kept, load_weights
from ke_plugin_pokemqa.profiles import PROFILES
from ke_testing.fakes import ScriptedModel, make_session
from ke_weights import read_checkpoint

CONFIG = PokemqaConfig(profile="paper", encoder="tiny")


@pytest.fixture
def encoder(kit) -> SentenceEncoder:
    texts = " ".join(text for example in kit.examples for text in (example.edit.statement, *example.paraphrases))
    words = dict.fromkeys(["[PAD]", "[UNK]", *texts.replace("?", " ?").split()])
    made = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=made, pad_token="[PAD]", unk_token="[UNK]")
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(words), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32,
        max_position_embeddings=64,
    )  # fmt: skip
    return SentenceEncoder(model=BertModel(config, add_pooling_layer=False), tokenizer=tokenizer, longest=64)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    made = PROFILES["paper"]
    schedule = evolve(made.pre, lr=1e-3, batch=8, validate=2)
    monkeypatch.setitem(PROFILES, "paper", evolve(made, pre=schedule, judge=schedule))


def test_all_weights_are_trained_and_the_given_encoder_is_unchanged(kit, tmp_path: Path, encoder) -> None:
    before = encoder.id
    training = kit.begin(tmp_path, config=CONFIG, encoder=encoder)
    start = {name: value.clone() for name, value in training.networks.judge.state_dict().items()}
    first = training.advance()
    for _ in range(20):
        last = training.advance()
    assert last.numbers["pre"] < first.numbers["pre"]
    after = training.networks.judge.state_dict()
    unmoved = [name for name in start if start[name].is_floating_point() and torch.equal(start[name], after[name])]
    assert unmoved == []
    assert SentenceEncoder(model=encoder.model, tokenizer=encoder.tokenizer, longest=64).id == before


def test_resumed_training_is_bit_identical_including_dropout(kit, tmp_path: Path, encoder) -> None:
    through, parts = (kit.begin(tmp_path, config=CONFIG, encoder=encoder) for _ in range(2))
    for _ in range(5):
        through.advance()
    for _ in range(2):
        parts.advance()
    saved = read_checkpoint(kit.leave(tmp_path, parts.tensors(), config=CONFIG, encoder=encoder))
    assert saved is not None
    torch.manual_seed(7)  # the state of the global generator does not matter
    resumed = kit.begin(tmp_path, config=CONFIG, encoder=encoder, saved=saved.tensors)
    for _ in range(3):
        resumed.advance()
    one, other = through.tensors(), resumed.tensors()
    assert set(one) == set(other)
    assert all(np.array_equal(one[name], other[name]) for name in one)


def test_three_facts_are_enough(kit, tmp_path: Path, encoder) -> None:
    """Validation needs no negatives, so one fact is enough for it."""
    rest = {"config": CONFIG, "encoder": encoder}
    with pytest.raises(BadData, match="about 2 facts: too few") as caught:
        kit.begin(tmp_path, examples=kit.examples[:2], **rest)
    assert "at least 3 edits that share no question" in caught.value.hint
    assert kit.after(5, tmp_path, examples=kit.examples[:3], **rest).step == 5


def test_editor_uses_both_fine_tuned_encoders(kit, tmp_path: Path, encoder) -> None:
    training = kit.begin(tmp_path, config=CONFIG, encoder=encoder)
    training._pre_merit = training._judge_merit = lambda: training.step  # always an improvement
    for _ in range(4):
        training.advance()
    kit.leave(tmp_path, training.tensors(), config=CONFIG, encoder=encoder)
    session = make_session(ScriptedModel([]), root=tmp_path, encoder=encoder)
    with Pokemqa(CONFIG).edit(session, [example.edit for example in kit.examples[:4]]) as edited:
        detector = edited.memory.detector
        assert (detector.confirm, detector.scale, detector.encoder.pooling) == (False, 1.0, "cls")
        assert not detector.encoder.normalized
        texts = [example.paraphrases[0] for example in kit.examples[:4]]
        training.networks.pre.eval()
        numbers = [training.examples.texts.index(text) for text in texts]
        with torch.no_grad():
            tensors = training.tensors()
            load_weights(training.networks.pre, tensors, kept(tensors, "pre").prefix)
            expected = training.networks.points(numbers, edits=False)
        assert np.allclose(detector.encoder.embed(texts), expected.numpy(), atol=1e-5)
        found = edited.memory.search(texts, k=1, hidden=[frozenset()] * 4)
        assert all(len(hits) <= 1 for hits in found)
