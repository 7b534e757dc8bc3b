"""Convert replies of the edited model to OpenAI's responses."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from typing import Any, Literal
from uuid import uuid4

from attrs import asdict

from ke_core.app import errors
from ke_core.plugin import Answer, Failure, Reply
from ke_plugin_serve.rendering import WHOLE, CompletionRequest
from ke_plugin_serve.wire import BadRequest

Kind = Literal["chat.completion", "text_completion"]
DONE = b"data: [DONE]\n\n"
AGAIN = 20  # seconds in the header Retry-After


def response(kind: Kind, request: CompletionRequest, replies: Sequence[Reply], model: str) -> dict[str, Any]:
    """Return the body of a response. Raises BadRequest if a reply is not an answer.

    The additional field ``ke`` holds the outcome of each answer and the ids of its retrieved edits. ``usage`` sums all
    model calls of the editor.
    """
    answers = [_answer(reply) for reply in replies]
    prompt_tokens = sum(answer.cost.prompt_tokens for answer in answers)
    tokens = sum(answer.cost.tokens for answer in answers)
    return {
        "id": f"{'chatcmpl' if kind == 'chat.completion' else 'cmpl'}-{uuid4().hex}",
        "object": kind,
        "created": int(time.time()),
        "model": model,
        "choices": [_choice(kind, place, answer) for place, answer in enumerate(answers)],
        "usage": {"prompt_tokens": prompt_tokens, "completion_tokens": tokens, "total_tokens": prompt_tokens + tokens},
        "ke": {
            "answers": [
                {
                    "outcome": answer.outcome,
                    "calls": answer.cost.calls,
                    "steps": [asdict(step) for step in answer.steps],
                }
                for answer in answers
            ],
            "not_used": list(request.unused),
        },
    }


def events(body: dict[str, Any], *, usage: bool) -> Iterator[bytes]:
    """Return the response as server-sent events, with the complete answer in one event."""
    chat = body["object"] == "chat.completion"
    head = {name: body[name] for name in ("id", "created", "model")}
    head["object"] = "chat.completion.chunk" if chat else "text_completion"
    for choice in body["choices"]:
        if chat:
            first = {"index": choice["index"], "delta": choice["message"], "finish_reason": None, "logprobs": None}
            last = {"index": choice["index"], "delta": {}, "finish_reason": choice["finish_reason"], "logprobs": None}
            yield _event({**head, "choices": [first]})
            yield _event({**head, "choices": [last], "ke": body["ke"]})
        else:
            yield _event({**head, "choices": [choice], "ke": body["ke"]})
    if usage:
        yield _event({**head, "choices": [], "usage": body["usage"]})
    yield DONE


def _event(body: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(body, ensure_ascii=False)}\n\n".encode()


def _choice(kind: Kind, place: int, answer: Answer) -> dict[str, Any]:
    reason = "length" if answer.cut or answer.outcome == "length" else "stop"
    about = {"index": place, "finish_reason": reason, "logprobs": None}
    if kind == "chat.completion":
        return {**about, "message": {"role": "assistant", "content": answer.text, "refusal": None}}
    # a completion continues the prompt, with its spaces, unless the editor has extracted an answer from it
    return {**about, "text": answer.raw if answer.text == WHOLE(answer.raw)[0] else answer.text}


def _answer(reply: Reply) -> Answer:
    if isinstance(reply, Answer):
        return reply
    if not isinstance(reply, Failure):
        raise BadRequest("the editor returned log-probabilities instead of text", status=500, kind="server_error")
    if reply.error == errors.ContextOverflow.__name__:
        raise BadRequest(reply.message, code="context_length_exceeded")
    if reply.error == errors.ContentRefused.__name__:
        raise BadRequest(reply.message, code="content_filter")
    known = getattr(errors, reply.error, None)
    is_ke_error = isinstance(known, type) and issubclass(known, errors.KEError)  # other messages may reveal too much
    message = f"the model gave no answer: {reply.error}" + (f": {reply.message}" if is_ke_error else "")
    if reply.error == errors.ServerDown.__name__:
        raise BadRequest(message, status=503, kind="server_error", code="server_busy", retry_after=AGAIN)
    raise BadRequest(message, status=502, kind="server_error", code="no_answer")
