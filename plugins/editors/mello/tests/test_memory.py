"""Retrieval, the settings of each profile, and the worked examples."""

from __future__ import annotations

import pytest

from ke_core.plugin import BadConfig, Material
from ke_plugin_mello import MelloConfig, ke_editors
from ke_plugin_mello.editor import Mello
from ke_testing.examples import MOVE_GATE, MOVE_TOWER, question
from ke_testing.fakes import ScriptedModel, make_session

ASK = question("In which city is the Eiffel Tower?")
STEP = f"\nSubquestion: {ASK.texts[0]}\nGenerated answer: It is in Paris.\nRetrieved fact:"
END = "\nFinal answer: Rome"


def edited(model, edits, *, material=None, **options):
    return Mello(config=MelloConfig(**options)).edit(make_session(model, material=material), edits)


def retrieved(model_after, ask=ASK) -> tuple[str, ...]:
    (reply,) = model_after.answer([ask])
    return reply.steps[0].retrieved


def test_nearest_statement_is_retrieved() -> None:
    for edits in ([MOVE_TOWER, MOVE_GATE], [MOVE_GATE, MOVE_TOWER]):
        with edited(ScriptedModel([STEP, END]), edits) as after:
            assert retrieved(after) == (MOVE_TOWER.id,)


def first_request(profile):
    model = ScriptedModel([END])
    with edited(model, [], profile=profile) as after:
        after.answer([ASK])
    return model.requests[0]


@pytest.mark.parametrize(
    ("profile", "calls", "temperature", "tokens", "label"),
    [("default", 5, 0, 256, "Question"), ("paper", 4, 0, 256, "Qustion"), ("remastered", 4, 1, 50, "Question")],
)
def test_profiles_differ_as_their_code_does(profile, calls, temperature, tokens, label) -> None:
    request = first_request(profile)
    assert (request.temperature, request.max_tokens) == (temperature, tokens)
    assert request.prompt.endswith(f"\n{label}: {ASK.texts[0]}")
    with edited(ScriptedModel([]), [], profile=profile) as after:
        settings = {"calls": calls, "temperature": temperature, "max_tokens": tokens}
        assert {name: after.details[name] for name in settings} == settings


def test_default_is_greedy() -> None:
    (spec,) = ke_editors()
    assert first_request(spec.config().profile).temperature == 0


def test_samples_are_seeded_by_the_question() -> None:
    assert first_request("remastered").seed == first_request("remastered").seed is not None


# --- worked examples -------------------------------------------------------------------------------------


def worked_examples(**kwargs) -> str:
    model = ScriptedModel([END])
    with edited(model, [], **kwargs) as after:
        after.answer([ASK])
    return model.prompts[0].removesuffix(f"\n\nQuestion: {ASK.texts[0]}")


def test_own_examples_use_the_labels_of_the_loop() -> None:
    lines = worked_examples().splitlines()
    for label, count in {"Question: ": 4, "Final answer: ": 4}.items():
        assert sum(line.startswith(label) for line in lines) == count
    labels = ("Subquestion: ", "Generated answer: ", "Retrieved fact: ")
    counts = [sum(line.startswith(label) for line in lines) for label in labels]
    assert counts[0] == counts[1] == counts[2] >= 8


def test_worked_examples_can_be_parsed() -> None:
    """Replaying a worked example returns its final answer."""
    for block in worked_examples().split("\n\n"):
        turns = block.split("\n", 1)[1].split("Retrieved fact:")
        script = [turns[0], *("\n" + turn.split("\n", 1)[1] for turn in turns[1:])]
        model = ScriptedModel(script)
        with edited(model, [MOVE_TOWER]) as after:
            (reply,) = after.answer([ASK])
        assert (reply.outcome, len(model.prompts)) == ("answered", len(turns))
        assert block.endswith(f"Final answer: {reply.text}")


THEIRS = {"decompositions": Material(value="Question: theirs\nFinal answer: yes\n")}


def test_dataset_examples_are_used_only_with_prompts_dataset() -> None:
    assert worked_examples(material=THEIRS) == worked_examples()
    assert worked_examples(material=THEIRS, prompts="dataset") == "Question: theirs\nFinal answer: yes"


def test_dataset_without_examples_is_refused() -> None:
    with pytest.raises(BadConfig, match="brings no decompositions"), edited(ScriptedModel([]), [], prompts="dataset"):
        pass


def test_prompts_are_read_from_a_folder(tmp_path) -> None:
    (tmp_path / "decompose.txt").write_text("Question: mine\nFinal answer: yes\n", encoding="utf-8")
    assert worked_examples(material=THEIRS, prompts=str(tmp_path)) == "Question: mine\nFinal answer: yes"


@pytest.mark.parametrize("content", [None, b"", b"\xff\xfe\xff"], ids=["missing", "empty", "not text"])
def test_folder_without_usable_prompts_is_refused(tmp_path, content) -> None:
    if content is not None:
        (tmp_path / "decompose.txt").write_bytes(content)
    with pytest.raises(BadConfig, match=r"decompose\.txt"), edited(ScriptedModel([]), [], prompts=str(tmp_path)):
        pass
