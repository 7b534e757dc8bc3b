"""What the memory holds, hides and shows, and which worked examples stand before the question."""

from __future__ import annotations

import pytest
from attrs import evolve

from ke_core.plugin import BadConfig, Edit, Material
from ke_plugin_mello import MelloConfig, ke_editors
from ke_plugin_mello.editor import Mello
from ke_testing.examples import MOVE_GATE, MOVE_TOWER, question
from ke_testing.fakes import ScriptedModel, WordEncoder, make_session
from ke_testing.process import under_hash_seeds

ASK = question("In which city is the Eiffel Tower?")
STEP = f"\nSubquestion: {ASK.texts[0]}\nGenerated answer: It is in Paris.\nRetrieved fact:"
END = "\nFinal answer: Rome"


def edited(model, edits, *, material=None, **options):
    return Mello(config=MelloConfig(**options)).edit(make_session(model, material=material), edits)


def retrieved(model_after, ask=ASK) -> tuple[str, ...]:
    (reply,) = model_after.answer([ask])
    return reply.steps[0].retrieved


def test_the_nearest_statement_comes_first_whatever_the_order_of_the_edits() -> None:
    for edits in ([MOVE_TOWER, MOVE_GATE], [MOVE_GATE, MOVE_TOWER]):
        with edited(ScriptedModel([STEP, END]), edits) as after:
            assert retrieved(after) == (MOVE_TOWER.id,)


def test_hidden_facts_are_not_retrieved() -> None:
    ask = evolve(ASK, hidden=frozenset({MOVE_TOWER.id}))
    with edited(ScriptedModel([STEP, END]), [MOVE_TOWER, MOVE_GATE]) as after:
        assert retrieved(after, ask) == (MOVE_GATE.id,)
    with edited(ScriptedModel([STEP, END]), [MOVE_TOWER]) as after:
        assert retrieved(after, ask) == ()


def test_facts_are_put_in_and_taken_out_while_the_model_answers() -> None:
    with edited(ScriptedModel([STEP, END] * 3), [MOVE_GATE]) as after:
        assert retrieved(after) == (MOVE_GATE.id,)
        after.change(add=[MOVE_TOWER])
        assert retrieved(after) == (MOVE_TOWER.id,)
        after.change(remove=[MOVE_TOWER.id])
        assert retrieved(after) == (MOVE_GATE.id,)
        assert after.details["facts"] == 1


def test_a_fact_is_held_once() -> None:
    with edited(ScriptedModel([]), [MOVE_TOWER, MOVE_GATE, MOVE_TOWER]) as after:
        assert after.details["facts"] == 2


@pytest.mark.parametrize("turn", [1, -1])
def test_m3_ties_go_to_the_first_edit_not_to_a_hash(turn) -> None:
    twins = [Edit(id=name, statement="Eiffel Tower is located in Rome") for name in ("b", "a", "c")][::turn]
    with edited(ScriptedModel([STEP, END]), twins) as after:
        assert retrieved(after) == (twins[0].id,)


def test_m3_hash_seed_has_no_say() -> None:
    code = (
        "from ke_testing.examples import *;"
        "from ke_testing.fakes import ScriptedModel, make_session;"
        "from ke_core.plugin import Edit; from ke_plugin_mello import MelloConfig;"
        "from ke_plugin_mello.editor import Mello;"
        "twins = [Edit(id=str(n), statement='Eiffel Tower is in Rome') for n in (3, 1, 2)];"
        f"model = ScriptedModel([{STEP!r}, {END!r}]);"
        "edited = Mello(config=MelloConfig()).edit(make_session(model), twins);"
        "after = edited.__enter__(); print(after.answer(QUESTIONS[:1])[0].steps[0].retrieved, after.details)"
    )
    runs = under_hash_seeds(code)
    assert runs[0] == runs[1] != ""
    assert "'3'" in runs[0]


def test_m1_the_variant_is_an_option_and_so_on_record() -> None:
    (spec,) = ke_editors()
    assert spec.config().profile == "fixed"
    with edited(ScriptedModel([]), [], profile="paper") as after:
        assert after.details["calls"] == 4
    with edited(ScriptedModel([]), []) as after:
        assert after.details["calls"] == 5


def first_request(profile):
    model = ScriptedModel([END])
    with edited(model, [], profile=profile) as after:
        after.answer([ASK])
    return model.requests[0]


@pytest.mark.parametrize(
    ("profile", "temperature", "tokens", "label"),
    [("fixed", 0, 256, "Question"), ("paper", 0, 256, "Qustion"), ("remastered", 1, 50, "Question")],
)
def test_m1_the_variants_differ_as_their_codes_do(profile, temperature, tokens, label) -> None:
    request = first_request(profile)
    assert (request.temperature, request.max_tokens) == (temperature, tokens)
    assert request.prompt.endswith(f"\n{label}: {ASK.texts[0]}")
    with edited(ScriptedModel([]), [], profile=profile) as after:
        assert (after.details["temperature"], after.details["max_tokens"]) == (temperature, tokens)


def test_m1_the_default_is_greedy() -> None:
    (spec,) = ke_editors()
    assert first_request(spec.config().profile).temperature == 0


def test_m1_what_is_sampled_is_seeded_by_the_question() -> None:
    assert first_request("remastered").seed == first_request("remastered").seed is not None


def test_m5_a_fact_is_hidden_by_its_id_and_never_by_its_words() -> None:
    """One rule for what is hidden, the dataset's: an edit of the same words about another thing stays."""
    twin = Edit(id="twin", statement=MOVE_TOWER.statement)
    ask = evolve(ASK, hidden=frozenset({MOVE_TOWER.id}))
    with edited(ScriptedModel([STEP, END]), [MOVE_TOWER, twin]) as after:
        assert retrieved(after, ask) == ("twin",)


def test_m8_the_memory_holds_the_edits_of_all_cases() -> None:
    ask = evolve(ASK, own=(MOVE_GATE.id,))
    with edited(ScriptedModel([STEP, END]), [MOVE_TOWER, MOVE_GATE]) as after:
        assert retrieved(after, ask) == (MOVE_TOWER.id,)


def test_m4_one_edit_and_any_relation_will_do() -> None:
    """Remastered's code knew only the relations of the edited cases and failed where few were edited."""
    with edited(ScriptedModel([STEP, END]), [Edit(id="e", statement="The moon has the modules cheese")]) as after:
        assert retrieved(after) == ("e",)


def test_encoder_is_the_one_asked_for() -> None:
    names = []
    session = evolve(make_session(ScriptedModel([])), encoder=lambda name: names.append(name) or WordEncoder())
    with Mello(config=MelloConfig(encoder="another")).edit(session, [MOVE_TOWER]) as after:
        assert after.details["encoder"] == "fake:words-256"
    assert set(names) == {"another"}


# --- worked examples -------------------------------------------------------------------------------------


def worked_examples(**kwargs) -> str:
    model = ScriptedModel([END])
    with edited(model, [], **kwargs) as after:
        after.answer([ASK])
    return model.prompts[0].removesuffix(f"\n\nQuestion: {ASK.texts[0]}")


def test_our_own_four_examples_use_the_labels_that_the_loop_reads() -> None:
    lines = worked_examples().splitlines()
    for label, count in {"Question: ": 4, "Final answer: ": 4}.items():
        assert sum(line.startswith(label) for line in lines) == count
    labels = ("Subquestion: ", "Generated answer: ", "Retrieved fact: ")
    counts = [sum(line.startswith(label) for line in lines) for label in labels]
    assert counts[0] == counts[1] == counts[2] >= 8


def test_every_example_would_itself_be_parsed() -> None:
    """Replaying each worked example through the loop gives its own final answer."""
    for block in worked_examples().split("\n\n"):
        turns = block.split("\n", 1)[1].split("Retrieved fact:")
        script = [turns[0], *("\n" + turn.split("\n", 1)[1] for turn in turns[1:])]
        model = ScriptedModel(script)
        with edited(model, [MOVE_TOWER]) as after:
            (reply,) = after.answer([ASK])
        assert (reply.outcome, len(model.prompts)) == ("answered", len(turns))
        assert block.endswith(f"Final answer: {reply.text}")


THEIRS = {"decompositions": Material(value="Question: theirs\nFinal answer: yes\n")}


def test_the_datasets_examples_are_shown_only_when_asked_for() -> None:
    assert worked_examples(material=THEIRS) == worked_examples()
    assert worked_examples(material=THEIRS, prompts="dataset") == "Question: theirs\nFinal answer: yes"


def test_a_dataset_without_examples_is_refused_when_its_own_are_asked_for() -> None:
    with pytest.raises(BadConfig, match="brings no decompositions"), edited(ScriptedModel([]), [], prompts="dataset"):
        pass


def test_a_folder_of_prompts_is_shown_by_its_path(tmp_path) -> None:
    (tmp_path / "decompose.txt").write_text("Question: mine\nFinal answer: yes\n", encoding="utf-8")
    assert worked_examples(material=THEIRS, prompts=str(tmp_path)) == "Question: mine\nFinal answer: yes"


@pytest.mark.parametrize("content", [None, b"", b"\xff\xfe\xff"], ids=["missing", "empty", "not text"])
def test_a_folder_without_usable_prompts_is_refused(tmp_path, content) -> None:
    if content is not None:
        (tmp_path / "decompose.txt").write_bytes(content)
    with pytest.raises(BadConfig, match=r"decompose\.txt"), edited(ScriptedModel([]), [], prompts=str(tmp_path)):
        pass
