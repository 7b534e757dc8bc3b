"""Load an edit into a running server as a LoRA adapter, check it there, and unload it if the check fails.

::

    server = open_server(url, name, how, catalog, progress)   # before anything is computed
    pushed = push_adapter(server, folder, suite, wanted)      # loads, asks, unloads after a failure

The server answers as the base model and, with the adapter, as another model ``name``. The check asks the base model,
loads the adapter, asks both models, and fails if

* a bound is missed (by default: a fact is not answered with the new object),
* all edited facts are answered as by the base model: some servers ignore an adapter without an error,
* the base model now gives an answer of the edited one, which it did not give before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from attrs import evolve, frozen

from ke_core.app import Catalog, count_noun, open_model, open_session
from ke_core.plugin import KEError, LanguageModel, ModelRequest, ModelUnavailable, Progress, Session, loads
from ke_weights.completions import Completion, complete_prompts
from ke_weights.patches.adapter import CONFIG
from ke_weights.verify import Bound, Check, Verification, compare_answers, suite_prompts

API = "/v1"
EFFICACY = Bound(metric="efficacy", value=1.0, least=True)
"""The default bound: the server answers every edited fact with the new object."""


class Adapters(Protocol):
    """What a server can do with adapters: ``ke_plugin_openai.adapters`` describes it."""

    def base_model(self, name: str) -> str:
        """Return the served base model, if an adapter called ``name`` can be added."""

    def load(self, name: str, folder: Path, rank: int) -> None:
        """Load the adapter in ``folder``."""

    def unload(self, name: str) -> None:
        """Unload the adapter ``name``."""


@runtime_checkable
class ServesAdapters(LanguageModel, Protocol):
    """A model behind a server that loads adapters."""

    @property
    def adapters(self) -> Adapters:
        """The adapters of the server."""


@frozen(kw_only=True)
class Server:
    """A server that can load an adapter as the model ``name``, and sessions with its two models."""

    url: str
    name: str
    base_name: str
    adapters: Adapters
    base: Session[Any]
    edited: Session[Any]


@frozen(kw_only=True)
class Pushed:
    """The answers of the server, and why the check failed (``reasons``; empty if it passed).

    ``kept_answers``: answers of the base model that are the same before and after loading.
    ``stuck``: why the adapter could not be unloaded after a failed check.
    """

    server: Server
    rank: int
    verification: Verification
    wanted: tuple[Bound, ...]
    kept_answers: int
    reasons: tuple[str, ...]
    stuck: str


def open_server(url: str, name: str, how: ModelRequest, catalog: Catalog, progress: Progress) -> Server:
    """Check that the server at ``url`` can load an adapter called ``name``. Changes nothing.

    ``how``: options of the client. Raises KEErrors: an unreachable server, one that cannot load adapters at run time,
    a name in use.
    """
    address = url.rstrip("/")
    address = address if address.endswith(API) else address + API
    client = ModelRequest(
        id="", base_url=address, chat=how.chat, concurrency=how.concurrency, timeout=how.timeout,
        api_key_env=how.api_key_env,
    )  # fmt: skip
    edited = open_model(f"openai:{name}", client, catalog=catalog)
    if not isinstance(edited, ServesAdapters):
        raise ModelUnavailable(
            "the installed ke-plugin-openai cannot load adapters", hint="pip install -U ke-plugin-openai"
        )
    base_name = edited.adapters.base_model(name)
    base = open_model(f"openai:{base_name}", client, catalog=catalog)
    opened = [
        open_session(model, catalog=catalog, seed=0, progress=progress, material={}, remember=False)
        for model in (base, edited)
    ]
    return Server(
        url=address, name=name, base_name=base_name, adapters=edited.adapters, base=opened[0], edited=opened[1]
    )


def push_adapter(server: Server, folder: Path, suite: Sequence[Check], wanted: Sequence[Bound]) -> Pushed:
    """Load the adapter in ``folder``, ask the facts of ``suite``, and unload it if the check fails or is interrupted.

    Raises BadConfig if the rank is above the server's limit, ServerFailed if the server refuses the adapter, and
    EditFailed if a request fails.
    """
    rank = int(loads((folder / CONFIG).read_text(encoding="utf-8"))["r"])
    # Only texts are requested: with LoRA, vLLM 0.32 for CPUs dies from a request for log-probabilities of a prompt.
    prompts = [evolve(one, objects=()) for one in suite_prompts(suite)]
    before = complete_prompts(server.base, prompts)
    server.adapters.load(server.name, folder.resolve(), rank)
    try:
        after = complete_prompts(server.edited, prompts)
        again = complete_prompts(server.base, prompts)
        found = compare_answers(before, after, suite, wanted)
    except BaseException as error:
        _report(error, _unload(server))
        raise
    reasons = (*_missed(found), *_ignored(found), *_leaked(before, after, again))
    kept = sum(again[name].text == before[name].text for name in before)
    stuck = _unload(server) if reasons else ""
    return Pushed(
        server=server, rank=rank, verification=found, wanted=tuple(wanted), kept_answers=kept, reasons=reasons,
        stuck=stuck,
    )  # fmt: skip


def _unload(server: Server) -> str:
    """Unload the adapter. Return why that failed, or an empty text."""
    try:
        server.adapters.unload(server.name)
    except KEError as error:
        return f"{server.name} could not be unloaded and is still served: {error.message}"
    return ""


def _report(error: BaseException, stuck: str) -> None:
    """Add why the adapter is still loaded to the message of ``error``."""
    if stuck and isinstance(error, KEError):
        error.details += (stuck,)
    elif stuck:
        error.add_note(stuck)


def _missed(found: Verification) -> list[str]:
    return [
        f"{bound.metric} is {value:.3f}, and must be at {'least' if bound.least else 'most'} {bound.value:g}"
        for bound, value in found.missed
    ]


def _ignored(found: Verification) -> list[str]:
    """Detect an adapter without effect."""
    changed = [one for one in found.checked if one.check.kind == "changed"]
    if not changed or any(one.after.text != one.before.text for one in changed):
        return []
    facts = count_noun(len(changed), "edited fact")
    return [f"the answers to all {facts} equal those of the base model: the server ignores the adapter"]


def _leaked(
    before: Mapping[str, Completion], after: Mapping[str, Completion], again: Mapping[str, Completion]
) -> list[str]:
    """Detect an adapter that the server also uses for the base model."""
    leaked = [name for name in before if again[name].text == after[name].text != before[name].text]
    if not leaked:
        return []
    return [f"the base model itself now answers {count_noun(len(leaked), 'prompt')} as the edited model does"]
