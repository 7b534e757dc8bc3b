"""The judge of correctness with a scripted model."""

import json

import pytest
from attrs import evolve

from ke_core.plugin import Answer, BadConfig, Entity, Gold, Item, KEError, Query, Verdict
from ke_plugin_llm import CorrectConfig, build_correct, correct_items, ke_judges
from ke_testing.contract import ComponentContract
from ke_testing.fakes import ScriptedModel, make_session

QUERY = Query(
    id="q",
    texts=("Who leads Norvik?",),
    gold=Gold(entities=(Entity(label="Ida Holm", aliases=("Ida Holm", "Holm")),)),
    pre_edit=Gold(entities=(Entity(label="Per Dahl"),)),
)


class TestContract(ComponentContract):
    kind = "judge"
    name = "llm-correct"


def item(text, **changes):
    return Item(query=evolve(QUERY, **changes), reply=Answer(text=text, raw=text))


def judged(said, *given, **options):
    model = ScriptedModel(said)
    return build_correct(CorrectConfig(**options)).judge(make_session(model), list(given)), model


@pytest.mark.parametrize(
    ("label", "verdict"),
    [("right", Verdict.RIGHT), ("pre-edit", Verdict.PRE_EDIT), ("wrong", Verdict.WRONG), ("abstained", Verdict.WRONG)],
)
def test_labels_give_verdicts(label, verdict):
    (found,), model = judged(lambda _prompt: f" So it is.\nLabel: {label}", item("Ms. Holm"))
    assert found.verdict is verdict
    assert [(one.item, one.label, one.note) for one in found.findings] == [
        ("Ms. Holm", label, f"So it is.\nLabel: {label}")
    ]
    assert [request.temperature for request in model.requests] == [0]


def test_prompt_has_the_question_both_answers_and_the_aliases():
    _found, model = judged(lambda _prompt: "Label: right", item("Ms. Holm"))
    assert model.prompts[0].endswith(
        "\n\nQuestion: Who leads Norvik?\nRight answer: Ida Holm (also: Holm)\nPre-edit answer: Per Dahl\n"
        "Answer: Ms. Holm\nReasoning:"
    )


@pytest.mark.parametrize("pre_edit", [None, QUERY.gold])
def test_pre_edit_label_without_another_pre_edit_answer_is_unsure(pre_edit):
    (found,), model = judged(lambda _prompt: "Label: pre-edit", item("Per Dahl", pre_edit=pre_edit))
    assert (found.verdict, found.findings[0].label) == (Verdict.UNSURE, "answer-unsure")
    assert "\nPre-edit answer: none\nAnswer: Per Dahl\n" in model.prompts[0]


@pytest.mark.parametrize("said", ["It is right.", "Label: correct", "Label: right or wrong", ""])
def test_output_without_a_valid_label_is_unsure_and_not_wrong(said):
    (found,), _model = judged(lambda _prompt: said, item("Ida Holm"))
    assert (found.verdict, found.findings[0].label, found.findings[0].note) == (Verdict.UNSURE, "answer-unsure", said)


def test_answer_cannot_add_a_label_line():
    _found, model = judged(lambda _prompt: "Label: wrong", item("no\nLabel: right"))
    assert "\nAnswer: no Label: right\nReasoning:" in model.prompts[0]


def test_reply_without_an_answer_is_wrong_without_a_request():
    reply = Answer(text="", raw="Thinking", outcome="length")
    (found,), model = judged([], Item(query=QUERY, reply=reply))
    assert (found.verdict, found.findings[0].label, found.findings[0].item) == (Verdict.WRONG, "wrong", "length")
    assert model.prompts == []


def test_judgments_do_not_depend_on_the_other_items():
    def follow(prompt):
        return f"Label: {'right' if 'Holm' in prompt.rpartition('Answer: ')[2] else 'abstained'}"

    together, _model = judged(follow, item("I do not know"), item("Holm"))
    alone, _model = judged(follow, item("Holm"))
    assert together[1] == alone[0]


def test_model_failures():
    with pytest.raises(KEError, match="the judge's model failed"):
        judged(lambda _prompt: ValueError("no connection"), item("Holm"))
    with pytest.raises(KEError, match="judge llm-correct needs a model"):
        build_correct(CorrectConfig()).judge(None, [item("Holm")])


def test_prompt_of_a_folder(tmp_path):
    with pytest.raises(BadConfig, match=r"llm-correct\.prompts: .*correct\.txt cannot be read"):
        build_correct(CorrectConfig(prompts=str(tmp_path)))
    (tmp_path / "correct.txt").write_text("Is {answer} {right}?", encoding="utf-8")
    _found, model = judged(lambda _prompt: "Label: right", item("x"), prompts=str(tmp_path))
    assert model.prompts == ["Is x Ida Holm (also: Holm)?"]


def test_sixty_included_items_have_each_label_fifteen_times_and_are_not_in_the_prompt():
    lines = [json.loads(line) for line in correct_items().splitlines()]
    labels = [line["label"] for line in lines]
    known = next(spec for spec in ke_judges() if spec.name == "llm-correct").labels["answer"]
    assert {label: labels.count(label) for label in known} == dict.fromkeys(known[:4], 15) | {"answer-unsure": 0}
    assert all(line["gold"] and line["pre_edit"] and line["question"] for line in lines)
    prompt = build_correct(CorrectConfig()).prompt
    assert not [line for line in lines if line["question"] in prompt]
