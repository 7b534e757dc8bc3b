"""Requests as an editor sees them, and the order of its replies."""

from __future__ import annotations

import hashlib
import hmac

import pytest
from attrs import evolve

from ke_core.engine.passthrough import PassthroughModel
from ke_core.results.folder import RunFolder
from ke_core.runner.blinding import Blinder
from ke_core.runner.evaluate import evaluate
from ke_core.runner.requests import RequestBuilder
from ke_core.spec.errors import PluginBroken
from ke_core.spec.protocols import Material
from ke_core.spec.queries import Probe, Query
from ke_core.spec.requests import Likelihood
from ke_core.spec.results import Answer, Failure, Scored
from ke_core.spec.runspec import Plan
from ke_testing.process import under_hash_seeds

WORDS = (" Rome", " Paris", " Oslo", " Lima")


def blinder(fakes, **changes):
    return Blinder(fakes.make_job(4, **changes))


def asks_of(fakes, job):
    asker = RequestBuilder(dataset=job.dataset, styles=job.spec.styles, edited_form="question", own_prompt=True)
    bank = {edit.id: edit for case in job.cases for edit in case.edits}
    return [ask for case in job.cases for unit in asker.after(case, bank, edited=True) for ask in unit.questions]


def likelihood(number=1):
    return Likelihood(
        id=f"{number}/after/direct/q", case=str(number), query="q", prompt="The tower is in", continuations=WORDS
    )


def test_request_ids_are_unique_and_opaque(fakes):
    job = fakes.make_job(4)
    made = Blinder(job)
    real = asks_of(fakes, job)
    seen = [made.blind(ask).seen for ask in real]
    names = [name for ask in seen for name in (ask.id, ask.case, ask.query)]
    assert len(set(names)) == len(names)
    for name in names:
        assert len(name) == 32
        assert int(name, 16) >= 0
    guesses = {f"{seed}{label}{ask.id}" for ask in real for seed in ("", "0/") for label in ("", "id/", "query/")}
    guesses |= {ask.query for ask in real}
    for guess in guesses:
        for key in (b"", b"0", b"ke requests"):
            assert hmac.digest(key, guess.encode(), "sha256").hex()[:32] not in names
        assert hashlib.sha256(guess.encode()).hexdigest()[:32] not in names


def test_ids_depend_on_seed_and_gold_answers_but_not_on_other_cases(fakes):
    case = fakes.tower(1)
    (ask, *_rest) = asks_of(fakes, fakes.make_job(1))
    (probe, *others) = case.probes
    other_gold = evolve(
        case, probes=(evolve(probe, queries=(evolve(probe.queries[0], gold=fakes.gold("Oslo")),)), *others)
    )
    first = blinder(fakes).blind(ask).seen.id
    assert blinder(fakes, cases=(case,)).blind(ask).seen.id == first
    assert blinder(fakes, cases=(other_gold,)).blind(ask).seen.id != first
    assert blinder(fakes, seed=1).blind(ask).seen.id != first


def test_ids_do_not_depend_on_the_python_hash_seed(fakes):
    code = (
        f"import sys; sys.path.insert(0, {str(fakes.__file__.rpartition('/')[0])!r})\n"
        "import fakes\n"
        "from ke_core.runner.requests import RequestBuilder\n"
        "from ke_core.runner.blinding import Blinder\n"
        "job = fakes.make_job(1)\n"
        "asker = RequestBuilder(dataset=job.dataset, styles=job.spec.styles, edited_form='question')\n"
        "made = Blinder(job)\n"
        "print([made.blind(ask).seen.id for u in asker.after(job.cases[0], {}, edited=False) for ask in u.questions])"
    )
    assert len(set(under_hash_seeds(code))) == 1


def test_log_probabilities_of_shuffled_continuations_return_in_order(fakes):
    made = blinder(fakes)
    orders = set()
    for number in range(1, 40):
        blinded = made.blind(likelihood(number))
        assert sorted(blinded.seen.continuations) == sorted(WORDS)
        orders.add(blinded.seen.continuations)
        said = Scored(
            logprobs=tuple(-float(WORDS.index(text)) for text in blinded.seen.continuations),
            tokens=tuple(WORDS.index(text) + 1 for text in blinded.seen.continuations),
        )
        assert blinded.restore(said) == Scored(logprobs=(0.0, -1.0, -2.0, -3.0), tokens=(1, 2, 3, 4))
    assert len({order[0] for order in orders}) == len(WORDS)
    assert len(orders) > len(WORDS)


def test_too_few_log_probabilities_are_a_failure(fakes):
    blinded = blinder(fakes).blind(likelihood())
    reply = blinded.restore(Scored(logprobs=(-1.0,), tokens=(1,)))
    assert isinstance(reply, Failure)
    assert reply.message == "1 log-probabilities for 4 continuations"


@pytest.mark.parametrize("declared", [False, True])
def test_own_edits_are_given_only_to_editors_that_declare_it(fakes, declared):
    job = fakes.make_job(2, editor_spec=evolve(fakes.NOTES, uses_own_edits=declared))
    made = Blinder(job)
    assert {bool(made.blind(ask).seen.own) for ask in asks_of(fakes, job)} == {declared}


def test_replies_return_in_the_order_of_the_requests(fakes):
    job = fakes.make_job(4)
    asks, calls = asks_of(fakes, job), []

    class Edited:
        def answer(self, some):
            calls.append([ask.texts[0] for ask in some])
            return [Answer(text=ask.texts[0]) for ask in some]

    replies = Blinder(job).answer(Edited(), asks)
    assert [reply.text for reply in replies] == [ask.texts[0] for ask in asks]
    assert sorted(calls[0]) == sorted(ask.texts[0] for ask in asks)
    assert calls[0] != [ask.texts[0] for ask in asks]


def test_no_question_follows_one_that_reveals_its_answer(fakes):
    hops = tuple(Query(id=f"hop-{n}", texts=(f"Hop {n}?",), gold=fakes.gold("Rome")) for n in (1, 2, 3))
    whole = Query(id="whole", texts=("Whole?",), gold=fakes.gold("Rome"), hops=hops)
    unlike = Query(id="unlike", texts=("Unlike?",), gold=fakes.gold("Rome"))
    derived = Query(id="derived", texts=("Derived?",), gold=fakes.gold("Rome"))
    renamed = evolve(hops[2], id="renamed")
    case = evolve(
        fakes.tower(1),
        probes=tuple(
            Probe(id=query.id, aspect="any", queries=(query,), metric="belief" if query is derived else "")
            for query in (derived, *hops[:2], renamed, whole, unlike)
        ),
    )
    job = fakes.make_job(1, cases=(case, evolve(case, id="2")))
    calls = []

    class Edited:
        def answer(self, some):
            calls.append(sorted(ask.texts[0] for ask in some))
            return [Answer(text="") for _ask in some]

    Blinder(job).answer(Edited(), asks_of(fakes, job))
    assert calls == [
        ["Whole?", "Whole?"],
        ["Hop 1?", "Hop 1?", "Unlike?", "Unlike?"],
        ["Hop 2?", "Hop 2?"],
        ["Hop 3?", "Hop 3?"],
        ["Derived?", "Derived?"],
    ]


def test_a_passthrough_model_gets_all_requests_at_once(fakes):
    job = fakes.make_job(1)
    given = []

    class Spying(PassthroughModel):
        def solve(self, ask):
            given.append(ask.query)
            return super().solve(ask)

    plain = PassthroughModel(job.session)
    plain.solve = given.append  # a real one with replaced methods, which are not called
    asks = asks_of(fakes, job)
    assert [reply.text for reply in Blinder(job).answer(plain, asks)] == ["Paris", "France"]
    assert given == []
    Blinder(job).answer(Spying(job.session), asks)
    assert len(given) == 2
    assert not {ask.query for ask in asks} & {*given}


def test_gold_material_is_found_by_opaque_ids(fakes):
    job = fakes.make_job(2)
    gold = Material(value={"1/where": "Rome", "1": "one", "AC/DC": "a band"}, oracle=True)
    plain = Material(value={"1/where": "told to everybody"})
    job = evolve(job, session=evolve(job.session, material={"gold": gold, "plain": plain}))
    made = Blinder(job)
    (ask, *_rest) = asks_of(fakes, job)
    seen = made.blind(ask).seen
    value = made.session.material["gold"].value
    assert (value[f"{seen.case}/{seen.query}"], value[seen.case], value["AC/DC"]) == ("Rome", "one", "a band")
    assert f"{seen.case}/{seen.id}" not in value
    assert made.session.material["plain"] is plain


def test_too_many_replies_raise_an_error_that_names_the_editor(fakes):
    class Edited:
        def answer(self, some):
            return [Answer(text="")] * (len(some) + 1)

    with pytest.raises(PluginBroken, match="overwrite returned 5 replies to 4 questions"):
        blinder(fakes).answer(Edited(), asks_of(fakes, fakes.make_job(2)))


def test_records_have_real_ids_and_editors_see_opaque_ones(fakes, tmp_path):
    seen = []
    job = fakes.make_job(2, fakes.Notes(seen), editor_spec=fakes.NOTES, plan=Plan(size=None))
    folder = RunFolder.create(tmp_path / "run", job.spec)
    evaluate(job, folder)
    lines = [line for line in folder.read() if type(line).__name__ == "Replied" and line.phase == "after"]
    assert {line.case: {*line.replies} for line in lines} == {"1": {"where", "country"}, "2": {"where", "country"}}
    assert not {"1", "2", "where", "country"} & {name for ask in seen[0] for name in (ask.id, ask.case, ask.query)}


def test_a_request_with_several_prompts_is_split_for_the_editor(fakes):
    prompts = ("The trophy is", "The suitcase is", "It is")
    whole = Likelihood(
        id="1/after/direct/q", case="1", query="q", texts=prompts, prompts=prompts, continuations=(" big",) * 3
    )
    seen = []

    def answer(blinded):
        seen.extend(one.seen for one in blinded)
        return [Scored(logprobs=(-float(len(one.seen.prompt)),), tokens=(1,), matches=(1,)) for one in blinded]

    (reply,) = blinder(fakes).put([whole], answer)
    assert sorted(one.prompt for one in seen) == sorted(prompts)
    assert all(one.prompts == () and one.texts == (one.prompt,) and one.continuations == (" big",) for one in seen)
    assert len({one.id for one in seen}) == 3
    assert reply == Scored(logprobs=(-13.0, -15.0, -5.0), tokens=(1, 1, 1), matches=(1, 1, 1))


def test_a_failed_part_fails_the_whole_request(fakes):
    whole = Likelihood(id="q", case="1", query="q", prompts=("a", "b"), continuations=(" x", " y"))
    failed = Failure(error="E", message="m")

    def answer(blinded):
        scored = Scored(logprobs=(-1.0,), tokens=(1,))
        return [failed if one.seen.prompt == "b" else scored for one in blinded]

    assert blinder(fakes).put([whole], answer) == [failed]


def test_is_greedy_returns_in_the_order_of_the_real_continuations(fakes):
    blinded = blinder(fakes).blind(likelihood())
    said = Scored(
        logprobs=tuple(-float(WORDS.index(text)) for text in blinded.seen.continuations),
        tokens=(1,) * 4,
        matches=tuple(int(text == WORDS[0]) for text in blinded.seen.continuations),
    )
    assert blinded.restore(said).is_greedy == (True, False, False, False)
