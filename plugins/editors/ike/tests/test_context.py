"""The prompt: selection and order of demonstrations, and facts."""

from __future__ import annotations

import hashlib
from collections import Counter

import pytest
from attrs import evolve

from ke_core.plugin import Answer, BadConfig, ContextOverflow, Edit, Failure, Likelihood, with_room
from ke_plugin_ike import IkeConfig, ke_editors
from ke_plugin_ike.corpus import DemonstrationCorpus
from ke_plugin_ike.editor import Ike
from ke_plugin_ike.records import read_records
from ke_plugin_ike.subject_filter import SubjectFilter
from ke_testing.examples import MOVE_GATE, MOVE_TOWER, question
from ke_testing.fakes import EchoModel, ScriptedModel, answer_from_script, make_session

ASK = question("In which city is the Eiffel Tower?", own=(MOVE_TOWER.id,))
FACT = MOVE_TOWER.statement
END = " Rome\nUpdate:"


def replay(said=END, *, edits=(MOVE_TOWER,), ask=ASK, seed=0, **options):
    """Return the reply, and the prompt of the only call."""
    reply, model = answer_from_script(Ike(config=IkeConfig(**options)), [said], ask, edits, seed=seed)
    return reply, model.prompts[0]


def blocks(**kwargs) -> list[str]:
    return replay(**kwargs)[1].split("\n\n")


def kind(block: str) -> str:
    """Return the kind of a demonstration: copy, update or retain."""
    fact, text = (line.partition(": ")[2] for line in block.split("\n"))
    if text == fact:
        return "copy"
    record = next(each for each in read_records("own") if each.fact == fact)
    return "update" if text in [f"{words} {record.object}" for words in record.paraphrases] else "retain"


# --- the paper's context ------------------------------------------------------------------------------------


def test_kinds_have_the_ratio_1_3_4() -> None:
    shown = blocks()
    assert Counter(map(kind, shown[:32])) == {"copy": 4, "update": 12, "retain": 16}
    assert [kind(block) for block in shown[:32]] != sorted(kind(block) for block in shown[:32])


def test_copy_of_the_edit_and_question_follow_the_demonstrations() -> None:
    shown = blocks()
    assert len(shown) == 32 + 2
    assert shown[32:] == [f"Update: {FACT}\nText: {FACT}", f"Update: {FACT}\nText: {ASK.texts[0]}"]


def test_every_demonstration_is_of_another_record() -> None:
    facts = [block.split("\n")[0] for block in blocks()[:32]]
    assert len(set(facts)) == 32
    by_fact = {f"Update: {record.fact}": record for record in read_records("own")}
    for block in blocks()[:32]:
        record = by_fact[block.split("\n")[0]]
        text = block.split("\nText: ")[1]
        changed = [f"{words} {record.object}" for words in (record.prompt, *record.paraphrases)]
        kept = [f"{prompt} {object_}" for prompt, object_ in record.neighbors]
        assert text in (*changed, *kept)


def test_nearest_record_is_last() -> None:
    near = Edit(id="near", statement="Nairobi is the capital of Peru")
    session = make_session(EchoModel())
    encoder = session.encoder("")
    shown = [block.split("\n")[0].removeprefix("Update: ") for block in blocks(edits=(near,))[:32]]
    corpus = DemonstrationCorpus(records=read_records("own"), encoder=encoder, artifacts=session.artifacts)
    bars, scores = SubjectFilter(corpus), dict[str, float]()
    bars.change(add=[near])
    for name, text in corpus.memory.facts:
        if name in bars.ids:
            continue
        score = float(encoder.embed([near.statement])[0] @ encoder.embed([text])[0])
        fact = corpus.demonstrations[name].fact
        scores[fact] = max(scores.get(fact, -1.0), round(score, 5))
    assert [scores[fact] for fact in shown] == sorted(scores[fact] for fact in shown)
    assert scores[shown[-1]] == max(scores.values())


def test_digest_of_the_prompt() -> None:
    """If this fails, answers are no longer comparable with older runs."""
    assert (
        hashlib.sha256(replay()[1].encode()).hexdigest()
        == "600e2dd910ff4911231a9064a006625fe4a7eb1141184cc5805e019b72dab9b1"
    )


def test_all_questions_about_an_edit_share_a_prefix() -> None:
    one, two = replay()[1], replay(ask=question("Where is it?"))[1]
    assert one.removesuffix(ASK.texts[0]) == two.removesuffix("Where is it?")


def test_order_depends_on_the_seed() -> None:
    assert replay(seed=1)[1] == replay(seed=1)[1] != replay(seed=2)[1]


@pytest.mark.parametrize("k", [0, 1, 8, 16, 500])
def test_number_of_demonstrations(k) -> None:
    shown = blocks(k=k)
    assert len(shown) == min(k, len(read_records("own"))) + 2
    if k % 8 == 0 and 0 < k < 100:
        assert Counter(map(kind, shown[:k])) == {"copy": k // 8, "update": 3 * k // 8, "retain": k // 2}


# --- EasyEdit's variant -------------------------------------------------------------------------------------


def test_easyedit_shows_the_nearest_of_any_kind_nearest_first() -> None:
    near = Edit(id="near", statement="Nairobi is the capital of Peru")
    session = make_session(EchoModel())
    encoder = session.encoder("")
    shown = blocks(edits=(near,), profile="easyedit")
    assert len(shown) == 16 + 1
    assert shown[16] == f"Update: {near.statement}\nText: {ASK.texts[0]}"
    corpus = DemonstrationCorpus(records=read_records("own"), encoder=encoder, artifacts=session.artifacts)
    bars = SubjectFilter(corpus)
    bars.change(add=[near])
    hits = corpus.memory.search([near.statement], k=16, hidden=[bars.ids])[0]
    expected = [corpus.demonstrations[hit.id] for hit in hits]
    assert shown[:16] == [f"Update: {each.fact}\nText: {each.prompt} {each.answer}" for each in expected]


def test_easyedit_without_demonstrations_is_fact_and_question() -> None:
    assert blocks(profile="easyedit", k=0) == [f"Update: {FACT}\nText: {ASK.texts[0]}"]


def test_number_of_demonstrations_by_profile() -> None:
    (spec,) = ke_editors()
    assert spec.config().profile == "paper"
    for profile, k in {"paper": 32, "easyedit": 16}.items():
        with Ike(config=IkeConfig(profile=profile)).edit(make_session(EchoModel()), []) as after:
            assert after.details["demonstrations"] == k


# --- which facts are shown ----------------------------------------------------------------------------------

BOTH = (MOVE_TOWER, MOVE_GATE)


def facts_of(**kwargs) -> list[str]:
    return [line.removeprefix("Update: ") for line in blocks(k=0, **kwargs)[-1].split("\n")[:-1]]


def test_nearest_edits_are_shown_first_and_recorded() -> None:
    assert facts_of(edits=BOTH[::-1]) == [MOVE_TOWER.statement, MOVE_GATE.statement]
    assert facts_of(edits=BOTH, top=1) == [MOVE_TOWER.statement]
    reply, _prompt = replay(edits=BOTH, top=1)
    assert [(step.kind, step.retrieved) for step in reply.steps] == [("retrieved", (MOVE_TOWER.id,))]


def test_every_shown_fact_is_copied_once() -> None:
    copies = [f"Update: {edit.statement}\nText: {edit.statement}" for edit in BOTH]
    assert blocks(edits=BOTH, k=0)[:-1] == copies


def test_own_facts_are_in_the_order_of_the_case() -> None:
    ask = evolve(ASK, own=(MOVE_GATE.id, MOVE_TOWER.id))
    assert facts_of(edits=BOTH, facts="own") == [MOVE_TOWER.statement]
    assert facts_of(edits=BOTH, facts="own", ask=ask) == [MOVE_GATE.statement, MOVE_TOWER.statement]


def test_own_edits_are_used_only_with_facts_own() -> None:
    strange = question("Who are you?", own=(MOVE_GATE.id,))
    assert facts_of(edits=BOTH, ask=strange, top=1) == facts_of(edits=BOTH, ask=evolve(strange, own=()), top=1)
    (spec,) = ke_editors()
    assert spec.config().facts == "retrieved"
    assert spec.oracle(spec.config()) == ()


def test_hidden_edits_exclude_no_demonstration() -> None:
    subjects = sorted({record.subject for record in read_records("own")})
    others = tuple(Edit(id=name, statement=f"{name} is famous") for name in subjects)
    hidden = frozenset(edit.id for edit in others)
    alone = blocks(edits=(MOVE_TOWER,))
    assert blocks(edits=(MOVE_TOWER, *others), ask=evolve(ASK, hidden=hidden)) == alone
    for one in others:
        shown = blocks(edits=(MOVE_TOWER, one))
        assert blocks(edits=(MOVE_TOWER, *others), ask=evolve(ASK, hidden=hidden - {one.id})) == shown
        if shown != alone:
            break
    else:
        raise AssertionError("no active edit excludes a demonstration")


@pytest.mark.parametrize(
    ("edits", "changes"), [((), {}), ((MOVE_TOWER,), {"hidden": frozenset({MOVE_TOWER.id})})], ids=["empty", "hidden"]
)
def test_prompt_without_a_fact_is_the_benchmarks(edits, changes) -> None:
    for facts in ("retrieved", "own"):
        reply, prompt = replay(edits=edits, ask=evolve(ASK, **changes), facts=facts)
        assert prompt == ASK.prompt.text
        assert (reply.outcome, reply.text) == ("answered", "Rome")


def test_facts_are_added_and_removed() -> None:
    model = ScriptedModel(lambda _prompt: END)
    with Ike(config=IkeConfig(k=0)).edit(make_session(model), [MOVE_GATE]) as after:
        after.answer([ASK])
        after.change(add=[MOVE_TOWER])
        after.answer([ASK])
        after.change(remove=[MOVE_GATE.id])
        after.answer([ASK])
    assert [[edit.id for edit in BOTH if edit.statement in prompt] for prompt in model.prompts] == [
        [MOVE_GATE.id],
        [MOVE_TOWER.id, MOVE_GATE.id],
        [MOVE_TOWER.id],
    ]


# --- answers ------------------------------------------------------------------------------------------------


def test_answer_is_one_line_with_the_benchmarks_limit() -> None:
    reply, model = answer_from_script(Ike(config=IkeConfig()), [" Rome \nUpdate: nonsense"], ASK, [MOVE_TOWER])
    assert (reply.outcome, reply.text) == ("answered", "Rome")
    (request,) = model.requests
    assert (request.stop, request.max_tokens, request.temperature) == (("\n",), 8, 0.0)


@pytest.mark.parametrize("said", ["", "\n", "  \nUpdate: x"])
def test_empty_answer_is_unparsed(said) -> None:
    reply, _prompt = replay(said)
    assert (reply.outcome, reply.text) == ("unparsed", "")


def test_answer_cut_by_the_limit_is_used() -> None:
    """Answers of the unedited model are parsed the same way."""
    reply, _prompt = replay(" a b c d e f g h i j k")
    assert (reply.outcome, reply.text) == ("answered", "a b c d e f g")


def test_multi_line_answer_ends_at_the_next_demonstration() -> None:
    ask = evolve(ASK, prompt=with_room(ASK.prompt, ["one\ntwo"], until="\nQ:"))
    reply, _prompt = replay(" one\ntwo\n\nUpdate: more", ask=ask)
    assert (reply.outcome, reply.text) == ("answered", "one\ntwo")


def test_too_long_prompt_is_a_failure_and_not_truncated() -> None:
    pytest.importorskip("torch")
    from ke_plugin_hf.testing import tiny_model

    model = tiny_model("llama")
    with Ike(config=IkeConfig()).edit(make_session(model), [MOVE_TOWER]) as after:
        (reply,) = after.answer([ASK])
        scored = Likelihood(id="l", case="c", texts=("It is",), prompt="It is", continuations=(" a", " b"))
        (also,) = after.answer([scored])
    assert isinstance(reply, Failure)
    assert reply.error == also.error == ContextOverflow.__name__
    with Ike(config=IkeConfig(k=4)).edit(make_session(model), [MOVE_TOWER]) as after:
        assert isinstance(after.answer([ASK])[0], Answer)


def certain(prompt: str, text: str) -> float:
    """Return the log-probability of a perfect model: the object of the last fact is certain, with its space."""
    fact = prompt.rpartition("\nText: ")[0].rpartition("Update: ")[2]
    return 0.0 if not prompt.endswith(" ") and fact.endswith(text) else -50.0


def test_perfect_model_prefers_every_new_object() -> None:
    """Published code compares tokens of "Paris" with predictions of " Paris", so a perfect model fails."""
    for edit, words in ((MOVE_TOWER, (" Rome", " Paris")), (MOVE_GATE, (" Madrid", " Berlin"))):
        asks = [
            Likelihood(id=text, case="c", texts=(text,), prompt=f"Q: {text}\nA:", continuations=words)
            for text in (edit.cloze.prompt, edit.question)
        ]
        model = ScriptedModel(likes=certain)
        with Ike(config=IkeConfig()).edit(make_session(model), [edit]) as after:
            replies = after.answer(asks)
        assert [reply.logprobs for reply in replies] == [(0.0, -50.0)] * 2
        for request, ask in zip(model.scored, asks, strict=True):
            assert request.prompt.endswith(f"Update: {edit.statement}\nText: {ask.texts[0]}")
            assert request.continuations == words


def test_text_without_a_question_is_scored_after_its_prompt() -> None:
    model = ScriptedModel(likes=certain)
    ask = Likelihood(id="l", case="", prompt="The sea was", continuations=(" calm that day",))
    with Ike(config=IkeConfig(k=0)).edit(make_session(model), [MOVE_TOWER]) as after:
        after.answer([ask])
    assert model.scored[0].prompt.endswith("Text: The sea was")


# --- how a demonstration reads ------------------------------------------------------------------------------


def test_format_is_read_from_a_folder(tmp_path) -> None:
    (tmp_path / "demonstration.txt").write_text("It is now so that {fact}.\n- {prompt} {answer}\n", encoding="utf-8")
    shown = blocks(prompts=str(tmp_path), k=1)
    assert shown[-2:] == [f"It is now so that {FACT}.\n- {FACT}", f"It is now so that {FACT}.\n- {ASK.texts[0]}"]


@pytest.mark.parametrize(
    "text", ["", "{fact}", "a\n{prompt} {answer}", "{fact}\n{answer} {prompt}", "{fact}\n\n{prompt} {answer}"]
)
def test_unusable_format_is_refused(tmp_path, text) -> None:
    (tmp_path / "demonstration.txt").write_text(text, encoding="utf-8")
    with pytest.raises(BadConfig, match=r"ike\.prompts"):
        blocks(prompts=str(tmp_path))
