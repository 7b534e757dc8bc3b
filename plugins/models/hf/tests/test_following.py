"""Rows of requests that follow from results join the rows under way, and get the results of separate calls."""

import pytest

from ke_core.plugin import Generate, ModelUnavailable, Score
from ke_plugin_hf.decoding import decoding, drafts
from ke_plugin_hf.decoding.passes import COUNTER
from ke_plugin_hf.testing import FAMILIES, tiny_model

HEAD = "Question: What is the capital of Italy? Answer: Rome.\n" * 6
OTHER = "Berlin is a city in Germany, and Lyon is a city in France. " * 6
LENGTHS = (1, 2, 3, 5, 8, 13)


class Chains:
    """Conversations of several turns: the next prompt contains the text of the last turn."""

    def __init__(self, number=6, turns=3, other=OTHER):
        self.other = other
        self.texts = {name: [] for name in range(number)}
        self.turns = turns
        self.under_way = []
        self.seen = []

    def first(self):
        return self._next(list(self.texts))

    def following(self, results, _ended):
        self.seen.append(len(results))
        done = [self.under_way[place] for place in results]
        for name, result in zip(done, results.values(), strict=True):
            self.texts[name].append(result if isinstance(result, Exception) else result.text)
        return self._next([name for name in done if len(self.texts[name]) < self.turns])

    def _next(self, names):
        self.under_way += names
        return [self._request(name) for name in names]

    def _request(self, name):
        turn, said = len(self.texts[name]), "".join(self.texts[name])
        head = self.other if name % 3 == 2 and turn == 1 else HEAD  # one turn has other demonstrations
        limit = LENGTHS[(name + turn) % len(LENGTHS)]
        return Generate(prompt=f"{head}{name}{said}?", max_tokens=limit, temperature=(name % 2) * 0.7, seed=name)


def separately(model, chains):
    requests = chains.first()
    while requests:
        first = len(chains.under_way) - len(requests)
        requests = chains.following({first + at: model.generate([one])[0] for at, one in enumerate(requests)}, None)


def test_a_canceled_request_ends_within_a_few_tokens():
    model, results = tiny_model("llama"), {}
    requests = [Generate(prompt=text, max_tokens=60) for text in ("The capital", "Berlin is")]
    (alone,) = model.generate(requests[:1])
    assert alone.tokens == 60
    model.unneeded = lambda: [1]
    model.complete(requests, lambda found, _ended: results.update(found) or [])
    assert list(results) == [1, 0]
    assert isinstance(results[1], ModelUnavailable)
    assert results[0] == alone
    before = model.passes().passes
    model.unneeded = lambda: [0]
    model.complete(requests[1:], lambda *_: [])
    assert model.passes().passes - before <= decoding.PATIENCE + 2


@pytest.mark.parametrize("family", FAMILIES)
def test_texts_are_those_of_separate_calls(family):
    one, two = Chains(), Chains()
    tiny_model(family).complete(one.first(), one.following)
    separately(tiny_model(family), two)
    assert one.texts == two.texts


def test_rows_join_a_group_and_take_fewer_passes(monkeypatch):
    monkeypatch.setattr(drafts, "FULL", 0)  # no guesses, which shorten the wait for the last rows of a turn

    def passes(chains):
        model = tiny_model("llama")
        model.generate([Generate(prompt=HEAD, max_tokens=1)])  # tests the backend
        before = COUNTER.now().passes
        model.complete(chains.first(), chains.following)
        return COUNTER.now().passes - before

    together, in_turns = Chains(12, turns=6, other=HEAD), Chains(12, turns=6, other=HEAD)
    joined = passes(together)
    monkeypatch.setattr(decoding, "REFILLED", 1)  # when all rows ended
    monkeypatch.setattr(decoding, "PATIENCE", 1000)
    assert joined < 0.7 * passes(in_turns)
    assert together.texts == in_turns.texts
    assert in_turns.seen == [12] * 6
    assert min(together.seen) < 12


def test_results_come_in_parts_and_errors_and_scores_with_them():
    model, chains = tiny_model("llama"), Chains(turns=1)
    long = Generate(prompt="word " * 2 * model.context)
    score = Score(prompt=HEAD, continuations=(" Peru", " Mali"))
    found, order = {}, []

    def following(results, _ended):
        order.append(sorted(results))
        found.update(results)
        return [Score(prompt=HEAD, continuations=(" Chad",))] if 0 in results else []

    requests = chains.first()
    model.complete([*requests, long, score], following)
    assert [found[at].text for at in range(6)] == [one.text for one in tiny_model("llama").generate(requests)]
    assert type(found[6]).__name__ == "ContextOverflow"
    assert [found[7]] == tiny_model("llama").score([score])
    assert found[8].tokens == tiny_model("llama").score([Score(prompt=HEAD, continuations=(" Chad",))])[0].tokens
    assert order[0] == [6]
    assert len(order) > 3
    assert sorted(found) == list(range(9))


def test_progress_counts_the_requests_that_follow():
    model, chains, seen = tiny_model("llama"), Chains(), []
    model.on_progress = seen.append
    model.complete(chains.first(), chains.following)
    assert seen == sorted(seen)
    assert seen[-1] >= 17
    assert sum(chains.seen) == 18


@pytest.mark.parametrize("head", ["", HEAD])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_request_that_arrives_joins_the_rows_under_way(family, head, monkeypatch):
    monkeypatch.setattr(drafts, "FULL", 0)  # no guesses, with which the long text ends after a few steps
    long = Generate(prompt=f"{head}A long story begins", max_tokens=40)
    short = Generate(prompt=f"{head}The capital of Peru is", max_tokens=3)
    model, found, order = tiny_model(family), {}, []
    model.generate([Generate(prompt=f"{head}{word}", max_tokens=1) for word in ("one", "two")])  # caches the prefix

    def following(results, _ended):
        found.update(results)
        order.extend(results)
        asked.append(len(results))
        return [short] if len(asked) == 2 else []

    asked = []
    model.complete([long], following)
    assert order == [1, 0]
    assert [found[0], found[1]] == tiny_model(family).generate([long, short])
