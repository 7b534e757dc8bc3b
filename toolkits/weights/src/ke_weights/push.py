"""Load an edit into a running server as a LoRA adapter, check it there, and unload it if the check fails.

::

    server = open_server(url, name, how, catalog, progress)   # before anything is computed
    pushed = push_adapter(server, folder, suite, wanted)      # loads, asks, unloads after a failure

The server answers as the base model and, with the adapter, as another model ``name``. The check asks the base model,
loads the adapter, asks both models, and fails if

* a bound is missed (by default: a fact is not answered with the new object),
* all edited facts are answered as by the base model: some servers ignore an adapter without an error,
* a fact, asked several times at once, is answered with and without the edit: a data-parallel rank has no adapter,
* the base model now gives an answer of the edited one, which it did not give before.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from attrs import evolve, frozen

from ke_core.app import Catalog, count_noun, open_model, open_session
from ke_core.plugin import (
    EditFailed,
    Generate,
    KEError,
    LanguageModel,
    ModelRequest,
    ModelUnavailable,
    Progress,
    ServerFailed,
    ServerRefused,
    Session,
    loads,
)
from ke_weights.bounds import Bound
from ke_weights.completions import Completion, PromptWithObjects, complete_prompts, greedy_request
from ke_weights.patches.adapter import CONFIG
from ke_weights.suites import Check
from ke_weights.verify import Verification, compare_answers, suite_prompts

API = "/v1"
NOT_FOUND = 404
EFFICACY = Bound(metric="efficacy", value=1.0, least=True)
"""The default bound: the server answers every edited fact with the new object."""
REPEATED = 32
"""Concurrent requests that repeat edited facts, so that each data-parallel rank of the server gets some. Also the
largest number of facts that are repeated."""
WITHOUT = "start vLLM with --data-parallel-size 1, or one server per rank, each with its own ke"


class Adapters(Protocol):
    """What a server can do with adapters: ``ke_plugin_openai.adapters`` describes it."""

    def names(self) -> Sequence[str]:
        """Return the names of all models that the server lists."""

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
        id="", base_url=address, chat=how.chat, concurrency=max(how.concurrency or 0, REPEATED), timeout=how.timeout,
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


def push_adapter(
    server: Server,
    folder: Path,
    suite: Sequence[Check],
    wanted: Sequence[Bound],
    *,
    check_base: bool = True,
    base_answers: MutableMapping[Generate, Completion] | None = None,
) -> Pushed:
    """Load the adapter in ``folder``, ask the facts of ``suite``, and unload it if the check fails or is interrupted.

    ``check_base``: ask the base model again, to detect an adapter that the server also uses for it.
    ``base_answers``: answers of the base model that are not asked again; new ones are added.
    Raises BadConfig if the rank is above the server's limit, ServerFailed if the server refuses the adapter or loads it
    into some of its ranks only, and EditFailed if a request fails.
    """
    rank = int(loads((folder / CONFIG).read_text(encoding="utf-8"))["r"])
    # Only texts are requested: with LoRA, vLLM 0.32 for CPUs dies from a request for log-probabilities of a prompt.
    prompts = [evolve(one, objects=()) for one in suite_prompts(suite)]
    before = _base_answers(server, prompts, {} if base_answers is None else base_answers)
    try:
        server.adapters.load(server.name, folder.resolve(), rank)
        _require_every_rank(server, [one for one in prompts if one.id in _changed_ids(suite)], before)
        after = complete_prompts(server.edited, prompts)
        again = complete_prompts(server.base, prompts) if check_base else before
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


def _base_answers(
    server: Server, prompts: Sequence[PromptWithObjects], known: MutableMapping[Generate, Completion]
) -> Mapping[str, Completion]:
    """Return the completions of the base model by id. Only those that are not in ``known`` are requested."""
    requests = {one.id: greedy_request(one) for one in prompts}
    if new := [one for one in prompts if requests[one.id] not in known]:
        known.update({requests[name]: found for name, found in complete_prompts(server.base, new).items()})
    return {name: known[request] for name, request in requests.items()}


def _changed_ids(suite: Sequence[Check]) -> set[str]:
    return {one.id for one in suite if one.kind == "changed"}


def _require_every_rank(server: Server, changed: Sequence[PromptWithObjects], before: Mapping[str, Completion]) -> None:
    """Ask changed facts several times at once. Raises ServerFailed if some answers are made without the adapter.

    Facts that the base model answers with the new object show nothing, and are left out if there are others.
    Such an answer is that of the base model while another one to the same prompt has the new object, or an error that
    says that the adapter is unknown.
    """
    if not changed:
        return
    showing = [one for one in changed if not before[one.id].begins_with(one.expect)]  # only their answers can differ
    asked = (showing or [*changed])[:REPEATED]
    repeated = asked * max(2, -(-REPEATED // len(asked)))
    replies = server.edited.model.generate([greedy_request(one) for one in repeated])
    answers: dict[str, list[Completion | None]] = {one.id: [] for one in asked}
    for one, reply in zip(repeated, replies, strict=True):
        unknown = isinstance(reply, ServerRefused) and reply.status == NOT_FOUND
        if isinstance(reply, Exception) and not unknown:
            hint = getattr(reply, "hint", "") or "check the server's log, then run the command again"
            raise EditFailed(f"the model cannot complete the prompt of {one.id!r}: {reply}", hint=hint)
        answers[one.id].append(None if unknown else Completion(text=reply.text.strip()))
    if any(_some_without(answers[one.id], before[one.id], one.expect) for one in asked):
        raise ServerFailed(
            f"{server.url} made some of {len(repeated)} concurrent answers without the adapter {server.name}: "
            "a data-parallel rank of the server ignores it",
            hint=WITHOUT,
        )


def _some_without(answers: Sequence[Completion | None], before: Completion, expect: Sequence[str]) -> bool:
    """Return whether some answers to one prompt were made without the adapter. None: the server did not know it."""
    known = [one for one in answers if one is not None]
    edited = any(one.begins_with(expect) for one in known) and not before.begins_with(expect)
    return len(known) < len(answers) or (edited and any(one.text == before.text for one in known))


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
    """Detect an adapter without effect. Facts that the base model answers with the new object show none."""
    changed = [one for one in found.checked if one.check.kind == "changed" and not one.passed_before]
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
