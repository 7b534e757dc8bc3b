"""The two endpoints for continuing a text over HTTP, and how one of them returns log-probabilities.

``/completions`` continues the prompt, like a local model. ``/chat/completions`` answers a message: the prompt is in
one user turn after an instruction to write only the next part (``prompts/continue.txt``). The reply is converted to a
continuation: an echo of the prompt's end is removed, the missing space or line break is added, and stop strings are
applied here too. A server also finds stop strings in the echo, which may cut off everything else.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from itertools import accumulate
from typing import Any, Literal

from ke_core.plugin import (
    ContentRefused,
    Generate,
    Generated,
    NoLikelihood,
    ServerRefused,
    continuation,
    cut_at_stops,
    cut_in_echo,
)
from ke_plugin_openai.faults import CHARGED, NOT_FOUND, Clean, Transient, answer_message, whole

COMPLETIONS, CHAT = "/completions", "/chat/completions"
STOPS = 4  # the public API accepts no more; the others are applied here only
SEEDS = 2**31  # servers store a seed in 32 or 64 bits; ours are unsigned 64-bit
BROKEN_OFF = ("abort", "error", "insufficient_system_resource")
"""Finish reasons that mean an error: of vLLM and SGLang, of OpenRouter and Mistral, of DeepSeek."""


OTHER_FORMS = ("content", "response", "generated_text")
"""Text fields of other endpoints: those of llama.cpp, Ollama and TGI without /v1."""


def instruction() -> str:
    """The text before the prompt in a chat's user turn."""
    return (files("ke_plugin_openai") / "prompts/continue.txt").read_text(encoding="utf-8")


class EchoCut(Exception):
    """A stop string ended a chat's message inside an echo of the prompt: repeat the request without stop strings."""

    def __init__(self, prompt_tokens: int, tokens: int) -> None:
        super().__init__()
        self.prompt_tokens, self.tokens = prompt_tokens, tokens


def body(request: Generate, *, chat: bool, limit: str = "max_tokens", stops: bool = True) -> dict[str, Any]:
    """Return the JSON body for ``request``, without the model. ``limit``: the server's name of ``max_tokens``.

    ``top_k`` is not part of OpenAI's API: it is sent only if it matters, and a server without it rejects the request.
    """
    fields: dict[str, Any] = {limit: request.max_tokens, "temperature": request.temperature, "stream": False}
    if stops and (named := [stop for stop in request.stop if stop][:STOPS]):
        fields["stop"] = named
    if request.temperature > 0:
        fields |= {"seed": request.seed % SEEDS} if request.seed is not None else {}
        fields |= {"top_k": request.top_k} if request.top_k else {}
    if chat:
        return fields | {"messages": [{"role": "user", "content": instruction() + request.prompt}]}
    return fields | {"prompt": request.prompt}


def read(
    raw: Mapping[str, Any], request: Generate, *, chat: bool, clean: Clean = whole, stops: bool = True
) -> Generated:
    """Return the continuation in an answer, processed by ``clean``. ``stops``: whether stop strings were sent.

    Raises Transient for missing parts, ContentRefused, EchoCut.
    """
    choice = _choice(raw, clean)
    text = _message(choice, clean) if chat else choice.get("text")
    if choice.get("finish_reason") == "content_filter":
        raise ContentRefused("the server's content filter withheld the answer", charged=True)
    if not isinstance(text, str):
        raise Transient("the server's answer contains no text", tries=CHARGED)
    text, usage = clean(text), raw.get("usage")
    prompt_tokens, tokens = (count(usage, name) for name in ("prompt_tokens", "completion_tokens"))
    if chat and stops and _cut_in_echo(choice, text, request):
        raise EchoCut(prompt_tokens, tokens)
    if chat:
        written, stopped = continuation(text, request, ended=choice.get("finish_reason") != "length")
    else:
        written, stopped = cut_at_stops(text.removeprefix(request.prompt), request.stop)
    return Generated(
        text=written,
        finish=_finish(choice, request, tokens, stopped=stopped),
        prompt_tokens=prompt_tokens,
        tokens=tokens,
    )


def score_body(prompt: str, continuation: str) -> dict[str, Any]:
    """Return the body that echoes the whole text with log-probabilities. It requests one more token, because some
    servers read 0 as "no limit".
    """
    return {"prompt": prompt + continuation, "max_tokens": 1, "temperature": 0, "echo": True, "logprobs": 1,
            "stream": False}  # fmt: skip


def read_score(
    raw: Mapping[str, Any], prompt: str, continuation: str, *, clean: Clean = whole
) -> tuple[float, int, int | None]:
    """Return the natural log-probability of ``continuation``, summed over its tokens, their number, and how many of
    them are the most probable one (None if the server does not return that for each of them).

    The text is searched in the concatenated tokens of the server, because servers count offsets differently. Raises
    NoLikelihood if they are missing or do not match, Transient for an incomplete answer.
    """
    choice = _choice(raw, clean)
    logged = choice.get("logprobs")
    given: Mapping[str, Any] = logged if isinstance(logged, dict) else {}
    tokens, logprobs = given.get("tokens"), given.get("token_logprobs")
    if not (isinstance(tokens, list) and isinstance(logprobs, list) and all(isinstance(one, str) for one in tokens)):
        raise NoLikelihood("the server returns no log-probabilities: it ignores 'logprobs'", hint=ELSEWHERE)
    if len(tokens) != len(logprobs):
        raise NoLikelihood("the server returns different numbers of tokens and log-probabilities", hint=ELSEWHERE)
    begin, end = _span("".join(tokens), choice.get("text"), prompt, continuation)
    starts = list(accumulate(map(len, tokens), initial=0))
    inside = [n for n, start in enumerate(starts[:-1]) if begin <= start < end]
    if not inside or starts[inside[0]] != begin or starts[inside[-1] + 1] != end:
        raise NoLikelihood("a token of the server crosses the end of the prompt or of the continuation", hint=ELSEWHERE)
    found = [logprobs[n] for n in inside]
    if not all(isinstance(one, int | float) for one in found):
        raise NoLikelihood("the server returns no log-probability for the first token of a text", hint=ELSEWHERE)
    tops = given.get("top_logprobs")
    if not isinstance(tops, list) or len(tops) != len(tokens):
        tops = [None] * len(tokens)
    matches = [_is_top(logprobs[n], tops[n]) for n in inside]
    return float(sum(found)), len(found), None if None in matches else matches.count(True)


def _is_top(logprob: float, top: object) -> bool | None:
    """Return whether no token is more probable than ``logprob``. ``top``: the most probable token and its value.

    Values are compared, not texts: several tokens may have the same text (parts of a character).
    """
    values = top.values() if isinstance(top, dict) else ()
    known = [one for one in values if isinstance(one, int | float)]
    return logprob >= max(known) if known else None


def _span(joined: str, text: object, prompt: str, continuation: str) -> tuple[int, int]:
    """Return the start and end of the continuation in the concatenated tokens. Raises NoLikelihood.

    The answer's text also shows whether the prompt was echoed, because tokens may spell non-ASCII characters
    differently (half of one is U+FFFD or empty for some servers, or letters of the vocabulary). Then the start is where
    the continuation is spelled, before the generated part, or otherwise after the prompt.
    """
    whole_ = prompt + continuation
    if (at := joined.find(whole_)) >= 0:
        return at + len(prompt), at + len(whole_)
    if not isinstance(text, str) or not text.startswith(whole_):
        raise NoLikelihood("the server returns no log-probabilities of the prompt: it ignores 'echo'", hint=ELSEWHERE)
    generated = text.removeprefix(whole_)
    end = len(joined) - len(generated)
    if joined.endswith(continuation + generated):
        return end - len(continuation), end
    if joined.endswith(generated) and (at := joined.find(prompt)) >= 0:
        return at + len(prompt), end
    raise NoLikelihood("the server's tokens do not spell the text to be scored", hint=ELSEWHERE)


ELSEWHERE = (
    "use metrics without log-probabilities, or a server whose /completions supports 'echo' with 'logprobs', such "
    "as vLLM; a local model (hf:...) has them"
)


def _choice(raw: Mapping[str, Any], clean: Clean) -> Mapping[str, Any]:
    """Return the first choice. Raises Transient if it is missing or the server aborted it, ServerRefused."""
    choices = raw.get("choices")
    if choices is None and any(isinstance(raw.get(name), str) for name in OTHER_FORMS):
        raise ServerRefused("the server's answer does not have OpenAI's format", status=200, hint=NOT_FOUND)
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise Transient("the server's answer contains no choice", tries=CHARGED)
    choice: Mapping[str, Any] = choices[0]
    if choice.get("error") or choice.get("finish_reason") in BROKEN_OFF:
        reason = answer_message(choice.get("error") or choice["finish_reason"], clean)
        raise Transient(f"the server aborted its answer: {reason}", tries=CHARGED)
    return choice


def _message(choice: Mapping[str, Any], clean: Clean) -> object:
    """Return a chat's text: a string, or the text parts of a list."""
    message = choice.get("message")
    if not isinstance(message, dict):
        return None
    if message.get("refusal"):
        refusal = " ".join(clean(str(message["refusal"])).split())[:200]
        raise ContentRefused(f"the model declined: {refusal}", charged=True)
    content = message.get("content")
    if isinstance(content, list):
        return "".join(str(part.get("text") or "") for part in content if isinstance(part, dict))
    ended = message and isinstance(choice.get("finish_reason"), str)
    return "" if content is None and ended else content  # it only reasoned, called a tool, or had nothing to say


def _cut_in_echo(choice: Mapping[str, Any], text: str, request: Generate) -> bool:
    """Return whether a stop string may have ended the message too early: in an echo, or in separate reasoning.

    Without content and without reasoning there was nothing to end.
    """
    if choice.get("finish_reason") != "stop" or _ended_itself(choice):
        return False
    message = choice["message"]
    if not text.strip() and (_thought(message) or isinstance(choice.get("stop_reason"), str)):
        return True
    return message.get("content") is not None and cut_in_echo(text, request)


def _thought(message: Mapping[str, Any]) -> bool:
    """Return whether the server returns reasoning separately, under either of the usual names."""
    return any(message.get(name) for name in ("reasoning_content", "reasoning"))


def _finish(
    choice: Mapping[str, Any], request: Generate, tokens: int, *, stopped: bool
) -> Literal["stop", "eos", "length"]:
    """Return why the text ended. ``stop`` is a stop string or the end of the text: few servers distinguish them."""
    if stopped:
        return "stop"
    if choice.get("finish_reason") == "length" or tokens > request.max_tokens:  # a server may ignore the limit
        return "length"
    return "eos" if not any(request.stop) or _ended_itself(choice) else "stop"


def _ended_itself(choice: Mapping[str, Any]) -> bool:
    """Return whether the server reports that no stop string was found; few do."""
    return "stop_reason" in choice and choice["stop_reason"] is None


def count(usage: object, name: str) -> int:
    """Return the server's own count, or 0 if there is none."""
    given = usage.get(name) if isinstance(usage, dict) else None
    return given if isinstance(given, int) and given >= 0 else 0
