"""The judge with a tiny classifier, whose bias sets the label."""

import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast

from ke_core.plugin import Answer, BadConfig, Entity, Gold, Item, Query, Verdict
from ke_plugin_nli import NLIConfig, build
from ke_testing.contract import ComponentContract

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "aru", "bel", "is", "high", "old", ".", "9"]
LABELS = ("contradiction", "entailment", "neutral")
QUERY = Query(id="q", texts=("Which is higher?",), gold=Gold(entities=(Entity(label="Bel"),)))


class TestContract(ComponentContract):
    kind = "judge"
    name = "nli"


@pytest.fixture
def classifier(tmp_path):
    """Return a function that saves a tiny random classifier with this bias and returns its folder."""

    def make(*bias, labels=LABELS):
        torch.manual_seed(0)
        (tmp_path / "vocab.txt").write_text("\n".join(WORDS), encoding="utf-8")
        config = BertConfig(
            vocab_size=len(WORDS), hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
            max_position_embeddings=48, id2label=dict(enumerate(labels)),
            label2id={label: at for at, label in enumerate(labels)},
        )  # fmt: skip
        model = BertForSequenceClassification(config)
        with torch.no_grad():
            model.classifier.bias.copy_(torch.tensor(bias or (0.0,) * len(labels)))
        model.save_pretrained(tmp_path)
        BertTokenizerFast(str(tmp_path / "vocab.txt"), model_max_length=48).save_pretrained(tmp_path)
        return str(tmp_path)

    return make


def item(raw="Aru is 9. Bel is old.\nAnswer: Bel", held=("Aru is high.",), **reply):
    return Item(query=QUERY, reply=Answer(**{"text": "Bel", "raw": raw, **reply}), facts=held)


def labels(judgment):
    return [(finding.item, finding.label) for finding in judgment.findings]


@pytest.mark.parametrize(
    ("bias", "label"),
    [((50.0, 0.0, 0.0), "inconsistent"), ((0.0, 50.0, 0.0), "consistent"), ((0.0, 0.0, 50.0), "unrelated")],
)
def test_labels_of_the_classifier_are_mapped(classifier, bias, label):
    (found,) = build(NLIConfig(model=classifier(*bias))).judge(None, [item()])
    assert labels(found) == [("Aru is 9.", label), ("Bel is old.", label)]
    assert found.findings[0].note == f"{label} 1.000"
    assert found.verdict is Verdict.UNSURE


def test_label_below_the_minimum_probability_is_unsure(classifier):
    (found,) = build(NLIConfig(model=classifier(), sure=0.99)).judge(None, [item()])
    assert {label for _item, label in labels(found)} == {"fact-unsure"}


def test_too_long_pair_is_unsure(classifier):
    long = item(held=("Aru is high. " * 20,))
    (found, short) = build(NLIConfig(model=classifier(0.0, 50.0, 0.0))).judge(None, [long, item()])
    assert {label for _item, label in labels(found)} == {"fact-unsure"}
    assert "more than 48 tokens" in found.findings[0].note
    assert {label for _item, label in labels(short)} == {"consistent"}


def test_findings_do_not_depend_on_the_other_items(classifier):
    judge = build(NLIConfig(model=classifier()))
    others = [item(raw=f"Bel is {'old ' * n}.\nAnswer: Bel") for n in range(1, 9)]
    assert judge.judge(None, [item()]) == judge.judge(None, [*others, item()])[-1:]


def test_missing_thoughts_or_facts_get_no_label(classifier):
    judge = build(NLIConfig(model=classifier()))
    items = [item(raw="Bel"), item(held=()), item(raw="", text="", outcome="unparsed")]
    silent, factless, broken = judge.judge(None, items)
    assert labels(silent) == [("Bel", "no-thoughts")]
    assert labels(factless) == []
    assert [one.verdict for one in (silent, broken)] == [Verdict.UNSURE, Verdict.WRONG]


def test_classifier_with_other_labels_is_refused(classifier):
    with pytest.raises(BadConfig, match="has the labels good, bad"):
        build(NLIConfig(model=classifier(labels=("good", "bad"))))


def test_folder_without_a_classifier_is_refused(tmp_path):
    with pytest.raises(BadConfig, match=r"nli\.model: cannot load") as caught:
        build(NLIConfig(model=str(tmp_path)))
    assert "\n" not in str(caught.value)
