"""Stand-ins that need no download and no GPU: models that echo or follow a script, and an encoder of words."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from ke_core.plugin import (
    ArtifactStore,
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
    """A model without weights that repeats the last line of its prompt, and finds short texts probable."""

    id = "fake:echo"
    context = 100_000

    @property
    def digest(self) -> str:
        """The same for every EchoModel: they all answer alike."""
        return digest({"fake": self.id})

    def state(self) -> Mapping[str, object]:
        """Nothing can change."""
        return {}

    def generate(self, requests: Sequence[Generate]) -> list[Generated | Exception]:
        """The last line of each prompt."""
        return [cut(f" {request.prompt.splitlines()[-1]}", request) for request in requests]

    def score(self, requests: Sequence[Score]) -> list[Scored | Exception]:
        """What it ``likes``; a token is a word."""
        return [
            Scored(
                logprobs=tuple(self.likes(prompt, text) for prompt, text in request.pairs),
                tokens=tuple(max(1, len(text.split())) for text in request.continuations),
            )
            for request in requests
        ]

    def likes(self, prompt: str, text: str) -> float:
        """The log-probability of ``text`` behind ``prompt``: minus the number of its characters."""
        del prompt
        return -float(len(text))


class ChecksumModel(EchoModel):
    """Repeats the last line of its prompt with a checksum of the whole behind it: no fact that it was shown is lost."""

    id = "fake:telling"

    def generate(self, requests: Sequence[Generate]) -> list[Generated | Exception]:
        """Of the last line of each prompt what fits, and the prompt's checksum, joined to the last word."""
        return [cut(f"{_begun(one)}#{zlib.crc32(one.prompt.encode()):08x}", one) for one in requests]

    def likes(self, prompt: str, text: str) -> float:
        """As an echo does, but for a part that rests on the prompt."""
        return super().likes(prompt, text) - zlib.crc32(prompt.encode()) / 2**32


def _begun(request: Generate) -> str:
    words = f" {request.prompt.splitlines()[-1]}".split(" ")
    return " ".join(words[: request.max_tokens])


class ScriptedModel(EchoModel):
    """Says what it is told to say, in order or by a function of the prompt; remembers every request.

    A script item that is an exception is returned in place of a text. Running past the script's end is a
    test's mistake and raises. ``likes`` gives the log-probability of a continuation behind a prompt; without it, the
    shorter one is the likelier.
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
        self._likes = likes or super().likes
        self.requests: list[Generate] = []
        self.scored: list[Score] = []

    @property
    def prompts(self) -> list[str]:
        """Every prompt so far, in order."""
        return [request.prompt for request in self.requests]

    def generate(self, requests: Sequence[Generate]) -> list[Generated | Exception]:
        """The next items of the script, cut at stop strings as a real model's would be."""
        return [self._one(request) for request in requests]

    def score(self, requests: Sequence[Score]) -> list[Scored | Exception]:
        """As an echo does, and remembered."""
        self.scored += requests
        return super().score(requests)

    def likes(self, prompt: str, text: str) -> float:
        """What it was told to like."""
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
    """``text`` as a model would have written it: up to the earliest stop string, at most ``max_tokens`` words."""
    ends = [at for at in (text.find(stop) for stop in request.stop) if at >= 0]
    finish: Literal["stop", "eos", "length"] = "stop" if ends else "eos"
    text = text[: min(ends)] if ends else text
    words = text.split(" ")
    if len(words) > request.max_tokens:
        text, finish = " ".join(words[: request.max_tokens]), "length"
    return Generated(text=text, finish=finish, prompt_tokens=len(request.prompt.split()), tokens=len(text.split()))


class WordEncoder:
    """Vectors of hashed words: texts that share words are near. Deterministic in every process."""

    def __init__(self, dimension: int = 256) -> None:
        self.dimension = dimension

    @property
    def id(self) -> str:
        """Names the dimension."""
        return f"fake:words-{self.dimension}"

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors, float32 [n, dimension]."""
        import numpy as np

        vectors = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for row, text in enumerate(texts):
            for word in text.lower().split():
                vectors[row, zlib.crc32(word.strip(".,?!\"'").encode()) % self.dimension] += 1
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        unit: NDArray[np.float32] = vectors / np.maximum(norms, 1e-12)
        return unit


class SilentProgress:
    """Progress that nobody watches."""

    def track(self, items: Iterable[T], label: str, total: int | None = None) -> Iterable[T]:
        """Just the items."""
        del label, total
        return items

    def advance(self, label: str, done: int, total: int | None = None) -> None:
        """Nothing."""


def make_session(
    model: LanguageModel,
    *,
    material: Mapping[str, Material] | None = None,
    encoder: Encoder | None = None,
    seed: int = 0,
    root: Path | None = None,
) -> Session[Any]:
    """A session around ``model`` with the real engine, no completion cache, and artifacts under ``root``."""
    from ke_core.app import BatchingEngine

    words = encoder or WordEncoder()
    return Session(
        model=model,
        engine=BatchingEngine(model, seed=seed),
        encoder=lambda _name: words,
        artifacts=ArtifactStore(root or Path(mkdtemp(prefix="ke-artifacts-"))),
        progress=SilentProgress(),
        seed=seed,
        material=material or {},
    )
