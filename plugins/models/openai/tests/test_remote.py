"""``--model openai:M``: runs on a server, resuming, usage and errors."""

import importlib.util
import json
import os
import signal
import sys
import zlib
from collections import Counter
from pathlib import Path

import pytest

from ke_core.plugin import Generate, JudgeSpec, Judgment, KEError, Likelihood, MetricSpec, Verdict, hookimpl

pytestmark = pytest.mark.integration

BESIDE = Path(__file__).with_name("conftest.py")


@pytest.fixture(scope="session")
def rude():
    """Import the misbehaving server of the model's tests: tests are not a package."""
    spec = importlib.util.spec_from_file_location("ke_core_rude_server", BESIDE)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def serve(rude, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", rude.KEY)
    running = []

    def start(answer=lambda _n, body: rude.completion(f" {body['prompt'][-3:]}"), **more):
        running.append(rude.Rude(answer, **more))
        return running[-1]

    yield start
    for server in running:
        server.close()


def run(server, *more, out="done"):
    return ("eval", "--editor", "sayer", "--dataset", "toy", "-o", "sayer.word=", "--model", "openai:m",
            "--base-url", server.url, "--out", out, *more)  # fmt: skip


def test_a_run_reports_requests_and_tokens(ke, serve, rude):
    server = serve()
    status, out, err = ke(*run(server, "--full", "--price-in", "2", "--price-out", "10"))
    assert status == 0, err
    n = len(server.asked)
    assert n == len(set(server.prompts)) > 10
    words = f"sent to the server: {n} requests, {5 * n} prompt tokens and {2 * n} generated"
    assert f"{words}, which cost {n * (5 * 2 + 2 * 10) / 1e6:.4f}" in err
    assert f"m behind {server.url}, through plain completions" in " ".join(out.split())
    spec = json.loads(Path("done/run.json").read_text())["spec"]["model"]
    assert (spec["source"], spec["id"], spec["base_url"], spec["dtype"]) == ("openai", "m", server.url, "")
    kept = "".join(path.read_text(errors="replace") for path in Path().rglob("*") if path.is_file())
    assert rude.KEY not in kept + out + err


def recorded(folder):
    return [json.loads(line) for line in Path(folder, "records.jsonl").read_text().splitlines()]


def costs(folder):
    """Return the phase and the cost of each answer."""
    replied = [line for line in recorded(folder) if line["kind"] == "replied"]
    return [(line["phase"], reply["cost"]) for line in replied for reply in line["replies"].values()]


def spent(folder="done"):
    """Return the sums of the recorded usage."""
    total = Counter()
    for line in recorded(folder):
        if line["kind"] == "usage":
            total.update({name: line[name] for name in ("requests", "retries", "prompt_tokens", "tokens")})
    return total


def test_usage_is_recorded_and_shown_in_every_report(ke, serve):
    server = serve()
    _status, out, _err = ke(*run(server, "--full", "--price-in", "2", "--price-out", "10"))
    n = len(server.asked)
    assert spent() == Counter(requests=n, retries=0, prompt_tokens=5 * n, tokens=2 * n)
    words = f"{n} requests, {5 * n} prompt tokens and {2 * n} generated, which cost {30 * n / 1e6:.4f}"
    assert f"server usage: {words}" in " ".join(out.split())
    assert f"server usage: {words}" in " ".join(ke("report", "done", "--full")[1].split())
    assert f"done: usage of its server: {words}" in " ".join(ke("runs", ".")[1].split())


def test_cached_answers_count_as_cost_but_not_as_usage(ke, serve):
    server = serve()
    ke(*run(server))
    ke(*run(server, out="elsewhere"))
    first, second = costs("done"), costs("elsewhere")
    assert first == second
    assert {phase for phase, _cost in first} == {"before", "after"}
    assert all((cost["calls"], cost["prompt_tokens"]) == (1, 5) for _phase, cost in first)
    assert spent("elsewhere") == Counter()
    assert "server usage" not in ke("report", "elsewhere", "--full")[1]
    calls = sum(cost["calls"] for _phase, cost in first)
    in_all = f"{calls} model calls, {5 * calls} prompt tokens and {2 * calls} generated"
    assert in_all in " ".join(ke("report", "elsewhere", "--full")[1].split())


def test_each_run_records_its_own_usage(ke, serve):
    server = serve()
    command = run(server, "--editor", "other", "-o", "other.word=", out="both")
    assert ke(*command)[0] == 0
    runs = [spent(path) for path in sorted(Path("both").iterdir())]
    assert len(runs) == 2
    assert sum(one["requests"] for one in runs) == len(server.asked)
    assert runs[0] != runs[1]  # they ask alike: the second finds it all in the cache


@pytest.mark.usefixtures("interruptible")
def test_an_interrupted_run_repeats_no_request(ke, serve, rude):
    def answer(n, body):
        if n == 7:
            os.kill(os.getpid(), signal.SIGINT)
        return rude.completion(f" {body['prompt'][-3:]}")

    server = serve(answer)
    assert ke(*run(server, "--concurrency", "2"))[0] == 130
    first = len(server.asked)
    assert first < 12
    status, _out, _err = ke(*run(server, "--concurrency", "2"))
    assert status == 0
    assert len(server.asked) > first
    assert max(Counter(server.prompts).values()) == 1
    assert spent()["requests"] == len(server.asked)  # of both processes
    whole = serve()
    assert ke(*run(whole, out="whole"))[0] == 0
    assert Counter(whole.prompts) == Counter(server.prompts)


def test_a_finished_run_sends_nothing(ke, serve):
    server = serve()
    assert ke(*run(server))[0] == 0
    n = len(server.asked)
    assert ke(*run(server))[0] == 0
    assert ke(*run(server, out="elsewhere"))[0] == 0  # another folder: from the cache
    assert len(server.asked) == n


def test_a_run_stops_when_the_server_dies_and_resumes(ke, serve, rude, monkeypatch):
    hasty(monkeypatch)
    broken = [True]

    def answer(n, body):
        if n > 1 and broken[0]:
            return 500, {"error": {"message": f"request {n} failed"}}, {}  # no two alike
        return rude.completion(f" {body['prompt'][-3:]}")

    server = serve(answer)
    status, _out, err = ke(*run(server, "--concurrency", "1"))
    assert status == 2
    assert "the same failure 10 times in a row: ServerDown: the server returned status 500: request " in err
    failed = Counter(server.prompts[2:])
    broken[0] = False
    assert ke(*run(server, "--concurrency", "1"))[0] == 0
    paid = Counter(server.prompts)
    paid.subtract(failed)
    assert max(paid.values()) == 1


def test_only_unanswered_requests_are_sent_again(ke, serve, rude, monkeypatch):
    hasty(monkeypatch)
    sick = [True]

    def answer(n, body):
        if sick[0] and zlib.crc32(body["prompt"].encode()) % 4 == 0:
            return 503, {"error": {"message": f"overloaded, request {n}"}}, {}
        return rude.completion(f" {body['prompt'][-3:]}")

    server = serve(answer)
    assert ke(*run(server, "--concurrency", "1"))[0] == 1
    lost = {prompt for prompt in server.prompts if zlib.crc32(prompt.encode()) % 4 == 0}
    assert lost
    assert "ServerDown" in ke("report", "done", "--full")[1]
    sick[0], before = False, len(server.asked)
    status, out, _err = ke(*run(server, "--concurrency", "1"))
    assert status == 0
    assert set(server.prompts[before:]) == lost
    assert len(server.asked) == before + len(lost)
    whole = serve()
    assert ke(*run(whole, out="whole"))[0] == 0
    assert scores("done") == scores("whole")
    for shown in out, ke("report", "done", "--full")[1], ke("runs", ".")[1]:
        assert "fail" not in shown.casefold()
    assert ke("report", "done", "--csv", "done.csv")[0] == ke("report", "whole", "--csv", "whole.csv")[0] == 0
    assert "ServerDown" not in Path("done.csv").read_text()
    assert ke(*run(server))[0] == 0  # and now it is over
    assert len(server.asked) == before + len(lost)


def scores(folder):
    """Return everything except the run's id, which depends on the server's address."""
    found = json.loads(Path(folder, "scores.json").read_text())
    return {name: value for name, value in found.items() if name != "run"}


def hasty(monkeypatch):
    from ke_plugin_openai import client

    monkeypatch.setattr(
        client.RetryPolicy.__init__, "__kwdefaults__", {"attempts": 2, "first": 0.0, "most": 0.0, "total_wait": 1.0}
    )


def test_refusals_of_content_are_failures_that_do_not_stop_the_run(ke, serve):
    refused = {"choices": [{"text": "", "finish_reason": "content_filter"}]}
    status, out, _err = ke(*run(serve(lambda _n, _body: refused), "--full"))
    assert status == 1
    assert "ContentRefused" in out


def test_a_server_that_is_down_is_one_line(ke, serve):
    server = serve()
    server.close()
    status, _out, err = ke(*run(server))
    assert status == 2
    assert err.startswith(f"loading the model\nerror: cannot reach {server.url}")


def test_a_weight_editor_is_refused_before_any_request(ke, serve):
    server = serve()
    command = ("eval", "--editor", "surgeon", "--dataset", "toy", "--model", "openai:m", "--base-url", server.url)
    status, _out, err = ke(*command)
    assert status == 2
    assert "surgeon changes weights, and openai:m has none here" in err
    assert not server.asked


class Asker:
    """A judge that sends one list of requests about all replies and stops at a failure."""

    @hookimpl
    def ke_judges(self):
        from attrs import make_class

        return [
            JudgeSpec(name="asker", summary="asks", config=make_class("Nothing", [], kw_only=True),
                      build=lambda _config: self, needs_model=True)
        ]  # fmt: skip

    def judge(self, session, items):
        found = session.engine.run({str(at): self.one(item) for at, item in enumerate(items)})
        if wrong := [one for one in found.values() if not isinstance(one, Judgment)]:
            raise KEError(f"the judge's model failed: {wrong[0].message}", hint="again")
        return list(found.values())

    def one(self, item):
        yield Generate(prompt=f"Is it so? {item.query.id} {item.query.texts[0]} {item.reply.text}")
        return Judgment(verdict=Verdict.UNSURE)


def judging(server, *more):
    return ("judge", "done", "--judge", "asker", "--judge-model", "openai:m", "--base-url", server.url,
            "--price-in", "2", "--price-out", "10", *more)  # fmt: skip


def test_judging_reports_and_records_usage(ke, serve, plugins):
    plugins.register(Asker(), "asker")
    assert ke("eval", "--editor", "sayer", "--dataset", "toy", "--model", "echo:1", "--out", "done")[0] == 0
    assert not spent()
    server = serve()
    status, out, err = ke(*judging(server))
    assert status == 0, err
    n = len(server.asked)
    words = f"{n} requests, {5 * n} prompt tokens and {2 * n} generated, which cost {30 * n / 1e6:.4f}"
    assert n > 10
    assert f"sent to the server: {words}" in err
    assert "ke report done --full" in out
    assert f"server usage: {words}" in " ".join(ke("report", "done", "--full")[1].split())
    assert f"done: usage of its server: {words}" in " ".join(ke("runs", ".")[1].split())
    assert spent() == Counter(requests=n, retries=0, prompt_tokens=5 * n, tokens=2 * n)
    assert "sent to the server" not in ke(*judging(server))[2]  # it is over, and pays for nothing
    assert (len(server.asked), spent()["requests"]) == (n, n)


def test_failed_judging_records_usage(ke, serve, rude, plugins):
    plugins.register(Asker(), "asker")
    ke("eval", "--editor", "sayer", "--dataset", "toy", "--model", "echo:1", "--out", "done")
    sick = [True]
    refused = (400, {"error": {"message": "no"}}, {})
    server = serve(lambda n, _body: refused if sick[0] and n == 7 else rude.completion(" yes"))
    status, _out, err = ke(*judging(server, "--concurrency", "1"))
    assert (status, "the judge's model failed" in err) == (2, True)
    asked = len(server.asked)
    assert spent()["requests"] == asked - 1  # but for the one that was refused
    sick[0] = False
    assert ke(*judging(server))[0] == 0
    assert spent()["requests"] == len(server.asked) - 1


def test_checking_a_judge_reports_usage(ke, serve, plugins):
    plugins.register(Asker(), "asker")
    items = [{"question": f"Where is {n}?", "answer": "Rome", "gold": [["Rome"]], "label": "right"} for n in range(50)]
    Path("sheet").write_text("\n".join(map(json.dumps, items)), encoding="utf-8")
    command = ("judges", "check", "asker", "--items", "sheet", *judging(serve())[4:])
    assert "sent to the server: 50 requests, 250 prompt tokens" in ke(*command)[2]


class Scores:
    """A metric that needs a probability."""

    @hookimpl
    def ke_metrics(self):
        ask = Likelihood(id="", case="", query="p", prompt="The tower is in", continuations=(" Rome",))
        from attrs import make_class

        return [
            MetricSpec(name="chance", summary="asks", config=make_class("Nothing", [], kw_only=True),
                       build=lambda _config: type("M", (), {"model_values": lambda self, record: ()})(),
                       requests=lambda _config: (ask,))
        ]  # fmt: skip


def test_a_metric_that_needs_log_probabilities_is_refused_before_the_run_where_the_server_ignores_them(
    ke, serve, plugins
):
    plugins.register(Scores(), "scores")
    server = serve()
    status, _out, err = ke(*run(server, "--metric", "accuracy", "--metric", "chance"))
    assert status == 2
    assert "metric chance needs log-probabilities, and openai:m gives none: the server returns no log-prob" in err
    assert len(server.asked) == 1
    assert not Path("done").exists()


def test_a_missing_key_is_not_reported_as_missing_log_probabilities(ke, serve, plugins):
    plugins.register(Scores(), "scores")
    refused = (401, {"error": {"message": "no"}}, {})
    status, _out, err = ke(*run(serve(lambda _n, _body: refused), "--metric", "chance"))
    assert status == 2
    assert "metric chance needs log-probabilities, and openai:m could not be tried: the server rejected" in err


def test_info_prints_what_the_server_reports(ke, serve, rude):
    server = serve(listing=(200, {"data": [{"id": "m", "context_length": 2048}]}, {}))
    status, out, _err = ke("models", "info", "openai:m", "--base-url", server.url, "--chat")
    assert status == 0
    for part in ("openai:m", server.url, "/chat/completions", "2,048 tokens", "its key is the one in OPENAI_API_KEY"):
        assert part in out
    assert rude.KEY not in out
    assert not server.asked
