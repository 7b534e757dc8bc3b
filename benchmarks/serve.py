"""Throughput of ``ke serve`` with many edits, and the latency that it adds to the bare model.

    OMP_NUM_THREADS=1 python benchmarks/serve.py
    python benchmarks/serve.py --model smollm2-135m --encoder minilm-l6 --editor ice --requests 64

Four setups answer the same questions, greedily, with the same number of tokens: the model in this process, called one
question at a time; the server without an editor; the server with the editor and its edits; the same, but in batches: a
question that arrives while others are answered waits for all of them. With ``--long``, every fifth question asks for
so many tokens. Clients run in a separate process, one connection each, and send one question after another. The edits
are statements of MQuAKE-CF-3k, or made up if that file is missing. By default the model returns the last line of its
prompt immediately and the encoder is a fake one of hashed words, so that only the server is measured. ``--model tiny``
has random weights. Times are wall times.
"""

from __future__ import annotations

import argparse
import http.client
import json
import multiprocessing
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from attrs import evolve, frozen
from published import add_data_dir

from ke_core.engine.models import open_model
from ke_core.plugins.catalog import read_catalog
from ke_core.plugins.manager import discover
from ke_core.plugins.options import configure, split_options
from ke_core.spec.requests import Generate
from ke_core.spec.specs import EditorSpec
from ke_core.storage.json_reading import SourceLine
from ke_memory.plugin import load_encoder
from ke_plugin_serve.active_edits import ActiveEdits, kept_from
from ke_plugin_serve.limits import Limits
from ke_plugin_serve.rendering import ChatFormat, ignored_fields
from ke_plugin_serve.server import Address, serve
from ke_plugin_serve.startup import ServedModel, edited_model
from ke_testing.fakes import EchoModel, WordEncoder, make_session

PATIENCE, MILLI = 600, 1e3


@frozen(kw_only=True)
class Load:
    """Measurements: seconds of each request, and total seconds."""

    name: str
    clients: int
    seconds: Sequence[float]
    wall: float

    def line(self) -> str:
        """Return a row of the table."""
        low, high = np.percentile(self.seconds, [50, 95]) * MILLI
        rate = len(self.seconds) / self.wall
        return f"{self.name:28} {self.clients:7} {rate:10.1f} {low:9.1f} {high:9.1f}"

    @property
    def median(self) -> float:
        """Return the median in milliseconds."""
        return float(np.median(self.seconds)) * MILLI


def facts(folder: Path, count: int) -> list[dict[str, str]]:
    """Return fields of edits that do not contradict one another."""
    path = folder / "mquake" / "MQuAKE-CF-3k.json"
    rewrites = (
        [edit for case in json.loads(path.read_text(encoding="utf-8")) for edit in case["requested_rewrite"]]
        if path.exists()
        else []
    )
    found = {
        (one["prompt"], one["subject"]): {
            "statement": f"{one['prompt'].format(one['subject'])} {one['target_new']['str']}"
        }
        for one in rewrites
    }
    made_up = (
        {"statement": f"The head of office number {n} is person number {n * 7919 % 10_007}"} for n in range(count)
    )
    return [*found.values(), *made_up][:count]


def questions(statements: Sequence[dict[str, str]], count: int) -> list[str]:
    """Return distinct questions about the statements."""
    step = max(1, len(statements) // count)
    return [f"({n}) True or false: {statements[n * step % len(statements)]['statement']}?" for n in range(count)]


Asked = Sequence[tuple[str, int]]
"""Questions, and the tokens that each asks for."""


def asked(url: str, texts: Asked, clients: int) -> tuple[list[float], float]:
    """Send questions over ``clients`` connections, in a separate process; return the seconds of each and in total."""
    host, _, port = url.removeprefix("http://").partition(":")

    def ask(mine: Asked) -> list[float]:
        line = http.client.HTTPConnection(host, int(port), timeout=PATIENCE)
        taken: list[float] = []
        for text, tokens in mine:
            body = {"messages": [{"role": "user", "content": text}], "max_tokens": tokens}
            began = time.perf_counter()
            line.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
            answer = line.getresponse()
            said = answer.read()
            taken.append(time.perf_counter() - began)
            if answer.status != http.HTTPStatus.OK:
                raise SystemExit(said.decode())
        line.close()
        return taken

    began = time.perf_counter()
    with ThreadPoolExecutor(clients) as threads:
        found = list(threads.map(ask, [texts[client::clients] for client in range(clients)]))
    return [one for some in found for one in some], time.perf_counter() - began


@contextmanager
def serving(served: ServedModel, options: argparse.Namespace) -> Iterator[str]:
    """Run the server in a thread and return its URL."""
    started: dict[str, Any] = {}
    ready = threading.Event()
    settings = ChatFormat(
        model="m", turns=False, ignored=ignored_fields(served.spec), max_tokens=4096, default_tokens=options.tokens
    )
    limits = Limits(concurrent=max(options.clients) + 1)

    def listening(url: str, server: object) -> None:
        started.update(url=url, server=server)
        ready.set()

    def run() -> None:
        serve(served, settings, Address(port=0), limits, window=options.window / MILLI, listening=listening)

    thread = threading.Thread(target=run)
    thread.start()
    ready.wait(PATIENCE)
    try:
        yield started["url"]
    finally:
        started["server"].should_exit = True
        thread.join(PATIENCE)


@frozen
class InBatches:
    """An edited model that answers lists of questions only."""

    _edited: Any

    @property
    def details(self) -> Any:
        """Those of the edited model."""
        return self._edited.details

    def answer(self, asks: Sequence[Any]) -> Any:
        """Answer the questions of one batch."""
        return self._edited.answer(asks)

    def change(self, **edits: Any) -> None:
        """Change the edits."""
        self._edited.change(**edits)


def bare(model: Any, texts: Asked) -> Load:
    """Call the model one question at a time, with the prompt and the decoding of the server."""
    taken: list[float] = []
    for text, tokens in texts:
        request = Generate(prompt=f"User: {text}\nAssistant:", max_tokens=tokens, stop=("\nUser:",))
        began = time.perf_counter()
        model.generate([request])
        taken.append(time.perf_counter() - began)
    return Load(name="model, in this process", clients=1, seconds=taken, wall=sum(taken))


def over_http(name: str, served: ServedModel, texts: Asked, options: argparse.Namespace) -> list[Load]:
    """Measure the server with one client and with several."""
    loads: list[Load] = []
    with serving(served, options) as url, multiprocessing.get_context("spawn").Pool(1) as pool:
        pool.apply(asked, (url, texts[:4], 1))  # nobody pays for what happens once
        for clients in options.clients:
            taken, wall = pool.apply(asked, (url, texts, clients))
            loads.append(Load(name=name, clients=clients, seconds=taken, wall=wall))
    return loads


@contextmanager
def edited(
    name: str, model: Any, given: Sequence[dict[str, str]], options: argparse.Namespace
) -> Iterator[ServedModel]:
    """Return the editor ``name`` with these edits applied, ready to serve."""
    spec = read_catalog(discover()).spec("editor", name)
    assert isinstance(spec, EditorSpec)
    own = {**spec.served, **split_options(options.options).get(spec.prefix, {})}
    encoder = load_encoder(options.encoder) if options.encoder else WordEncoder(384)
    session = make_session(model, encoder=encoder)
    bank = ActiveEdits.of(kept_from(raw, SourceLine(file="the benchmark", line=n)) for n, raw in enumerate(given))
    editor = spec.build(configure(spec, own))
    with edited_model(spec, editor, session, [one.edit for one in bank.edits.values()]) as found:
        yield ServedModel(session=session, spec=spec, editor=editor, edited=found, bank=bank, state=None, turns=False)


def read_options() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="", metavar="NAME", help="as in ke serve, or tiny; default: a fake model")
    parser.add_argument("--encoder", default="", metavar="NAME", help="such as minilm-l6; default: a fake encoder")
    parser.add_argument("--editor", default="ice")
    parser.add_argument("-o", "--option", dest="options", action="append", default=[], metavar="NAME.OPTION=VALUE")
    parser.add_argument("--edits", type=int, default=1000)
    parser.add_argument("--requests", type=int, default=128)
    parser.add_argument("--tokens", type=int, default=16)
    parser.add_argument("--long", type=int, default=0, metavar="TOKENS", help="default: as many as the others")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--window", type=float, default=5.0, metavar="MS")
    add_data_dir(parser)
    return parser.parse_args()


def opened(name: str) -> Any:
    """Open a model as ``ke serve`` does, or one of two that need no download."""
    if name == "tiny":
        from ke_plugin_hf.testing import tiny_model  # noqa: PLC0415  torch, which the fake does without

        return tiny_model("llama")
    return open_model(name) if name else EchoModel()


def main() -> None:
    """Measure all setups."""
    options = read_options()
    model: Any = opened(options.model)
    given = facts(options.data_dir, options.edits)
    lengths = [options.tokens if n % 5 else options.long or options.tokens for n in range(options.requests)]
    texts = list(zip(questions(given, options.requests), lengths, strict=True))
    bare(model, texts[:4])
    loads = [bare(model, texts)]
    with edited("none", model, [], options) as served:
        loads += over_http("server, no editor", served, texts, options)
    with edited(options.editor, model, given, options) as served:
        loads += over_http(f"server, {options.editor}, {len(given):,} edits", served, texts, options)
        alone = evolve(served, edited=InBatches(served.edited))
        loads += over_http("the same, in batches", alone, texts, options)

    long = f", every fifth of {options.long}" if options.long else ""
    print(f"{model.id}, {options.requests} requests of {options.tokens} tokens{long}, window {options.window:g} ms")
    print(f"{'':28} {'clients':>7} {'requests/s':>10} {'p50 ms':>9} {'p95 ms':>9}")
    for load in loads:
        print(load.line())
    count = len(options.clients)
    inside, server, whole = loads[0].median, loads[1].median, loads[1 + count].median
    print(f"added by the server   {server - inside:8.1f} ms at {options.clients[0]} client(s), including the window")
    print(f"added by the editor   {whole - server:8.1f} ms: look-up, and a longer prompt")


if __name__ == "__main__":
    main()
