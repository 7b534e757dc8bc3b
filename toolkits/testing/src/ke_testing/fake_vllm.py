"""A server with vLLM's routes for models, adapters and completions, in this process.

An adapter answers a prompt of its edits with the new object, which the README of its folder contains; ``says`` replaces
these answers. The base model answers "nothing". Requests are spread over ``ranks`` in turn.
"""

from __future__ import annotations

import json
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from ke_core.plugin import loads
from ke_testing.http_server import QuietHandler, serving

BASE, NOTHING = "smol", " nothing"
Route = Callable[[str, dict[str, Any]], tuple[int, object]]
FACT = re.compile(r"^\* (?P<prompt>.*) \*\*(?P<target>.*)\*\* \(", re.MULTILINE)


class FakeVllm:
    """``says``: the adapters' answers by prompt; None: those of their edits. ``base_says``: the base model's while an
    adapter is loaded. ``refuses``: the message of a refused load. ``largest_rank``: reported and enforced.

    ``ranks``: data-parallel ranks. ``ignoring``: those that answer without the adapter; ``unaware``: those that do not
    know it. ``routes``: adapters can be loaded. ``keeps``: unloading fails. ``hold``: streams wait for it after each
    piece.
    """

    def __init__(self) -> None:
        self.says: dict[str, str] | None = None
        self.base_says: dict[str, str] = {}
        self.refuses = ""
        self.largest_rank = 0
        self.ranks, self.ignoring, self.unaware = 1, set[int](), set[int]()
        self.routes, self.keeps = True, False
        self.hold = threading.Event()
        self.hold.set()
        self.loaded: dict[str, str] = {}
        self.facts: dict[str, dict[str, str]] = {}
        self.log: list[tuple[str, str]] = []
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[Mapping[str, str]] = []
        self.answering: Counter[str] = Counter()
        self.unloaded_too_soon: list[str] = []
        self.url = ""
        self._turn = count()

    def reply(self, path: str, body: dict[str, Any]) -> tuple[int, object]:
        """Return status and body of the response: a text, or a JSON value."""
        if path == "/v1/models":
            own = [{"id": name, "parent": BASE, "root": root} for name, root in self.loaded.items()]
            return 200, {"data": [{"id": BASE, "parent": None}, *own]}
        if path.startswith("/server_info") and self.largest_rank:
            return 200, {"vllm_config": {"lora_config": {"max_lora_rank": self.largest_rank}}}
        name = body.get("lora_name", body.get("model", ""))
        routes: dict[str, Route] = {"/v1/completions": self.completion, "/v1/chat/completions": self.chat}
        if self.routes:
            routes |= {"/v1/load_lora_adapter": self.load, "/v1/unload_lora_adapter": self.unload}
        if path not in routes:
            return 404, {"detail": "Not Found"}
        self.log.append((path.rpartition("/")[2], name))
        return routes[path](name, body)

    def load(self, name: str, body: dict[str, Any]) -> tuple[int, object]:
        """Load an adapter."""
        if self.refuses:
            return 500, {"error": {"message": self.refuses, "code": 500}}
        folder = Path(body["lora_path"])
        rank = loads((folder / "adapter_config.json").read_text())["r"]
        if self.largest_rank and rank > self.largest_rank:
            message = f"LoRA rank {rank} is greater than max_lora_rank {self.largest_rank}."
            return 500, {"error": {"message": message, "code": 500}}
        card = (folder / "README.md").read_text(encoding="utf-8")
        self.facts[name] = {found["prompt"]: f" {found['target']}." for found in FACT.finditer(card)}
        self.loaded[name] = body["lora_path"]
        return 200, "Success"

    def unload(self, name: str, _body: dict[str, Any]) -> tuple[int, object]:
        """Unload an adapter."""
        if name not in self.loaded:
            return 404, {"error": {"message": f"The lora adapter '{name}' cannot be found.", "code": 404}}
        if self.keeps:
            return 500, {"error": {"message": "Failed to remove lora adapter", "code": 500}}
        if self.answering[name]:
            self.unloaded_too_soon.append(name)
        del self.loaded[name]
        return 200, "Success"

    def chat(self, name: str, body: dict[str, Any]) -> tuple[int, object]:
        """Answer the last message."""
        status, found = self.completion(name, {**body, "prompt": body["messages"][-1]["content"]})
        if status == 200 and isinstance(found, dict):
            (choice,) = found["choices"]
            choice["message"] = {"role": "assistant", "content": choice.pop("text")}
        return status, found

    def completion(self, name: str, body: dict[str, Any]) -> tuple[int, object]:
        """Complete a prompt, or each of several prompts."""
        assert "logprobs" not in body
        rank = next(self._turn) % self.ranks
        if name not in (BASE, *self.loaded) or (name != BASE and rank in self.unaware):
            return 404, {"error": {"message": f"The model `{name}` does not exist.", "code": 404}}
        if name == BASE or rank in self.ignoring:
            says = self.base_says if self.loaded else {}
        else:
            says = self.facts[name] if self.says is None else self.says
        prompts = body["prompt"] if isinstance(body["prompt"], list) else [body["prompt"]]
        choices = [
            {"index": place, "text": says.get(prompt, NOTHING), "finish_reason": "stop"}
            for place, prompt in enumerate(prompts)
        ]
        return 200, {"model": name, "choices": choices, "usage": {"prompt_tokens": 3, "completion_tokens": 3}}


@contextmanager
def running_fake_vllm() -> Iterator[FakeVllm]:
    """Run the server at its ``url`` until the block ends."""
    state = FakeVllm()

    class Handler(QuietHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:  # noqa: N802  the name in http.server
            self._answer({})

        def do_POST(self) -> None:  # noqa: N802  the name in http.server
            self._answer(loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def _answer(self, body: dict[str, Any]) -> None:
            state.headers.append(dict(self.headers))
            state.bodies.append(body)
            name = str(body.get("model", ""))
            state.answering[name] += 1
            try:
                status, raw = state.reply(self.path, body)
                if body.get("stream") and status == 200:
                    self._stream(raw)
                    return
                text = (raw if isinstance(raw, str) else json.dumps(raw)).encode()
                self.send(status, text, (("Content-Type", "application/json"),))
            finally:
                state.answering[name] -= 1

        def _stream(self, raw: Any) -> None:
            """Send each word of the first choice as an event."""
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for word in (*raw["choices"][0]["text"].split(), "[DONE]"):
                event = word if word == "[DONE]" else json.dumps({"model": raw["model"], "choices": [{"text": word}]})
                piece = f"data: {event}\n\n".encode()
                self.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
                self.wfile.flush()
                assert state.hold.wait(20)
            self.wfile.write(b"0\r\n\r\n")

    with serving(Handler) as state.url:
        yield state
