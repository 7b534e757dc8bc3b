"""The judge with a scripted model."""

import json

import pytest
from attrs import evolve

from ke_core.app import installed_catalog
from ke_core.plugin import Answer, BadConfig, Entity, Gold, Item, KEError, Query, Verdict
from ke_plugin_llm import LLMConfig, build, items
from ke_testing.contract import ComponentContract
from ke_testing.fakes import ScriptedModel, make_session

QUERY = Query(id="q", texts=("Which is higher, Aru or Bel?",), gold=Gold(entities=(Entity(label="Bel"),)))
HELD = ("Aru is 900 metres high.", "Bel is 950 metres high")
ITEM = Item(
    query=QUERY,
    reply=Answer(text="Bel", raw="Aru is 900 metres high. Bel is 1,000 metres high.\nAnswer: Bel"),
    facts=HELD,
)


class TestContract(ComponentContract):
    kind = "judge"
    name = "llm"

    def test_spec_declares_model_labels_and_metrics(self, spec):
        assert spec.needs_model
        assert set(spec.labels) == {"facts", "support"}
        assert spec.metrics == ("fact-recall", "coherence")


def says(prompt):
    """Return the correct output for the item above."""
    last = prompt.rpartition("\n\n")[2]
    if last.startswith("Text:"):
        return " \n- Aru is 900 metres high.\n- Bel is 1,000 metres high.\n- Bel is old.\n\nText: and so on"
    if last.startswith("Paragraph:"):
        statement = last.partition("Statement: ")[2].partition("\n")[0]
        label = {"Aru is 900 metres high.": "consistent", "Bel is 1,000 metres high.": "inconsistent"}
        return f" Because.\nLabel: {label.get(statement, 'unrelated')}\n\nParagraph: next"
    return " It follows.\nLabel: support"


def judged(said, *given, **options):
    model = ScriptedModel(said)
    judge = build(LLMConfig(**options))
    return judge.judge(make_session(model), list(given)), model


def labels(judgment):
    return [(finding.item, finding.label) for finding in judgment.findings]


def test_facts_and_support_are_labeled_and_the_verdict_is_unsure():
    (found,), model = judged(says, ITEM)
    assert labels(found) == [
        ("Aru is 900 metres high.", "consistent"),
        ("Bel is 1,000 metres high.", "inconsistent"),
        ("Bel is old.", "unrelated"),
        ("Bel", "support"),
    ]
    assert found.verdict is Verdict.UNSURE
    assert found.findings[-1].note == "It follows.\nLabel: support"
    assert all(request.temperature == 0 for request in model.requests)
    assert "Paragraph: Aru is 900 metres high. Bel is 950 metres high.\nStatement: Bel is old." in model.prompts[-2]


def test_invalid_label_is_unsure_with_the_output():
    (found,), _model = judged(lambda prompt: says(prompt).replace("support", "probably"), ITEM)
    assert found.findings[-1].label == "support-unsure"
    assert found.findings[-1].note == "It follows.\nLabel: probably"


def test_split_without_a_list_is_unsure_with_the_output():
    (found,), _model = judged(lambda prompt: "I cannot do that." if "Text:" in prompt else says(prompt), ITEM)
    assert labels(found)[0][1] == "fact-unsure"
    assert found.findings[0].note == "I cannot do that."


def test_split_sentences_needs_no_model_call():
    (found,), model = judged(says, ITEM, split="sentences", label="facts")
    assert [label for _item, label in labels(found)] == ["consistent", "inconsistent"]
    assert len(model.prompts) == 2


def test_support_depends_on_the_answer():

    def follow(prompt):
        answer = prompt.rpartition("\nAnswer: ")[2].partition("\n")[0]
        return f" They say that Ben Nevis is higher.\nLabel: {'support' if answer == 'yes' else 'not-support'}"

    hills = evolve(QUERY, texts=("Is Ben Nevis higher than Snowdon?",))
    raw = "Ben Nevis is 1,345 metres high. Snowdon is 1,085 metres high.\nAnswer: "
    given = [Item(query=hills, reply=Answer(text=text, raw=raw + text)) for text in ("no", "yes")]
    found, _model = judged(follow, *given, label="support")
    assert [labels(one) for one in found] == [[("no", "not-support")], [("yes", "support")]]


def test_answer_without_thoughts_sends_no_request():
    (found,), model = judged([], Item(query=QUERY, reply=Answer(text="Bel", raw="Bel"), facts=HELD))
    assert labels(found) == [("Bel", "no-thoughts")]
    assert model.prompts == []


def test_thoughts_without_an_answer_are_not_support():
    reply = Answer(text="", raw="Aru is 900 metres high. Bel is 1,000", outcome="length")
    (found,), _model = judged(says, Item(query=QUERY, reply=reply, facts=HELD))
    assert found.verdict is Verdict.WRONG
    assert [label for _item, label in labels(found)] == ["consistent", "inconsistent", "unrelated", "not-support"]


def test_judgments_do_not_depend_on_the_other_items():
    other = Item(query=QUERY, reply=Answer(text="Aru", raw="Nothing is known.\nAnswer: Aru"), facts=HELD)
    together, _model = judged(says, other, ITEM)
    alone, _model = judged(says, ITEM)
    assert together[1] == alone[0]


def test_model_error_stops_the_judging():
    with pytest.raises(KEError, match="the judge's model failed") as caught:
        judged(lambda _prompt: ValueError("no connection"), ITEM)
    assert "judgments so far are saved" in caught.value.hint


def test_missing_model_is_an_error():
    with pytest.raises(KEError, match="needs a model"):
        build(LLMConfig()).judge(None, [ITEM])


def test_too_long_prompt_is_unsure_with_the_reason():
    class ContextOverflow(Exception):
        pass

    long = ContextOverflow("4,000 tokens, and 2,048 fit")
    (found,), _model = judged(lambda prompt: long if "Statement: Bel is old." in prompt else says(prompt), ITEM)
    assert labels(found)[2] == ("ContextOverflow", "fact-unsure")


def test_prompts_are_read_from_a_folder(tmp_path):
    for name in ("split", "fact", "support"):
        (tmp_path / f"{name}.txt").write_text(f"{name} {{fact}}", encoding="utf-8")
    _found, model = judged(lambda p: "- A." if p.startswith("split") else "Label: support", ITEM, prompts=str(tmp_path))
    assert model.prompts[1] == "fact A."


def test_missing_prompt_file_is_named(tmp_path):
    with pytest.raises(BadConfig, match=r"llm\.prompts: .*split\.txt cannot be read"):
        build(LLMConfig(prompts=str(tmp_path)))


def test_sixty_included_items_have_valid_labels_and_are_not_in_the_prompts():
    spec = installed_catalog().spec("judge", "llm")
    lines = [json.loads(line) for line in items().splitlines()]
    known = {label for group in spec.labels.values() for label in group}
    assert len(lines) == 60
    assert {line["label"] for line in lines} == known - {"fact-unsure", "support-unsure"}
    prompts = " ".join(build(LLMConfig()).prompts.values())
    assert not [line for line in lines if line["thoughts"] in prompts]
