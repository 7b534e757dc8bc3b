"""Replays of the search with a scripted model: prompts, outcomes, and number of calls."""

from __future__ import annotations

import hashlib

import pytest
from attrs import evolve

from ke_core.plugin import Edit, Step
from ke_plugin_deepedit import DeepEditConfig
from ke_plugin_deepedit.editor import DeepEdit
from ke_plugin_deepedit.search import closed
from ke_testing.examples import MOVE_GATE, MOVE_TOWER, question
from ke_testing.fakes import ScriptedModel, answer_from_script, make_session

TOWER = question("Who is the mayor of the city of the Eiffel Tower?", own=(MOVE_TOWER.id,))
FACT = "Eiffel Tower is located in Rome"
MAYOR = "The mayor of Rome is Gualtieri"
FIRST = (" The Eiffel Tower is located in Paris.# ", " The Eiffel Tower is located in", " Rome\n")
SECOND = (f" {MAYOR}.# ", " The mayor of Rome is", " no", " Gualtieri")
CLOSING = " So the answer is somebody.\nQuestion:"
BOTH = pytest.mark.parametrize("profile", ["default", "paper"])


def replay(*script, edits=(MOVE_TOWER,), ask=TOWER, **options):
    """Return the reply and the model, whose script must be used up."""
    return answer_from_script(DeepEdit(config=DeepEditConfig(**options)), script, ask, edits)


def tails(model) -> list[str]:
    """Return the end of each prompt, after its worked examples."""
    return [prompt.rpartition("\n\n")[2] for prompt in model.prompts]


def test_fact_gets_no_second_period() -> None:
    assert closed("Rome is in Italy.") == closed("Rome is in Italy") == "Rome is in Italy.#"


@BOTH
def test_two_hops(profile) -> None:
    # First hop: the fact contains "Eiffel Tower", so no judgment is requested, and it replaces the thought. Second hop:
    # it names Rome, but also the Eiffel Tower before, so it is not relevant, and the model denies the same kind.
    reply, model = replay("Eiffel Tower", *FIRST, *SECOND, CLOSING, profile=profile)
    assert (reply.outcome, reply.text) == ("answered", "Gualtieri")
    assert [(step.kind, step.text, step.retrieved, step.answer) for step in reply.steps] == [
        ("subquestion", "The Eiffel Tower is located in", (MOVE_TOWER.id,), "Rome"),
        ("subquestion", "The mayor of Rome is", (MOVE_TOWER.id,), "Gualtieri"),
        ("final", "So the answer is somebody", (), ""),
    ]
    start = f"Question: {TOWER.texts[0]}\nThoughts:"
    ask_new = "Named for the first time:"
    ask_query = "Without what is named for the first time:"
    assert tails(model) == [
        f"Question: {TOWER.texts[0]}\nStarts from:",
        start,
        f"Before: {TOWER.texts[0]}\nNow: The Eiffel Tower is located in Paris\n{ask_query}",
        f"Before: {TOWER.texts[0]}\nNow: {FACT}\n{ask_new}",
        f"{start} {FACT}.#",
        f"Before: {FACT}\nNow: {MAYOR}\n{ask_query}",
        f"A: {FACT}\nB: {MAYOR}\nDo A and B tell the same kind of thing?",
        f"Before: {FACT}\nNow: {MAYOR}\n{ask_new}",
        f"{start} {FACT}.# {MAYOR}.#",
    ]
    assert reply.raw == f" {FACT}.# {MAYOR}.# So the answer is somebody" + ("." if profile == "default" else "")


def test_digest_of_all_prompts() -> None:
    """If this fails, answers are no longer comparable with older runs."""
    _reply, model = replay("Eiffel Tower", *FIRST, *SECOND, CLOSING)
    sent = hashlib.sha256("\0".join(model.prompts).encode()).hexdigest()
    assert sent == "3278653163329c5784dba219acd94db4b6eaf94d23adfdf786d275564780bd8d"


@BOTH
def test_generation_settings_of_every_call(profile) -> None:
    _reply, model = replay("Eiffel Tower", *FIRST, *SECOND, CLOSING, profile=profile)
    thoughts = [request for request in model.requests if "\nThoughts:" in request.prompt.rpartition("\n\n")[2]]
    assert {request.max_tokens for request in thoughts} == {64}
    assert {request.stop for request in thoughts} == {(".#", "\n" if profile == "default" else ".\n")}
    assert {request.temperature for request in model.requests} == {0.0}
    assert not any(prompt.endswith(" ") for prompt in model.prompts)


def test_contradicting_fact_replaces_the_thought() -> None:
    """The fact does not name the last entity, but has the same type, shares an entity, and differs in one."""
    script = ("France", FIRST[0], FIRST[1], " no", " yes", " Yes.", " YES!", " Rome", CLOSING)
    reply, model = replay(*script)
    assert reply.text == "Rome"
    assert [tail.rpartition("\n")[2] for tail in tails(model)[3:7]] == [
        "Is France named in it, by this name or another?",
        "Do A and B tell the same kind of thing?",
        "Do A and B name a person, place or thing that is the same in both?",
        "Does A name a person, place or thing that is missing in B?",
    ]


@pytest.mark.parametrize("no_at", range(3))
def test_judgments_end_at_the_first_no(no_at) -> None:
    said = [" yes"] * no_at + [" no"]
    reply, _model = replay("France", FIRST[0], FIRST[1], " no", *said, " Paris", CLOSING)
    assert reply.text == "Paris"


def test_search_backtracks_from_the_nearer_fact_to_the_other() -> None:
    other = Edit(id="other", statement="Eiffel Tower was painted in green")
    # Both facts name the entity. The nearer one is followed first, and its chain ends without a thought.
    script = ("Eiffel Tower", FIRST[0], FIRST[1], " green", " Rome", "", CLOSING)
    reply, model = replay(*script, edits=(MOVE_TOWER, other))
    assert tails(model)[5].endswith(f"Thoughts: {FACT}.#")
    assert tails(model)[6].endswith("Thoughts: Eiffel Tower was painted in green.#")
    assert (reply.outcome, reply.text) == ("answered", "green")
    assert [step.kind for step in reply.steps] == ["subquestion", "no-thought", "final"]


def test_answer_is_the_last_entity() -> None:
    reply, _model = replay("Eiffel Tower", *FIRST, " So the answer is Paris.\n")
    assert reply.text == "Rome"


# --- judgments ---------------------------------------------------------------------------------------------


UNREADABLE = ["", " maybe", " yes and no", " yesterday", " not", "\n"]


@pytest.mark.parametrize("said", UNREADABLE)
def test_unparsable_judgment_counts_as_no_and_is_recorded(said) -> None:
    reply, model = replay("France", FIRST[0], FIRST[1], said, said, " Paris", CLOSING)
    assert [step.kind for step in reply.steps] == ["subquestion", "unreadable", "unreadable", "final"]
    assert reply.text == "Paris"
    assert {request.temperature for request in model.requests} == {0.0}


def test_paper_profile_repeats_an_unparsable_judgment_sampled() -> None:
    script = ("France", FIRST[0], FIRST[1], " maybe", " perhaps", " yes", " Rome", CLOSING)
    reply, model = replay(*script, profile="paper")
    assert [request.temperature for request in model.requests[3:6]] == [0.0, 1.0, 1.0]
    assert model.requests[4].seed != model.requests[5].seed
    assert (reply.text, [step.kind for step in reply.steps]) == ("Rome", ["subquestion", "final"])


def test_paper_profile_counts_a_third_unparsable_judgment_as_no() -> None:
    script = ("France", FIRST[0], FIRST[1], *[" maybe"] * 6, " Paris", CLOSING)
    reply, _model = replay(*script, profile="paper")
    assert [step.kind for step in reply.steps] == ["subquestion", "unreadable", "unreadable", "final"]


@pytest.mark.parametrize("said", ["", "\n", " ."])
def test_empty_entity_is_in_no_fact(said) -> None:
    """An empty string would occur in every fact."""
    reply, model = replay(said, FIRST[0], FIRST[1], " no", " Paris", CLOSING)
    assert reply.text == "Paris"
    assert "tell the same kind" in tails(model)[3]


# --- ways to end --------------------------------------------------------------------------------------------


def test_empty_memory_keeps_the_models_thoughts() -> None:
    reply, _model = replay("Eiffel Tower", FIRST[0], FIRST[1], " Paris", CLOSING, edits=())
    assert (reply.outcome, reply.text) == ("answered", "Paris")
    assert reply.steps[0].retrieved == reply.steps[0].scores == ()


@pytest.mark.parametrize("said", ["", "\n", " .\n", ".# So"])
def test_missing_thought_is_unparsed(said) -> None:
    reply, _model = replay("Eiffel Tower", said)
    assert (reply.outcome, reply.text) == ("unparsed", "")
    assert [step.kind for step in reply.steps] == ["no-thought"]


def test_truncated_thought_is_length() -> None:
    reply, _model = replay("Eiffel Tower", " a b c d e f g", max_tokens=4)
    assert (reply.outcome, reply.text) == ("length", "")


def test_answer_without_an_entity_is_unparsed() -> None:
    reply, _model = replay("", CLOSING)
    assert (reply.outcome, reply.text) == ("unparsed", "")


def endless(prompt: str) -> str:
    """Return another thought, or "no" for a judgment."""
    asked = prompt.rpartition("\n")[2]
    return " no" if asked.endswith("?") else " Something is something.#"


def test_search_stops_at_nine_thoughts() -> None:
    reply, model = answer_from_script(DeepEdit(config=DeepEditConfig()), endless, TOWER, [MOVE_TOWER])
    assert (reply.outcome, reply.text) == ("hop-cap", "")
    assert reply.steps[-1] == Step(kind="too-deep", text="9 thoughts")
    assert len([step for step in reply.steps if step.kind == "subquestion"]) == 9
    assert len(model.prompts) == 1 + 9 * (1 + 1 + 1 + 1 + 1)  # thought, look-up, exists, same, entity


@pytest.mark.parametrize("cap", [1, 2, 7, 30])
def test_max_calls_ends_the_search(cap) -> None:
    model = ScriptedModel(lambda prompt: " yes" if prompt.endswith("?") else endless(prompt))
    with DeepEdit(config=DeepEditConfig(max_calls=cap)).edit(make_session(model), [MOVE_TOWER, MOVE_GATE]) as edited:
        (reply,) = edited.answer([TOWER])
    assert len(model.prompts) == reply.cost.calls == cap
    assert (reply.outcome, reply.text, reply.steps[-1].kind) == ("hop-cap", "", "call-cap")


def test_default_max_calls_limits_an_exponential_search() -> None:
    """All 2^9 chains end at nine thoughts without an answer."""
    facts = [Edit(id=str(n), statement=f"Something is number {n}") for n in range(2)]
    model = ScriptedModel(lambda prompt: endless(prompt) if not prompt.endswith("first time:") else " Something")
    with DeepEdit(config=DeepEditConfig()).edit(make_session(model), facts) as edited:
        (reply,) = edited.answer([TOWER])
    assert len(model.prompts) <= 100
    assert reply.outcome == "hop-cap"


# --- which edits are looked through -------------------------------------------------------------------------

LOOK_UP = ("Eiffel Tower", FIRST[0], FIRST[1])


def looked_up(ask, *script, **options) -> tuple[str, ...]:
    reply, _model = replay(*script, ask=ask, edits=(MOVE_TOWER, MOVE_GATE), **options)
    return reply.steps[0].retrieved


def test_all_active_edits_are_searched() -> None:
    script = (*LOOK_UP, " no", " no", " Rome", CLOSING)
    assert looked_up(TOWER, *script) == (MOVE_TOWER.id, MOVE_GATE.id)
    assert looked_up(TOWER, *script, profile="paper", facts="all") == (MOVE_TOWER.id, MOVE_GATE.id)


@pytest.mark.parametrize("options", [{"profile": "paper"}, {"facts": "own"}])
def test_own_edits_only_are_searched_and_recorded(options) -> None:
    assert looked_up(TOWER, *LOOK_UP, " Rome", CLOSING, **options) == (MOVE_TOWER.id,)
    assert looked_up(evolve(TOWER, own=()), *LOOK_UP, " Paris", CLOSING, **options) == ()
    with DeepEdit(config=DeepEditConfig(**options)).edit(make_session(ScriptedModel([])), []) as edited:
        assert edited.details["shown"] == "own"


def test_every_wording_is_asked() -> None:
    """The published run asks only the first wording of each question."""
    asks = [question(text, name=text) for text in ("Where is it?", "In which city is it?", "What city has it?")]
    model = ScriptedModel(lambda _prompt: CLOSING)
    with DeepEdit(config=DeepEditConfig()).edit(make_session(model), [MOVE_TOWER]) as edited:
        assert len(edited.answer(asks)) == 3
    assert {ask.texts[0] for ask in asks} == {tail.splitlines()[0].removeprefix("Question: ") for tail in tails(model)}


def test_hidden_facts_are_not_searched() -> None:
    hidden = evolve(TOWER, hidden=frozenset({MOVE_TOWER.id}))
    assert looked_up(hidden, *LOOK_UP, " no", " no", " Paris", CLOSING) == (MOVE_GATE.id,)
    assert looked_up(hidden, *LOOK_UP, " Paris", CLOSING, facts="own") == ()


def test_period_in_a_name_does_not_end_a_thought() -> None:
    birth = (" W. G. Sebald was born in Wertach.#", " W. G. Sebald was born in", " Wertach")
    reply, _model = replay("W. G. Sebald", *birth, " The answer is Wertach.\n", edits=())
    assert reply.text == "Wertach"
