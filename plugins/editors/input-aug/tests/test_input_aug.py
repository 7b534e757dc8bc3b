"""Prompts in both modes, and parsing of answers."""

from __future__ import annotations

from importlib.resources import files

import pytest
from attrs import evolve

from ke_core.plugin import BadConfig, Failure, Likelihood, Material, Scored, with_room
from ke_plugin_input_aug import InputAugConfig, ke_editors
from ke_plugin_input_aug.editor import InputAug
from ke_testing.examples import MOVE_GATE, MOVE_TOWER, question
from ke_testing.fakes import ScriptedModel, answer_from_script, make_session

ASK = question("In which city is the Eiffel Tower?", own=(MOVE_TOWER.id,))
TOWER, GATE = "Eiffel Tower is located in Rome.", "Brandenburg Gate is located in Madrid."
BOTH = pytest.mark.parametrize("mode", ["direct", "cot"])


def editing(model, edits=(MOVE_GATE, MOVE_TOWER), **options):
    return InputAug(config=InputAugConfig(**options)).edit(make_session(model), edits)


def asked(said=" Rome", ask=ASK, edits=(MOVE_GATE, MOVE_TOWER), **options):
    reply, model = answer_from_script(InputAug(config=InputAugConfig(**options)), [said], ask, edits)
    return reply, model.requests[0]


def last_block(request) -> list[str]:
    return request.prompt.split("\n\n")[-1].split("\n")


@pytest.mark.parametrize(
    ("facts", "shown"),
    [("oracle", TOWER), ("all", f"{GATE} {TOWER}"), ("retrieved", f"{TOWER} {GATE}"), ("none", "none")],
)
@pytest.mark.parametrize(("mode", "begins"), [("direct", "Answer:"), ("cot", "Thoughts:")])
def test_facts_are_before_the_question(mode, begins, facts, shown) -> None:
    _reply, request = asked(mode=mode, facts=facts)
    assert last_block(request) == [f"Facts: {shown}", f"Question: {ASK.texts[0]}", begins]


@BOTH
def test_counterfactual_facts_are_the_benchmarks_sentences(mode) -> None:
    said = ("The tower now stands in Rome.", "France has one tower less.")
    material = {"counterfactual-facts": Material(value={ASK.case: said}, oracle=True)}
    config = InputAugConfig(mode=mode, facts="counterfactuals")
    assert ke_editors()[0].oracle(config) == tuple(material)
    for edits, shown in ([MOVE_TOWER, MOVE_GATE], " ".join(said)), ([MOVE_GATE], "none"), ([], "none"):
        model = ScriptedModel([" Rome"])
        with InputAug(config=config).edit(make_session(model, material=material), edits) as edited:
            edited.answer([ASK])
        assert last_block(model.requests[0])[0] == f"Facts: {shown}"


@BOTH
def test_facts_none_differs_only_in_the_facts(mode) -> None:
    with_facts, without = asked(mode=mode)[1], asked(mode=mode, facts="none")[1]
    assert with_facts.prompt.replace(TOWER, "none") == without.prompt
    assert evolve(with_facts, prompt="") == evolve(without, prompt="")


@BOTH
def test_case_without_active_edits_equals_facts_none(mode) -> None:
    assert asked(mode=mode, ask=evolve(ASK, own=()))[1] == asked(mode=mode, facts="none")[1]
    assert asked(mode=mode, edits=())[1] == asked(mode=mode, facts="none")[1]


def test_unedited_model_gets_the_same_prompts() -> None:
    (spec,) = ke_editors()
    assert spec.own_prompt
    assert spec.own_before


@pytest.mark.parametrize(
    ("mode", "said", "outcome", "text"),
    [
        ("direct", " Rome\nFacts: more", "answered", "Rome"),
        ("direct", "", "unparsed", ""),
        ("cot", " By the facts, it is in Rome.\nAnswer: Rome", "answered", "Rome"),
        ("cot", " By the facts, it is in Rome.\nAnswer: Rome\n\nFacts: none\nAnswer: Oslo", "answered", "Rome"),
        ("cot", " By the facts, it is in Rome.", "unparsed", ""),
        ("cot", " on and on" * 200, "length", ""),
    ],
)
def test_parsing_of_answers(mode, said, outcome, text) -> None:
    reply, _request = asked(said, mode=mode)
    assert (reply.outcome, reply.text) == (outcome, text)


def test_worked_examples_are_not_parsed() -> None:
    reply, request = asked(" I do not know.", mode="cot")
    assert "Answer: Quito" in request.prompt
    assert (reply.outcome, reply.text) == ("unparsed", "")


@pytest.mark.parametrize(("mode", "tokens"), [("direct", 24), ("cot", 200)])
def test_maximum_tokens_of_an_answer(mode, tokens) -> None:
    assert asked(mode=mode)[1].max_tokens == tokens
    assert asked(mode=mode, max_tokens=7)[1].max_tokens == 7
    assert asked(mode=mode)[1].temperature == 0


def test_log_probabilities_are_computed_after_the_facts() -> None:
    ask = Likelihood(id="l", case="c", prompt="The tower is in", continuations=(" Rome",), own=(MOVE_TOWER.id,))
    model = ScriptedModel()
    with editing(model) as edited:
        (reply,) = edited.answer([ask])
    assert isinstance(reply, Scored)
    assert model.scored[0].prompt == f"Facts: {TOWER}\nThe tower is in"
    with editing(model, mode="cot") as edited:
        (reply,) = edited.answer([ask])
    assert isinstance(reply, Failure)
    assert reply.unscored


@BOTH
def test_worked_examples_can_be_parsed(mode) -> None:
    text = (files("ke_plugin_input_aug") / "prompts" / f"{mode}.txt").read_text(encoding="utf-8").strip()
    instruction, *blocks = text.split("\n\n")
    assert "\n" not in instruction
    assert len(blocks) == 4
    labels = ["Facts", "Question", "Thoughts", "Answer"] if mode == "cot" else ["Facts", "Question", "Answer"]
    for block in blocks:
        assert [line.split(":")[0] for line in block.split("\n")] == labels
        said = block.split("Thoughts:" if mode == "cot" else "Answer:")[1]
        assert asked(said, mode=mode)[0].text == block.split("Answer: ")[1]
    assert sum(block.startswith("Facts: none\n") for block in blocks) == 1


@BOTH
def test_prompts_are_read_from_a_folder(tmp_path, mode) -> None:
    (tmp_path / f"{mode}.txt").write_text("Answer.\n", encoding="utf-8")
    assert asked(mode=mode, prompts=str(tmp_path))[1].prompt.startswith("Answer.\n\nFacts: ")


@BOTH
@pytest.mark.parametrize("content", [None, b" \n", b"\xff"])
def test_unusable_prompts_are_refused(tmp_path, mode, content) -> None:
    if content is not None:
        (tmp_path / f"{mode}.txt").write_bytes(content)
    with pytest.raises(BadConfig, match=rf"{mode}\.txt"), editing(ScriptedModel([]), mode=mode, prompts=str(tmp_path)):
        pass


@pytest.mark.parametrize(("mode", "said"), [("direct", " one\ntwo"), ("cot", " By the facts.\nAnswer: one\ntwo")])
def test_multi_line_answer_ends_at_the_next_facts(mode, said) -> None:
    ask = evolve(ASK, prompt=with_room(ASK.prompt, ["one\ntwo"]))
    reply, request = asked(f"{said}\nFacts: none", ask=ask, mode=mode)
    assert (reply.outcome, reply.text) == ("answered", "one\ntwo")
    assert request.max_tokens == 512
