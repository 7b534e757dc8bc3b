"""With a model that accepts requests while it works on others, a procedure goes on as soon as its result arrives."""

import pytest

from ke_core.engine.batching import BatchingEngine
from ke_core.engine.cache import CompletionCache, key_of
from ke_core.spec.errors import ContextOverflow, ProcessLost
from ke_core.spec.protocols import ContinuousModel, RemoteModel
from ke_core.spec.requests import Generate, Generated, Nearest, Score
from ke_core.spec.results import Cost, Failure, Scored
from ke_memory.plugin import FactMemory
from ke_testing.fakes import EchoModel, WordEncoder


class OneAtATime(EchoModel):
    """Completes requests in the order in which they arrive. ``breaks``: raises at such a prompt."""

    def __init__(self, breaks=None):
        self.prompts: list[str] = []
        self.breaks = breaks or {}

    def complete(self, requests, following):
        waiting = list(requests)
        for place, request in enumerate(waiting):
            self.prompts.append(request.prompt)
            if request.prompt in self.breaks:
                raise self.breaks.pop(request.prompt)
            (result,) = (self.score if isinstance(request, Score) else self.generate)([request])
            waiting += following({place: result}, False)  # noqa: FBT003


def chain(name, number):
    for turn in range(number):
        yield Generate(prompt=f"{name}{turn}")
    return name


def test_the_next_request_joins_those_under_way():
    model = OneAtATime()
    assert isinstance(model, ContinuousModel)
    assert not isinstance(model, RemoteModel)
    engine = BatchingEngine(model)
    assert engine.run({name: chain(name, number) for name, number in (("a", 3), ("b", 1), ("c", 2))}) == {
        "a": "a", "b": "b", "c": "c"
    }  # fmt: skip
    assert model.prompts == ["a0", "b0", "c0", "a1", "c1", "a2"]
    assert (engine.requests, engine.hits) == (6, 0)


def test_look_ups_and_scores_do_not_wait_for_other_procedures():
    memory = FactMemory(WordEncoder(), [("e1", "the capital of France is Lyon")])

    def looks_up():
        yield Generate(prompt="first")
        (hit,) = yield Nearest(memory=memory, text="capital of France")
        return (yield Score(prompt=hit.text, continuations=(" so",)))

    model = OneAtATime()
    found = BatchingEngine(model).run({"a": looks_up(), "b": chain("b", 2)})
    assert found["a"] == Scored(logprobs=(-3.0,), tokens=(1,))
    assert model.prompts == ["first", "b0", "the capital of France is Lyon", "b1"]


def test_equal_requests_under_way_are_sent_once_and_results_are_cached_as_they_arrive():
    model, cache = OneAtATime({"a2": KeyboardInterrupt()}), CompletionCache()
    with pytest.raises(KeyboardInterrupt):
        BatchingEngine(model, cache=cache).run({"a": chain("a", 3), "b": chain("a", 2), "c": chain("c", 1)})
    assert model.prompts == ["a0", "c0", "a1", "a2"]
    model.prompts.clear()
    engine = BatchingEngine(model, cache=cache)
    assert engine.run({"a": chain("a", 3), "b": chain("a", 2)}) == {"a": "a", "b": "a"}
    assert model.prompts == ["a2"]
    assert engine.hits == 4


def test_sent_counts_requests_and_tokens_of_the_model_without_cached_and_equal_ones():
    class Metered(OneAtATime):
        def generate(self, requests):
            return [Generated(text=" x", finish="stop", prompt_tokens=5, tokens=2) for _request in requests]

    engine = BatchingEngine(Metered(), cache=CompletionCache())
    engine.run({"a": chain("a", 2), "b": chain("a", 2), "c": chain("c", 1)})
    assert engine.sent == Cost(calls=3, prompt_tokens=15, tokens=6)
    engine.run({"a": chain("a", 3)})
    assert engine.sent == Cost(calls=4, prompt_tokens=20, tokens=8)


def test_many_requests_are_sent_in_slices():
    sizes = []

    class Sized(OneAtATime):
        def complete(self, requests, following):
            sizes.append(len(requests))
            super().complete(requests, following)

    BatchingEngine(Sized()).run({f"p{n}": chain(f"p{n}-", 2) for n in range(1200)})
    assert sizes == [512, 512, 176]


def test_an_error_of_the_model_fails_what_is_not_answered():
    def careful():
        try:
            yield Generate(prompt="b0")
        except ContextOverflow:
            return (yield Generate(prompt="shorter")).text

    model = OneAtATime({"b0": ContextOverflow("too long")})
    found = BatchingEngine(model).run({"a": chain("a", 2), "b": careful(), "c": chain("c", 1)})
    failed = Failure(error="ContextOverflow", message="too long")
    assert found == {"a": failed, "b": " shorter", "c": failed}
    assert model.prompts == ["a0", "b0", "shorter"]
    with pytest.raises(ProcessLost):
        BatchingEngine(OneAtATime({"a1": ProcessLost("a process ended")})).run({"a": chain("a", 2)})


def test_a_request_that_the_model_forgets_fails():
    class Forgetful(OneAtATime):
        def complete(self, requests, following):
            super().complete([one for one in requests if one.prompt != "b0"], following)

    found = BatchingEngine(Forgetful()).run({"a": chain("a", 1), "b": chain("b", 1)})
    assert found["a"] == "a"
    assert found["b"] == Failure(error="PluginBroken", message="fake:echo has not answered every request")


def test_results_after_an_interrupt_are_only_cached():
    class Interrupted(OneAtATime):
        def complete(self, requests, following):
            (result,) = self.generate(requests[:1])
            assert following({0: result}, True) == []  # noqa: FBT003
            raise KeyboardInterrupt

    went_on, cache, model = [], CompletionCache(), Interrupted()

    def once():
        yield Generate(prompt="a0")
        went_on.append(True)

    with pytest.raises(KeyboardInterrupt):
        BatchingEngine(model, cache=cache).run({"a": once(), "b": chain("b", 2)})
    assert not went_on
    keys = [key_of(model.digest, Generate(prompt=prompt)) for prompt in ("a0", "b0")]
    assert list(cache.get(keys)) == keys[:1]


def test_errors_of_the_cache_are_raised(monkeypatch):
    cache = CompletionCache()
    monkeypatch.setattr(cache, "put", lambda _completions: (_ for _ in ()).throw(OSError("no space left")))
    with pytest.raises(OSError, match="no space left"):
        BatchingEngine(OneAtATime(), cache=cache).run({"a": chain("a", 2)})
