"""Replays of the loop with a scripted model: prompts, outcomes, and number of calls."""

from __future__ import annotations

import pytest

from ke_core.plugin import QUESTION_ENTITIES, Answer, BadConfig, Cost, Material, Step
from ke_plugin_pokemqa import PokemqaConfig
from ke_plugin_pokemqa.editor import Pokemqa
from ke_testing.examples import MOVE_GATE, MOVE_TOWER, question
from ke_testing.fakes import ScriptedModel, answer_from_script, make_session
from ke_testing.process import under_hash_seeds

TOWER = question("Who is the mayor of the city of the Eiffel Tower?")
FIRST = "\nSubquestion: In which city is Eiffel Tower located?\nGenerated answer: Made up."
UNKNOWN = "\nSo the entity reached is: Rome\nSubquestion: Who governs it?\nGenerated answer:"
OWN = " Roberto Gualtieri governs it.\nSo the entity reached is: Gualtieri\nFinal answer: Gualtieri"
FINAL = "\nSo the entity reached is: Rome.\nFinal answer: Rome"
BOTH = pytest.mark.parametrize("loop", ["default", "paper"])


def hop(n: int) -> str:
    return f"\nSo the entity reached is: {n}\nSubquestion: Step {n}?\nGenerated answer: Answer {n}."


def editor(**options):
    return Pokemqa(PokemqaConfig(detector="nearest", threshold=0.6, **options))


def edited(model, edits=(MOVE_TOWER, MOVE_GATE), *, material=None, **options):
    return editor(**options).edit(make_session(model, material=material), edits)


def replay(*script, ask=TOWER, edits=(MOVE_TOWER, MOVE_GATE), material=None, **options):
    """Return the reply and the model, whose script must be used up."""
    return answer_from_script(editor(**options), script, ask, edits, material=material)


def outcome(*script, **options) -> tuple[str, str]:
    reply, _model = replay(*script, **options)
    assert isinstance(reply, Answer)
    return reply.outcome, reply.text


def test_edited_hop_and_unedited_hop() -> None:
    reply, model = replay(FIRST, UNKNOWN, OWN)
    assert (reply.outcome, reply.text) == ("answered", "Gualtieri")
    assert [(step.kind, step.text, step.retrieved, step.answer) for step in reply.steps] == [
        ("subquestion", "In which city is Eiffel Tower located?", (MOVE_TOWER.id,), "Rome"),
        ("subquestion", "Who governs it?", (), "Gualtieri"),
        ("final", "Gualtieri", (), ""),
    ]
    asked = f"\n\nQuestion: {TOWER.texts[0]}"
    assert model.prompts[0].endswith(asked)
    assert model.prompts[2].removeprefix(model.prompts[0]) == (
        "\nSubquestion: In which city is Eiffel Tower located?"
        "\nGenerated answer: Eiffel Tower is located in Rome."
        "\nSo the entity reached is: Rome"
        "\nSubquestion: Who governs it?"
        "\nGenerated answer:"
    )
    assert reply.raw == (model.prompts[2] + OWN).removeprefix(model.prompts[0])


def test_prompt_has_the_same_form_with_and_without_an_edit() -> None:
    """The released loop omits the colon if there is no edit."""
    _reply, model = replay(FIRST, UNKNOWN, OWN)
    assert "\nGenerated answer: Eiffel" in model.prompts[1]
    assert model.prompts[2].endswith("\nGenerated answer:")
    _reply, model = replay(FIRST, UNKNOWN, OWN, loop="paper")
    assert model.prompts[2].endswith("\nGenerated answer")


@BOTH
def test_generation_settings_of_every_call(loop) -> None:
    _reply, model = replay(FIRST, FINAL, loop=loop)
    for request in model.requests:
        assert (request.max_tokens, request.temperature) == (200, 0.0)
        assert request.stop[:2] == ("Generated answer:", "\n\n")


@BOTH
def test_final_answer_at_the_first_call(loop) -> None:
    reply, _model = replay("\nFinal answer: Rome", loop=loop)
    assert reply.steps == (Step(kind="final", text="Rome"),)
    assert reply.cost == Cost(calls=1, prompt_tokens=reply.cost.prompt_tokens, tokens=3)


@BOTH
def test_five_calls_finish_four_hops(loop) -> None:
    assert outcome(hop(1), hop(2), hop(3), hop(4), FINAL, loop=loop) == ("answered", "Rome")


@BOTH
def test_loop_stops_at_max_calls(loop) -> None:
    model = ScriptedModel(lambda _prompt: FIRST)
    with edited(model, loop=loop) as after:
        (reply,) = after.answer([TOWER])
    assert (reply.outcome, reply.text, len(model.prompts)) == ("hop-cap", "", 5)


@BOTH
@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n\nSubquestion: Late?",
        "Rome",
        "\nSub-question: In which city?\nGenerated answer: Paris.",
        "\nSubquestion:",
        "\nFinal answer: ",
    ],
    ids=["nothing", "blank line first", "one line", "label", "empty question", "empty answer"],
)
def test_malformed_turn_is_unparsed(text, loop) -> None:
    reply, _model = replay(text, loop=loop)
    assert (reply.outcome, reply.text) == ("unparsed", "")
    assert [step.kind for step in reply.steps] == ["unparsed"]


def test_paper_loop_allows_three_lines_before_a_subquestion() -> None:
    long = "\nOne.\nTwo.\nThree.\nSubquestion: Who governs it?\nGenerated answer:"
    assert outcome(long, loop="paper") == ("unparsed", "")
    assert outcome(long, FINAL) == ("answered", "Rome")


def test_subquestion_without_announcement_is_looked_up() -> None:
    said = "\nSubquestion: In which city is Eiffel Tower located?\nIt is in Paris.\nFinal answer: Paris"
    reply, _model = replay(said, FINAL)
    assert reply.steps[0].retrieved == (MOVE_TOWER.id,)
    assert outcome(said, loop="paper") == ("answered", "Paris")


def test_invented_example_is_cut() -> None:
    assert outcome("\nFinal answer: Rome\nQuestion: Who?\nFinal answer: Oslo") == ("answered", "Rome")
    assert outcome("\nFinal answer: Rome\n\nQuestion: Who?\nFinal answer: Oslo", loop="paper")[1] == "Rome"


@BOTH
def test_truncated_line_is_length(loop) -> None:
    assert outcome("\nFinal answer: New York", max_tokens=3, loop=loop) == ("length", "")
    assert outcome("\nSubquestion: In which city is it", max_tokens=4, loop=loop) == ("length", "")


def test_complete_lines_before_the_limit_are_used() -> None:
    assert outcome("\nFinal answer: Rome\nand so on and so on", max_tokens=5) == ("answered", "Rome")


@BOTH
def test_empty_memory_leaves_every_hop_to_the_model(loop) -> None:
    reply, _model = replay(FIRST, OWN, edits=(), loop=loop)
    assert (reply.text, reply.steps[0].retrieved, reply.steps[0].scores) == ("Gualtieri", (), ())


# --- worked examples and the knowledge prompt --------------------------------------------------------------


def worked_examples(file: str, tmp_path=None, **options) -> str:
    known = {QUESTION_ENTITIES: Material(value={TOWER.texts[0]: "Eiffel Tower, a tower."})}
    _reply, model = replay(FINAL, material=known, knowledge="dataset" if file == "knowledge" else "none", **options)
    return model.prompts[0]


@pytest.mark.parametrize("file", ["plain", "knowledge"])
def test_worked_examples_can_be_parsed(file) -> None:
    """Replaying a worked example returns its final answer."""
    *blocks, asked = worked_examples(file).split("\n\n")
    assert len(blocks) == 4
    assert ("Key entity: Eiffel Tower, a tower." in asked) == (file == "knowledge")
    for block in blocks:
        turns = block.split("\nSubquestion", 1)[1].split("Generated answer:")
        script = ["\nSubquestion" + turns[0], *("\n" + turn.split("\n", 1)[1] for turn in turns[1:])]
        reply, _model = replay(*script)
        assert reply.outcome == "answered"
        assert block.endswith(f"Final answer: {reply.text}")
        assert all(step.answer for step in reply.steps[:-1])
        assert ("Key entity: " in block) == (file == "knowledge")


def test_question_without_a_key_entity_uses_the_plain_prompt() -> None:
    model = ScriptedModel([FINAL])
    known = {QUESTION_ENTITIES: Material(value={"Another question?": "X, a person."})}
    with edited(model, material=known, knowledge="dataset") as after:
        after.answer([TOWER])
    assert "Key entity" not in model.prompts[0]


def test_dataset_without_entities_is_refused() -> None:
    with pytest.raises(BadConfig, match="has no question-entities"), edited(ScriptedModel([]), knowledge="dataset"):
        pass


def test_prompts_are_read_from_a_folder(tmp_path) -> None:
    (tmp_path / "plain.txt").write_text("Question: mine\nFinal answer: yes\n", encoding="utf-8")
    assert worked_examples("plain", prompts=str(tmp_path)).startswith(
        "Question: mine\nFinal answer: yes\n\nQuestion: Who"
    )
    with pytest.raises(BadConfig, match=r"knowledge\.txt"):
        worked_examples("knowledge", prompts=str(tmp_path))
    with pytest.raises(BadConfig, match=r"plain\.txt"):
        worked_examples("plain", prompts=str(tmp_path / "none"))


def test_paper_loop_does_not_count_logical_steps() -> None:
    """CompKE's demonstrations have one."""
    said = " Rome\nSo the entity reached is: Rome\nLogical operation: of (Rome), keep it\nSubquestion: Who rules it?"
    assert outcome(FIRST, said, FINAL, loop="paper")[0] == "answered"


def test_name_keeps_its_own_period() -> None:
    said = " Liverpool F.C. does.\nSo the entity reached is: Liverpool F.C.\nSubquestion: Who owns it?"
    reply, _model = replay(FIRST, said, FINAL)
    assert reply.steps[0].answer == "Liverpool F.C."


SCRIPT = """
from attrs import evolve
from ke_testing.examples import MOVE_TOWER, question
from ke_testing.fakes import ScriptedModel, make_session
from ke_plugin_pokemqa import PokemqaConfig
from ke_plugin_pokemqa.editor import Pokemqa

alike = [evolve(MOVE_TOWER, id=f"edit {number}") for number in range(9)]
steps = iter(["\\nSubquestion: In which city is Eiffel Tower located?", "\\nFinal answer: Rome"] * 2)
model = ScriptedModel(lambda prompt: next(steps))
with Pokemqa(PokemqaConfig(detector="nearest", threshold=0.6)).edit(make_session(model), alike) as edited:
    for hidden in (frozenset(), frozenset({"edit 0", "edit 3"})):
        print(edited.answer([evolve(question("Where is it?"), hidden=hidden)]))
print(model.prompts, edited.details)
"""


@pytest.mark.integration
def test_answers_do_not_depend_on_the_hash_seed() -> None:
    """The contract test skips editors with a trainer."""
    outputs = under_hash_seeds(SCRIPT)
    assert outputs[0] == outputs[1]
    assert "retrieved=('edit 0',)" in outputs[0]
    assert "retrieved=('edit 1',)" in outputs[0]
