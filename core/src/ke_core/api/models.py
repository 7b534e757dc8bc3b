"""Load models, and ask them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, cached_property
from itertools import count
from threading import Lock
from typing import Any, TypeVar, cast, overload
from weakref import WeakKeyDictionary

from attrs import define, evolve, field, frozen

from ke_core.api.tables import Table
from ke_core.cli.console import err, progress
from ke_core.engine.models import DEFAULT_LOADING, DEFAULT_SOURCE, known_models
from ke_core.engine.passthrough import PassthroughModel
from ke_core.plugins.catalog import Catalog, read_catalog
from ke_core.plugins.manager import Plugins, discover
from ke_core.runner.session import ModelChoice, open_session
from ke_core.spec.errors import BadConfig, EditFailed, ModelUnavailable
from ke_core.spec.facts import continued
from ke_core.spec.prompts import Decoding, Parse, Prompt
from ke_core.spec.protocols import Edited, LanguageModel, Material, Progress, Session
from ke_core.spec.queries import Form
from ke_core.spec.requests import Likelihood, Question
from ke_core.spec.results import Failure

OneOrMany = TypeVar("OneOrMany", str, list[str])
LINE = ("\n",)
SHORT = Decoding(max_tokens=16, stop=LINE)
_ids = count()
_locks: WeakKeyDictionary[object, Lock] = WeakKeyDictionary()


class Answers(ABC):
    """What an edited or unedited model can be asked."""

    @abstractmethod
    def _answering(self) -> Edited:
        """Return what answers requests."""

    def generate(self, prompt: OneOrMany, *, max_tokens: int = 16, stop: Sequence[str] = LINE) -> OneOrMany:
        """Return the text with which the model continues ``prompt``, decoded greedily. Raises EditFailed.

        A list of prompts is continued in batches, and gives a list.

        >>> model.generate("The capital of France is")
        'Paris.'
        """
        return self._texts(prompt, "cloze", max_tokens, stop)

    def ask(self, question: OneOrMany, *, max_tokens: int = 16, stop: Sequence[str] = LINE) -> OneOrMany:
        """Return the answer to ``question``, decoded greedily after "Q: ... A:". Raises EditFailed.

        A memory editor answers with its own prompt. A list of questions gives a list of answers.

        >>> model.ask("What is the capital of Peru?")
        'Peru is a country in South America.'
        """
        return self._texts(question, "question", max_tokens, stop)

    def logprob(self, prompt: str, continuation: str) -> float:
        """Return the natural log-probability of ``continuation`` after ``prompt``, summed over its tokens.

        >>> round(model.logprob("The capital of France is", "Paris"), 2)
        -0.26
        """
        return self.logprobs(prompt, [continuation])[0]

    @overload
    def logprobs(self, prompt: str, continuations: Sequence[str]) -> list[float]: ...
    @overload
    def logprobs(self, prompt: list[str], continuations: Sequence[Sequence[str]]) -> list[list[float]]: ...
    def logprobs(
        self, prompt: str | list[str], continuations: Sequence[str] | Sequence[Sequence[str]]
    ) -> list[float] | list[list[float]]:
        """Return the natural log-probability of each of ``continuations`` after ``prompt``, summed over tokens.

        With a list of prompts, ``continuations`` has a list for each of them.
        """
        if isinstance(prompt, str):
            return self.logprobs([prompt], [cast("Sequence[str]", continuations)])[0]
        requests = [likelihood(*pair) for pair in zip(prompt, continuations, strict=True)]
        return [[float(value) for value in reply.logprobs] for reply in self.replies(requests)]

    def replies(self, requests: Sequence[Question | Likelihood]) -> list[Any]:
        """Return the replies to several requests, which are sent together. Raises EditFailed if one fails."""
        found = [*self._answering().answer(requests)]
        for reply in found:
            if isinstance(reply, Failure):
                raise EditFailed(f"no answer: {reply.message}")
        return found

    def _texts(self, given: OneOrMany, form: Form, max_tokens: int, stop: Sequence[str]) -> OneOrMany:
        if isinstance(given, str):
            return self._texts([given], form, max_tokens, stop)[0]
        decoding = Decoding(max_tokens=max_tokens, stop=(*stop,))
        return [str(reply.text).strip() for reply in self.replies([question(text, form, decoding) for text in given])]


def question(text: str, form: Form = "cloze", decoding: Decoding = SHORT) -> Question:
    """Return the request to continue ``text``, or to answer it if ``form`` is a question."""
    shown = Prompt(text=f"Q: {text}\nA:" if form == "question" else text, decoding=decoding, parse=Parse(until=""))
    return Question(id=f"api/{next(_ids)}", case="api", query="", texts=(text,), form=form, prompt=shown)


def likelihood(prompt: str, continuations: Sequence[str]) -> Likelihood:
    """Return the request for the log-probability of each continuation."""
    texts = tuple(continued(prompt, text) for text in continuations)
    return Likelihood(
        id=f"api/{next(_ids)}", case="api", texts=(prompt,), prompt=prompt, continuations=texts, form="cloze"
    )


@define
class CallProgress(Progress):
    """Progress that is displayed during calls of the API, and not between them."""

    _shown: Progress | None = None

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Display the progress of the block."""
        if self._shown is not None:  # inside another call
            yield
            return
        with progress(err(), after=1.0) as shown:  # a loop of fast calls prints nothing
            self._shown = shown
            try:
                yield
            finally:
                self._shown = None

    def advance(self, label: str, done: int, total: int | None = None) -> None:
        """Report that ``done`` of ``total`` steps of ``label`` are done."""
        if self._shown is not None:
            self._shown.advance(label, done, total)


@frozen(kw_only=True, slots=False, eq=False)
class Model(Answers):
    """A language model, and how it was loaded. It can be edited by one ``ke.edit`` or ``ke.evaluate`` at a time."""

    model: LanguageModel = field(repr=lambda model: model.id)
    choice: ModelChoice = field(repr=False)
    progress: CallProgress = field(factory=CallProgress, repr=False)

    @property
    def module(self) -> Any:
        """The transformers model. It is edited while an edit of a weight editor is active."""
        found = getattr(self.model, "module", None)
        if found is None:
            raise ModelUnavailable(f"{self.model.id} is behind a server: its module is not in this process")
        return found

    @classmethod
    def check(cls, given: object) -> None:
        """Raise BadConfig for anything else than a model, such as its name."""
        if not isinstance(given, cls):
            raise BadConfig(f"model is {given!r}, not a model in memory", hint=f"load it: ke.load({given!r})")

    def session(self, *, seed: int = 0, material: Mapping[str, Material] | None = None) -> Session[Any]:
        """Return the session that editors and judges get, for tests and experiments with plugin code."""
        return open_session(
            self.model, catalog=installed_catalog(), seed=seed, progress=self.progress, material=material or {}
        )

    @contextmanager
    def reserved(self) -> Iterator[None]:
        """Raise EditFailed if the model is edited already; otherwise reserve it for the block."""
        lock = _locks.setdefault(getattr(self.model, "module", self.model), Lock())
        if not lock.acquire(blocking=False):
            raise EditFailed(
                f"{self.model.id} is being edited already",
                hint="end that edit first, or add edits to it with edited.add(...)",
            )
        try:
            yield
        finally:
            lock.release()

    def _answering(self) -> Edited:
        getattr(self.model, "recheck", self.model.state)()  # the caller may have changed the weights
        return self._unedited

    @cached_property
    def _unedited(self) -> Edited:
        return PassthroughModel(self.session())


def load(
    name: str = "smollm2-135m", *, dtype: str = "float32", device: str = "", device_map: str = "",
    revision: str | None = None, chat: bool = False, trust_remote_code: bool = False,
) -> Model:  # fmt: skip
    """Load a model by its name, folder or hub id, as ``ke eval --model`` does.

    ``dtype``: float32, bfloat16, float16, or nf4 (4-bit, needs bitsandbytes). ``device``: cpu, cuda, mps and so on,
    automatic by default. ``device_map="auto"`` spreads a large model over devices. ``chat``: use the chat template.
    Raises ModelUnavailable.

    >>> model = ke.load("smollm2-135m")
    """
    how = {"dtype": dtype, "device": device, "device_map": device_map, "revision": revision, "chat": chat}
    return _loaded(name, **how, trust_remote_code=trust_remote_code)


def connect(
    url: str, model: str, *, concurrency: int | None = None, timeout: float = 120.0,
    api_key_env: str = "OPENAI_API_KEY", chat: bool = False,
) -> Model:  # fmt: skip
    """Use a model behind an OpenAI-compatible server.

    ``concurrency``: number of requests at once (default: 32 for vLLM and SGLang, else 8). ``timeout``: seconds for a
    request. ``api_key_env``: the environment variable that holds the key. ``chat``: use the chat endpoint. Needs
    ``ke-plugin-openai``.
    """
    how = {"base_url": url, "concurrency": concurrency, "timeout": timeout, "api_key_env": api_key_env, "chat": chat}
    return _loaded(f"openai:{model}", **how)


def _loaded(name: str, **how: Any) -> Model:
    choice = ModelChoice(reference=name, how=evolve(DEFAULT_LOADING, **how))
    with progress(err()) as shown:
        return Model(model=choice.load(installed_catalog(), shown), choice=choice)


def wrap(model: Any, tokenizer: Any, *, name: str = "", chat: bool = False) -> Model:
    """Use a transformers model that is already in memory. It is edited in place, and restored after each edit.

    ``name`` identifies it in run folders (default: the name or path that it was loaded from). Evaluation mode is set
    and gradients are disabled. Needs ``ke-plugin-hf``.
    """
    source: Any = installed_catalog().spec("model", DEFAULT_SOURCE)
    wrapped = source.wrap(model, tokenizer, name, chat)
    how = evolve(DEFAULT_LOADING, dtype=str(model.dtype).removeprefix("torch."), chat=chat)
    return Model(model=wrapped, choice=ModelChoice(reference=wrapped.id, how=how))


@cache
def plugins() -> Plugins:
    """Return the installed plugins and their hooks."""
    return discover()


@cache
def installed_catalog() -> Catalog:
    """Return the components of the installed plugins."""
    return read_catalog(plugins())


def _installed(kind: str) -> Table:
    registrations = installed_catalog().registrations[kind]
    return Table.of(
        {
            "name": name,
            "summary": registration.spec.summary,
            "distribution": registration.plugin.distribution,
            "cite": registration.spec.cite,
        }
        for name, registration in registrations.items()
    )


def editors() -> Table:
    """Return the installed editors.

    >>> "rome" in {row["name"] for row in ke.editors()}
    True
    """
    return _installed("editor")


def datasets() -> Table:
    """Return the installed datasets."""
    return _installed("dataset")


def metrics() -> Table:
    """Return the installed metrics."""
    return _installed("metric")


def judges() -> Table:
    """Return the installed judges."""
    return _installed("judge")


def models() -> Table:
    """Return the models that can be loaded by name. Others are loaded by folder or hub id."""
    return Table.of(
        {"name": name, "source": spec.name, "summary": known.summary}
        for name, (spec, known) in known_models(installed_catalog()).items()
    )
