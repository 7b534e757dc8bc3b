"""Check requests of OpenAI's API and convert them to questions to the edited model.

``/v1/chat/completions``: the question is the last message, which must be the user's. Earlier messages are context:
they come first in the prompt, but a memory is searched with the question only. An editor with its own prompts
(``mello``) gets only the question.

``/v1/completions``: the question is the unchanged prompt.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

from attrs import frozen

from ke_core.plugin import Decoding, EditorSpec, Form, Parse, Prompt, Question, digest
from ke_plugin_serve.lengths import DefaultLength
from ke_plugin_serve.wire import BadRequest, flag, listed, number, refuse, text, whole, words

MESSAGES, PROMPTS, STOPS, STOP_LENGTH = 256, 64, 4, 200
ROLES: Mapping[str, str] = {"system": "", "developer": "", "user": "User: ", "assistant": "Assistant: "}
USER, ASSISTANT = ROLES["user"], ROLES["assistant"]
WHOLE = Parse(until="")
NEUTRAL: Mapping[str, tuple[Any, ...]] = {
    "n": (1,), "best_of": (1,), "echo": (False,), "suffix": ("",), "top_p": (1, 1.0),
    "logprobs": (False,), "top_logprobs": (0,), "logit_bias": ({},), "presence_penalty": (0, 0.0),
    "frequency_penalty": (0, 0.0), "tools": ([],), "functions": ([],), "tool_choice": ("none", "auto"),
    "function_call": ("none", "auto"), "response_format": ({"type": "text"},), "modalities": (["text"],),
    "audio": (), "prediction": (), "web_search_options": (), "reasoning_effort": ("none",),
    "min_p": (0, 0.0), "repetition_penalty": (1, 1.0), "length_penalty": (1, 1.0), "min_tokens": (0,),
    "ignore_eos": (False,), "use_beam_search": (False,), "stop_token_ids": ([],), "bad_words": ([],),
    "guided_json": (), "guided_regex": (), "guided_choice": (), "guided_grammar": (), "structured_outputs": (),
}  # fmt: skip
"""Unsupported fields that would change the answer, with their neutral values besides null."""
LENGTH, DECODING = ("max_tokens", "max_completion_tokens"), ("temperature", "top_k", "stop", "seed")


@frozen(kw_only=True)
class ChatFormat:
    """How the server prompts the model.

    ``turns``: the model wraps a prompt as a chat turn. ``ignored``: fields that the editor ignores. ``max_tokens``: the
    largest number of tokens of an answer. ``default_tokens``: the number if the client sets none.
    """

    model: str
    turns: bool
    ignored: tuple[str, ...]
    max_tokens: int
    default_tokens: int


@frozen(kw_only=True)
class CompletionRequest:
    """A request. ``unused``: decoding fields that the editor ignores."""

    questions: tuple[Question, ...]
    stream: bool
    usage: bool
    unused: tuple[str, ...] = ()


def served_name(reference: str) -> str:
    """Return the name of the model for clients: the value of ``--model`` without ``hf:``, or the name of the folder."""
    name = reference.removeprefix("hf:")
    folder = Path(name).expanduser()
    return folder.resolve().name if folder.is_dir() else name


def ignored_fields(spec: EditorSpec) -> tuple[str, ...]:
    """Return the fields that an editor with its own prompts and decoding ignores."""
    if not spec.own_prompt:
        return ()
    return DECODING if spec.asked_length else (*LENGTH, *DECODING)


def chat(raw: Mapping[str, Any], settings: ChatFormat) -> CompletionRequest:
    """Convert a request to ``/v1/chat/completions``. Raises BadRequest."""
    turns = _turns(listed(raw.get("messages"), "messages", MESSAGES))
    if turns[-1][0] != "user":
        refuse("messages", f"must end with the user's question, not with a message of the {turns[-1][0]}")
    question = turns[-1][1]
    alone = settings.turns and len(turns) == 1
    lines = [f"{ROLES[role]}{content}" for role, content in turns]
    prompt = question if alone else "\n".join([*lines, ASSISTANT.rstrip()])
    return _request(
        raw, settings, [(question, prompt)], form="question", stops=() if alone else (f"\n{USER.rstrip()}",)
    )


def plain(raw: Mapping[str, Any], settings: ChatFormat) -> CompletionRequest:
    """Convert a request to ``/v1/completions``. Raises BadRequest."""
    given = raw.get("prompt")
    several = listed(given, "prompt", PROMPTS) if isinstance(given, list) else [given]
    if any(isinstance(one, int | list) for one in several):
        refuse("prompt", "must be a text or texts: token ids mean nothing to an editor", code="invalid_type")
    rendered = [(one, one) for one in (text(one, "prompt") for one in several)]
    return _request(raw, settings, rendered, form="cloze", stops=())


def _request(
    raw: Mapping[str, Any],
    settings: ChatFormat,
    rendered: Sequence[tuple[str, str]],
    *,
    form: Form,
    stops: tuple[str, ...],
) -> CompletionRequest:
    """Convert the fields of both kinds of requests. ``rendered``: pairs of a question and its prompt."""
    check_model(raw.get("model"), settings.model)
    for name, harmless in NEUTRAL.items():
        value = raw.get(name)
        if value is not None and not any(value == one and type(value) is type(one) for one in harmless):
            refuse(name, "is not supported here: leave it out", code="unsupported_parameter")
    decoding = Decoding(
        max_tokens=_tokens(raw, settings),
        stop=(*_stops(raw), *stops),
        temperature=number(raw, "temperature", 0, 2) or 0.0,
        top_k=max(0, whole(raw, "top_k", -1, 2**31 - 1) or 0),  # some say -1 for "all", some 0
    )
    seed = whole(raw, "seed", -(2**63), 2**63 - 1)
    seeded = seed is not None and decoding.temperature > 0  # greedy answers need no seed, and equal ids take turns
    stream, options = flag(raw, "stream"), raw.get("stream_options") or {}
    if not isinstance(options, dict):
        refuse("stream_options", "must be an object", code="invalid_type")
    kind = Question if any(raw.get(name) is not None for name in LENGTH) else DefaultLength
    questions = tuple(
        kind(
            id=f"{f'seed {seed}/{digest([prompt])}' if seeded else uuid4().hex}/{number_}",
            case="serve",
            query="",
            texts=(question,),
            form=form,
            prompt=Prompt(text=prompt, decoding=decoding, parse=WHOLE),
        )
        for number_, (question, prompt) in enumerate(rendered)
    )
    unused = tuple(name for name in settings.ignored if raw.get(name) is not None)
    return CompletionRequest(questions=questions, stream=stream, usage=flag(options, "include_usage"), unused=unused)


def _turns(messages: Sequence[object]) -> list[tuple[str, str]]:
    """Return role and text of each message. The last one must have a text. Earlier blank messages, such as an empty
    system prompt or a tool call, are omitted.
    """
    *context, last = [_turn(message, f"messages[{place}]") for place, message in enumerate(messages)]
    question = text(last[1], f"messages[{len(context)}].content")
    turns = [(role, content) for role, content in context if content is not None and content.strip()]
    return [*turns, (last[0], question)]


def _turn(message: object, where: str) -> tuple[str, str | None]:
    """Return role and text of a message, or of its text parts. The text may be null."""
    if not isinstance(message, dict):
        refuse(where, "must be an object", code="invalid_type")
    role, content = message.get("role"), message.get("content")
    if not isinstance(role, str) or role not in ROLES:
        refuse(f"{where}.role", f"must be one of {', '.join(ROLES)}")
    if isinstance(content, list):
        content = "\n".join(_parts(content, f"{where}.content"))
    return role, None if content is None else words(content, f"{where}.content")


def _parts(content: list[Any], where: str) -> list[str]:
    """Return the texts of a message's parts, without blank ones."""
    parts = listed(content, where, MESSAGES) if content else []
    if any(not isinstance(part, dict) or part.get("type") != "text" for part in parts):
        refuse(where, "has parts that are not text", code="unsupported_parameter")
    texts = [words(part.get("text"), where) for part in parts]
    return [one for one in texts if one.strip()]


def check_model(given: object, served: str) -> None:
    """Raise BadRequest if a request names another model than the served one."""
    if given is None:
        return
    if text(given, "model") != served:
        raise BadRequest(
            f"no model {given!s:.80} here: {served} is served", status=404, param="model", code="model_not_found"
        )


def _tokens(raw: Mapping[str, Any], settings: ChatFormat) -> int:
    """Return the token limit from either spelling. A limit above the server's is an error."""
    named = [whole(raw, name, 1, settings.max_tokens) for name in ("max_completion_tokens", "max_tokens")]
    return next((limit for limit in named if limit is not None), min(settings.default_tokens, settings.max_tokens))


def _stops(raw: Mapping[str, Any]) -> tuple[str, ...]:
    given = raw.get("stop")
    if given is None or given == []:
        return ()
    stops = tuple(listed(given if isinstance(given, list) else [given], "stop", STOPS))
    for stop in stops:
        if not isinstance(stop, str) or not 0 < len(stop) <= STOP_LENGTH:
            refuse("stop", f"must be texts of 1 to {STOP_LENGTH} characters")
    return stops
