"""A process that its launcher terminates records no answers that the model did not give."""

import os
import signal

import pytest

from ke_core.engine.batching import BatchingEngine
from ke_core.engine.cache import CompletionCache, key_of
from ke_core.runner import world
from ke_core.spec.errors import ToldToEnd
from ke_core.spec.requests import Generate
from ke_plugin_hf.testing import tiny_model


@pytest.fixture
def as_in_a_shared_run(monkeypatch):
    monkeypatch.setenv("RANK", "1")
    before = signal.signal(signal.SIGTERM, world._ended)
    yield
    signal.signal(signal.SIGTERM, before)


QUESTIONS = [Generate(prompt=f"Who is {at}?", max_tokens=8) for at in range(5)]


def asking(question, caught):
    try:
        yield question
    except Exception as error:  # a method that continues after errors
        caught.append(error)
        raise


@pytest.mark.usefixtures("as_in_a_shared_run")
@pytest.mark.parametrize(("at", "tried"), [(1, False), (8, False), (20, True)])  # references, a trial, answers
def test_sigterm_during_a_forward_pass_ends_the_run_and_records_no_wrong_answer(at, tried):
    model, cache, passes, caught = tiny_model("llama"), CompletionCache(), [], []

    def terminated(*_given):
        passes.append(dict(model.backends))
        if len(passes) == at:
            os.kill(os.getpid(), signal.SIGTERM)

    model.module.lm_head.register_forward_hook(terminated)
    with pytest.raises(ToldToEnd, match="process 1 was terminated: another process of this run has died, or"):
        BatchingEngine(model, cache=cache).run({question.prompt: asking(question, caught) for question in QUESTIONS})
    assert len(passes) == at
    assert passes[-1] == ({"plain": ""} if tried else {})
    assert not caught
    assert model.backends == passes[-1]  # the interrupted attempt does not count as a failed one
    keys = [key_of(model.digest, question) for question in QUESTIONS]
    whole = dict(zip(keys, tiny_model("llama").generate(QUESTIONS), strict=True))
    cached = cache.get(keys)
    assert cached.items() <= whole.items()  # those that had ended before
    assert len(cached) < len(QUESTIONS)
