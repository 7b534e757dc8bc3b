"""Procedures advance together, and their requests do not depend on one another."""

import pytest

from ke_core.engine.batching import BatchingEngine
from ke_core.engine.cache import CompletionCache
from ke_core.engine.running import call_seed
from ke_core.spec.errors import ContextOverflow, WeightsNotRestored
from ke_core.spec.requests import Embed, Generate, Generated, Likelihood, Nearest, Score
from ke_core.spec.results import Answer, Cost, Failure, Scored
from ke_memory.plugin import FactMemory
from ke_testing.fakes import EchoModel, ScriptedModel, WordEncoder


class Recording(EchoModel):
    """Answers with the prompt and the seed of sampled requests. ``sizes``: the sizes of the batches."""

    def __init__(self, digest="weights"):
        self.sizes: list[int] = []
        self.scored: list[int] = []
        self.seen: list[Generate] = []
        self.name = digest

    @property
    def digest(self):
        return self.name

    def generate(self, requests):
        self.sizes.append(len(requests))
        self.seen.extend(requests)
        return [
            Generated(
                text=f"{r.prompt}|{r.seed}" if r.temperature else r.prompt.upper(),
                finish="eos",
                tokens=2,
                prompt_tokens=3,
            )
            for r in requests
        ]

    def score(self, requests):
        self.scored.append(len(requests))
        return super().score(requests)


def hops(name: str, number: int, **how):
    text = name
    for _ in range(number):
        text = (yield Generate(prompt=f"{text}.", **how)).text
    return text


def test_hundreds_of_procedures_advance_together():
    model = Recording()
    engine = BatchingEngine(model)
    found = engine.run({f"p{i}": hops(f"q{i}", 1 + i % 4) for i in range(400)})
    assert found["p3"] == "Q3...."
    assert model.sizes == [400, 300, 200, 100]
    assert engine.requests == 1000


def test_large_batches_are_cut_so_that_a_kill_loses_few_completions():
    model = Recording()
    BatchingEngine(model).run({f"p{i}": hops(f"q{i}", 1) for i in range(1200)})
    assert max(model.sizes) <= 512
    assert sum(model.sizes) == 1200


def test_retrieval_is_served_before_model_requests():
    memory = FactMemory(WordEncoder(), [("e1", "the capital of France is Lyon")])

    def looks_up(name):
        (hit,) = yield Nearest(memory=memory, text="capital of France")
        return (yield Generate(prompt=f"{name} {hit.text}")).text

    model = Recording()
    BatchingEngine(model).run({"a": hops("q", 1), "b": looks_up("r"), "c": hops("s", 1)})
    assert model.sizes == [3]


def test_embeddings_and_searches_of_a_turn_are_one_call_each():
    class Counting(WordEncoder):
        calls = 0

        def embed(self, texts):
            Counting.calls += 1
            return super().embed(texts)

    encoder = Counting()
    memory = FactMemory(encoder, [(f"e{i}", f"fact {i}") for i in range(5)])

    def embeds(texts):
        return (yield Embed(encoder=encoder, texts=texts))

    def looks_up(number, hidden):
        return (yield Nearest(memory=memory, text=f"fact {number}", k=2, hidden=hidden))

    Counting.calls = 0
    found = BatchingEngine(EchoModel()).run(
        {f"e{i}": embeds(tuple(f"text {j}" for j in range(i))) for i in range(1, 4)}
        | {f"n{i}": looks_up(i, frozenset({"e2"})) for i in range(5)}
    )
    assert Counting.calls == 2
    assert [len(found[f"e{i}"]) for i in range(1, 4)] == [1, 2, 3]
    assert (found["e2"] == encoder.embed(["text 0", "text 1"])).all()
    assert [found[f"n{i}"][0].id for i in (0, 1, 3, 4)] == ["e0", "e1", "e3", "e4"]
    assert all(hit.id != "e2" for i in range(5) for hit in found[f"n{i}"])


def test_a_failed_request_is_raised_only_in_its_procedure():
    def careful():
        try:
            yield Generate(prompt="long")
        except ContextOverflow as error:
            return f"caught: {error}"

    def careless():
        yield Generate(prompt="long")

    def answer(prompt):
        return ContextOverflow("too\nlong") if prompt == "long" else "fine"

    found = BatchingEngine(ScriptedModel(answer)).run({"a": careful(), "b": careless(), "c": hops("short", 1)})
    assert found == {"a": "caught: too\nlong", "b": Failure(error="ContextOverflow", message="too long"), "c": "fine"}


def test_a_server_that_is_down_fails_each_of_its_requests():
    class Down(EchoModel):
        def score(self, requests):
            raise ConnectionError("no route")

    def scores():
        return (yield Score(prompt="p", continuations=(" c",)))

    found = BatchingEngine(Down()).run({"a": scores(), "b": scores(), "c": hops("q", 1)})
    assert found["a"] == found["b"]
    assert found["a"].error == "ConnectionError"
    assert found["a"].message.startswith("no route (engine/test_batching.py, line ")
    assert found["c"] == " q."


def test_a_procedure_that_raises_becomes_a_failure_in_one_line_that_names_the_line_of_code():
    def broken():
        yield Generate(prompt="x")
        raise ValueError("first\n  second")

    def broken_at_once():
        raise KeyError("k")
        yield

    def line(procedure, offset):
        return f"(engine/test_batching.py, line {procedure.__code__.co_firstlineno + offset})"

    found = BatchingEngine(EchoModel()).run({"a": broken(), "b": broken_at_once(), "c": hops("q", 2)})
    assert found["a"] == Failure(error="ValueError", message=f"first second {line(broken, 2)}")
    assert found["b"] == Failure(error="KeyError", message=f"'k' {line(broken_at_once, 1)}")
    assert isinstance(found["c"], str)


def test_a_yielded_value_that_is_not_a_request_raises_in_the_procedure():
    def confused():
        yield "Generate"

    (found,) = BatchingEngine(EchoModel()).run({"a": confused()}).values()
    assert found.error == "TypeError"
    assert "not a request" in found.message


@pytest.mark.parametrize("error", [KeyboardInterrupt(), WeightsNotRestored("weights differ")])
def test_interrupts_and_bugs_are_not_swallowed(error):
    closed = []

    def other():
        try:
            yield Generate(prompt="x")
        finally:
            closed.append(True)

    def broken():
        yield Generate(prompt="x")
        raise error

    with pytest.raises(type(error)):
        BatchingEngine(EchoModel()).run({"b": broken(), "o": other()})
    assert closed


def test_request_seeds_do_not_depend_on_the_batch():
    def run(names):
        return BatchingEngine(Recording(), seed=7).run({n: hops(n, 2, temperature=1.0) for n in names})

    many, alone = run(["a", "b", "c"]), run(["b"])
    assert many["b"] == alone["b"]
    assert alone["b"] == f"b.|{call_seed(7, 'b', 0)}.|{call_seed(7, 'b', 1)}"
    assert len({call_seed(run, p, call) for run in (0, 1) for p in ("a", "b") for call in (0, 1)}) == 8
    assert all(0 <= call_seed(0, str(i), 0) < 2**64 for i in range(100))


def test_explicit_seeds_are_kept_and_greedy_requests_have_none():
    model = Recording()
    BatchingEngine(model).run({"a": hops("a", 1, temperature=1.0, seed=5), "b": hops("b", 1)})
    assert [request.seed for request in model.seen] == [5, None]


def test_equal_requests_of_a_turn_are_sent_once():
    model = Recording()
    engine = BatchingEngine(model)
    found = engine.run({f"p{i}": hops("same", 1) for i in range(10)})
    assert set(found.values()) == {"SAME."}
    assert model.sizes == [1]
    engine.run({f"p{i}": hops("same", 1, temperature=1.0) for i in range(10)})
    assert model.sizes == [1, 10]


def test_the_cache_answers_repeated_requests():
    model, cache = Recording(), CompletionCache()
    for _ in range(2):
        engine = BatchingEngine(model, cache=cache)
        assert engine.run({"a": hops("q", 3)}) == {"a": "Q..."}
    assert len(model.seen) == 3
    assert engine.hits == 3


def test_scores_are_cached_too():
    def scores():
        return (yield Score(prompt="p", continuations=(" c", " dd")))

    model, cache = Recording(), CompletionCache()
    found = [BatchingEngine(model, cache=cache).run({"a": scores()})["a"] for _ in range(2)]
    assert found == [Scored(logprobs=(-2.0, -3.0), tokens=(1, 1))] * 2
    assert model.scored == [1]


def test_completions_are_not_shared_between_digests():
    model = Recording("before")
    engine = BatchingEngine(model, cache=CompletionCache())
    engine.run({"a": hops("q", 1)})
    model.name = "edited"
    engine.run({"a": hops("q", 1)})
    assert len(model.seen) == 2

    def edits_in_the_middle():
        yield Generate(prompt="q.")
        model.name = "edited again"
        yield Generate(prompt="q.")

    engine.run({"a": edits_in_the_middle()})
    assert len(model.seen) == 3  # cached for the edited model, not cached for the new one


def test_failed_requests_are_not_cached():
    answers = iter([ContextOverflow("now"), "later"])
    model = ScriptedModel(lambda _prompt: next(answers))
    engine = BatchingEngine(model, cache=CompletionCache())
    assert isinstance(engine.run({"a": hops("q", 1)})["a"], Failure)
    assert engine.run({"a": hops("q", 1)})["a"] == "later"


def test_answers_come_in_order_with_their_costs():
    def solve(ask):
        text = yield from hops(ask.id, 2)
        yield Score(prompt="p", continuations=(" c",))
        return Answer(text=text)

    asks = [Likelihood(id=f"a{i}", case="c", prompt="p", continuations=(" c",)) for i in range(3)]
    cache = CompletionCache()
    for _ in range(2):  # cached calls count too
        found = BatchingEngine(Recording(), cache=cache).answer(solve, asks)
        assert [reply.text for reply in found] == ["A0..", "A1..", "A2.."]
        assert {reply.cost for reply in found} == {Cost(calls=3, prompt_tokens=6, tokens=4)}


def test_duplicate_request_ids_are_refused():
    ask = Likelihood(id="a", case="c", prompt="p", continuations=(" c",))
    with pytest.raises(ValueError, match="two requests have the id 'a'"):
        BatchingEngine(EchoModel()).answer(lambda ask: hops(ask.id, 1), [ask, ask])


def test_progress_starts_at_zero_and_counts_answers_and_model_requests():
    class Seen:
        said: list

        def __init__(self):
            self.said = []

        def track(self, items, label, total=None):
            return items

        def advance(self, label, done, total=None):
            self.said.append((label, done, total))

    seen = Seen()
    BatchingEngine(EchoModel(), progress=seen).run({"a": hops("q", 1), "b": hops("r", 2)})
    assert seen.said[:2] == [("asking", 0, 2), ("model requests", 0, 2)]
    assert ("model requests", 2, 3) in seen.said
    asking = [(done, total) for label, done, total in seen.said if label == "asking"]
    assert asking == [(0, 2), (1, 2), (2, 2)]


def ask(name):
    return Likelihood(id=name, case="c", prompt="p", continuations=(" c",))


def joining(arrivals):
    """Return an exchange that lets requests arrive, one list at each call, and the ids that it got in each call."""
    seen, waiting = [], list(arrivals)

    def exchange(replies):
        seen.append(sorted(replies))
        return waiting.pop(0) if waiting else []

    return exchange, seen


def test_requests_that_arrive_join_those_under_way_and_replies_are_passed_on_at_once():
    model = Recording()
    exchange, seen = joining([[ask("long")], [ask("short")], [], []])
    BatchingEngine(model).keep_answering(lambda one: hops(one.id, 3 if one.id == "long" else 1), exchange)
    assert [name for names in seen for name in names] == ["short", "long"]
    assert model.sizes == [1, 2, 1]


def test_it_goes_on_as_long_as_requests_arrive():
    def exchange(replies):
        seen.update(replies)
        return [ask(names.pop())] if names and len(seen) + len(names) == 3 else []

    names, seen = ["c", "b", "a"], {}
    BatchingEngine(EchoModel()).keep_answering(lambda one: hops(one.id, 1), exchange)
    assert list(seen) == ["a", "b", "c"]


def test_a_canceled_request_sends_nothing_more_and_others_get_their_results():
    model, names = Recording(), ["long", "other"]
    exchange, seen = joining([[ask("long")], [ask("other")], []])
    BatchingEngine(model).keep_answering(lambda _one: hops("same", 3), exchange, lambda: names[: len(model.sizes) == 1])
    assert [name for found in seen for name in found] == ["long", "other"]
    assert [request.prompt for request in model.seen] == ["same.", "same.", "SAME..", "SAME..."]


def test_no_procedures_give_no_results():
    assert BatchingEngine(EchoModel()).run({}) == {}
