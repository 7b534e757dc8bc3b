"""Fake models that echo or follow a script, and a fake encoder. No download, no GPU."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from ke_core.plugin import (
    ArtifactStore,
    Edit,
    Editor,
    EditorRequest,
    Encoder,
    Generate,
    Generated,
    LanguageModel,
    Material,
    Score,
    Scored,
    Session,
    digest,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

T = TypeVar("T")


class EchoModel:
    """A model without weights that repeats the last line of its prompt, and considers short texts probable."""

    id = "fake:echo"
    context = 100_000

    @property
    def digest(self) -> str:
        """The same for every EchoModel, because all give the same answers."""
        return digest({"fake": self.id})

    def state(self) -> Mapping[str, object]:
        """Empty: the model has no state."""
        return {}

    def generate(self, requests: Sequence[Generate]) -> list[Generated | Exception]:
        """Return the last line of each prompt."""
        return [cut(f" {request.prompt.splitlines()[-1]}", request) for request in requests]

    def score(self, requests: Sequence[Score]) -> list[Scored | Exception]:
        """Return scores by ``likes``; a token is a word."""
        return [
            Scored(
                logprobs=tuple(self.log_probability(prompt, text) for prompt, text in request.pairs),
                tokens=tuple(max(1, len(text.split())) for text in request.continuations),
            )
            for request in requests
        ]

    def log_probability(self, prompt: str, text: str) -> float:
        """Return the log-probability of ``text`` after ``prompt``: minus the number of its characters."""
        del prompt
        return -float(len(text))


class ChecksumModel(EchoModel):
    """Repeats the last line of its prompt plus a checksum of the whole prompt, so that lost facts are detected."""

    id = "fake:telling"

    def generate(self, requests: Sequence[Generate]) -> list[Generated | Exception]:
        """Return the part of the last line that fits, and the prompt's checksum, joined to the last word."""
        return [cut(f"{_last_line(one)}#{zlib.crc32(one.prompt.encode()):08x}", one) for one in requests]

    def log_probability(self, prompt: str, text: str) -> float:
        """Return the echo's log-probability plus a part that depends on the prompt."""
        return super().log_probability(prompt, text) - zlib.crc32(prompt.encode()) / 2**32


def _last_line(request: Generate) -> str:
    words = f" {request.prompt.splitlines()[-1]}".split(" ")
    return " ".join(words[: request.max_tokens])


class ScriptedModel(EchoModel):
    """Returns scripted outputs, in order or by a function of the prompt, and records every request.

    A script item that is an exception is returned instead of a text. Running past the end of the script raises, because
    it is a mistake of the test. ``likes`` returns the log-probability of a continuation after a prompt; by default,
    shorter ones are more probable.
    """

    id = "fake:scripted"

    def __init__(
        self,
        script: Iterable[str | Exception] | Callable[[str], str | Exception] = (),
        *,
        likes: Callable[[str, str], float] | None = None,
    ) -> None:
        self._answer = script if callable(script) else None
        self._script = [] if callable(script) else list(script)
        self._likes = likes or super().log_probability
        self.requests: list[Generate] = []
        self.scored: list[Score] = []

    @property
    def prompts(self) -> list[str]:
        """Every prompt so far, in order."""
        return [request.prompt for request in self.requests]

    def generate(self, requests: Sequence[Generate]) -> list[Generated | Exception]:
        """Return the next items of the script, cut at stop strings like a real model's output."""
        return [self._one(request) for request in requests]

    def score(self, requests: Sequence[Score]) -> list[Scored | Exception]:
        """Return scores by ``likes``, and record the requests."""
        self.scored += requests
        return super().score(requests)

    def log_probability(self, prompt: str, text: str) -> float:
        """Return the log-probability of ``text`` after ``prompt``."""
        return self._likes(prompt, text)

    def _one(self, request: Generate) -> Generated | Exception:
        self.requests.append(request)
        if self._answer is not None:
            said = self._answer(request.prompt)
        elif self._script:
            said = self._script.pop(0)
        else:
            raise AssertionError(f"the script has no reply left for {request.prompt[-200:]!r}")
        return said if isinstance(said, Exception) else cut(said, request)


def cut(text: str, request: Generate) -> Generated:
    """Cut ``text`` like a model's output: at the earliest stop string, after at most ``max_tokens`` words."""
    ends = [at for at in (text.find(stop) for stop in request.stop) if at >= 0]
    finish: Literal["stop", "eos", "length"] = "stop" if ends else "eos"
    text = text[: min(ends)] if ends else text
    words = text.split(" ")
    if len(words) > request.max_tokens:
        text, finish = " ".join(words[: request.max_tokens]), "length"
    return Generated(text=text, finish=finish, prompt_tokens=len(request.prompt.split()), tokens=len(text.split()))


class WordEncoder:
    """Vectors of hashed words: texts with common words are near. Deterministic in every process."""

    def __init__(self, dimension: int = 256) -> None:
        self.dimension = dimension

    @property
    def id(self) -> str:
        """The encoder's id, with its dimension."""
        return f"fake:words-{self.dimension}"

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return unit vectors, float32 [n, dimension]."""
        import numpy as np

        vectors = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for row, text in enumerate(texts):
            for word in text.lower().split():
                vectors[row, zlib.crc32(word.strip(".,?!\"'").encode()) % self.dimension] += 1
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        unit: NDArray[np.float32] = vectors / np.maximum(norms, 1e-12)
        return unit


class SilentProgress:
    """Progress without output."""

    def track(self, items: Iterable[T], label: str, total: int | None = None) -> Iterable[T]:
        """Return the items."""
        del label, total
        return items

    def advance(self, label: str, done: int, total: int | None = None) -> None:
        """Do nothing."""


@cache
def _removed_at_exit() -> TemporaryDirectory[str]:
    return TemporaryDirectory(prefix="ke-artifacts-")


def make_session(
    model: LanguageModel,
    *,
    material: Mapping[str, Material] | None = None,
    encoder: Encoder | None = None,
    seed: int = 0,
    root: Path | None = None,
) -> Session[Any]:
    """Return a session with ``model``, the real engine, no completion cache, and artifacts in ``root``."""
    from ke_core.app import BatchingEngine

    words = encoder or WordEncoder()
    return Session(
        model=model,
        engine=BatchingEngine(model, seed=seed),
        encoder=lambda _name: words,
        artifacts=ArtifactStore(root or Path(mkdtemp(dir=_removed_at_exit().name))),
        progress=SilentProgress(),
        seed=seed,
        material=material or {},
    )


def answer_from_script(
    editor: Editor,
    script: Sequence[str | Exception] | Callable[[str], str | Exception],
    request: EditorRequest,
    edits: Sequence[Edit],
    **session: Any,
) -> tuple[Any, ScriptedModel]:
    """Return the reply to one request and the model, whose list of outputs must be used up.

    ``session``: as for ``make_session``.
    """
    model = ScriptedModel(script)
    with editor.edit(make_session(model, **session), edits) as edited:
        (reply,) = edited.answer([request])
    if not callable(script) and len(model.prompts) != len(script):
        raise AssertionError(f"{len(model.prompts)} of {len(script)} outputs are used")
    return reply, model
