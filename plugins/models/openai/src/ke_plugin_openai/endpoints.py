"""The two ways to have a text continued over HTTP, and how log-probabilities are had from one of them.

``/completions`` continues the prompt as it stands, as a local model does. ``/chat/completions`` answers a message: the
prompt goes into one user turn after an instruction to write only the next part (``prompts/continue.txt``), and what
comes back is made a continuation again: an echo of the prompt's end is stripped, the missing space or line end is put
in front, and stop strings are enforced here too. A server looks for them in the echo as well, and may cut off all else.
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
from ke_plugin_openai.faults import CHARGED, NOT_FOUND, Transient, in_words
from ke_plugin_openai.words import Clean, whole

COMPLETIONS, CHAT = "/completions", "/chat/completions"
STOPS = 4  # the public API takes no more; those that are not sent are enforced here alone
SEEDS = 2**31  # servers hold a seed in 32 or 64 bits, ours are of 64 without a sign
BROKEN_OFF = ("abort", "error", "insufficient_system_resource")
"""Reasons to end that are no end: of vLLM and SGLang, of OpenRouter and Mistral, of DeepSeek."""


OTHER_FORMS = ("content", "response", "generated_text")
"""Where endpoints of other forms have their text: those of llama.cpp, Ollama and TGI without /v1."""


def instruction() -> str:
    """What stands before the prompt in a chat's user turn."""
    return (files("ke_plugin_openai") / "prompts/continue.txt").read_text(encoding="utf-8")


class EchoCut(Exception):
    """A stop string ended a chat's message before it was past an echo of the prompt: ask again without any."""

    def __init__(self, prompt_tokens: int, tokens: int) -> None:
        super().__init__()
        self.prompt_tokens, self.tokens = prompt_tokens, tokens


def body(request: Generate, *, chat: bool, limit: str = "max_tokens", stops: bool = True) -> dict[str, Any]:
    """The JSON that asks for ``request``, without the model. ``limit``: what the server calls ``max_tokens``.

    ``top_k`` is no part of OpenAI's API: it is sent where it matters, and a server without it refuses the request.
    """
    asked: dict[str, Any] = {limit: request.max_tokens, "temperature": request.temperature, "stream": False}
    if stops and (named := [stop for stop in request.stop if stop][:STOPS]):
        asked["stop"] = named
    if request.temperature > 0:
        asked |= {"seed": request.seed % SEEDS} if request.seed is not None else {}
        asked |= {"top_k": request.top_k} if request.top_k else {}
    if chat:
        return asked | {"messages": [{"role": "user", "content": instruction() + request.prompt}]}
    return asked | {"prompt": request.prompt}


def read(
    raw: Mapping[str, Any], request: Generate, *, chat: bool, clean: Clean = whole, stops: bool = True
) -> Generated:
    """The continuation in an answer, ``clean``. ``stops``: whether stop strings were sent.

    Raises Transient where something is missing, ContentRefused, EchoCut.
    """
    choice = _choice(raw, clean)
    text = _message(choice, clean) if chat else choice.get("text")
    if choice.get("finish_reason") == "content_filter":
        raise ContentRefused("the server's content filter withheld the answer", charged=True)
    if not isinstance(text, str):
        raise Transient("the server's answer holds no text", tries=CHARGED)
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
    """Echo the whole text with its log-probabilities; a token more, since 0 means "no limit" to some servers."""
    return {"prompt": prompt + continuation, "max_tokens": 1, "temperature": 0, "echo": True, "logprobs": 1,
            "stream": False}  # fmt: skip


def read_score(
    raw: Mapping[str, Any], prompt: str, continuation: str, *, clean: Clean = whole
) -> tuple[float, int, bool | None]:
    """Return the natural log-probability of ``continuation``, summed over its tokens, their number, and whether each
    is the most probable one (None where the server does not tell).

    The server's tokens are laid end to end and the text is looked for in them, because offsets count differently from
    one server to the next. Raises NoLikelihood where they are not there or do not fit, Transient for a torn answer.
    """
    choice = _choice(raw, clean)
    logged = choice.get("logprobs")
    given: Mapping[str, Any] = logged if isinstance(logged, dict) else {}
    tokens, logprobs = given.get("tokens"), given.get("token_logprobs")
    if not (isinstance(tokens, list) and isinstance(logprobs, list) and all(isinstance(one, str) for one in tokens)):
        raise NoLikelihood("the server gives no log-probabilities: it ignores 'logprobs'", hint=ELSEWHERE)
    if len(tokens) != len(logprobs):
        raise NoLikelihood("the server gives more tokens than log-probabilities, or fewer", hint=ELSEWHERE)
    begin, end = _span("".join(tokens), choice.get("text"), prompt, continuation)
    starts = list(accumulate(map(len, tokens), initial=0))
    inside = [n for n, start in enumerate(starts[:-1]) if begin <= start < end]
    if not inside or starts[inside[0]] != begin or starts[inside[-1] + 1] != end:
        raise NoLikelihood("a token of the server's reaches over the end of the prompt or of the continuation")
    found = [logprobs[n] for n in inside]
    if not all(isinstance(one, int | float) for one in found):
        raise NoLikelihood("the server gives no log-probability of the first token of a text")
    tops = given.get("top_logprobs")
    if not isinstance(tops, list) or len(tops) != len(tokens):
        tops = [None] * len(tokens)
    greedy = [_is_top(logprobs[n], tops[n]) for n in inside]
    return float(sum(found)), len(found), False if False in greedy else None if None in greedy else True


def _is_top(logprob: float, top: object) -> bool | None:
    """Whether no token is more probable than one of ``logprob``. ``top``: the most probable token and its value.

    Values are compared, not texts: several tokens may have the same text (parts of a character).
    """
    values = top.values() if isinstance(top, dict) else ()
    known = [one for one in values if isinstance(one, int | float)]
    return logprob >= max(known) if known else None


def _span(joined: str, text: object, prompt: str, continuation: str) -> tuple[int, int]:
    """Where the continuation begins and ends in the tokens laid end to end. Raises NoLikelihood.

    That the prompt came back is proved by the text too: in the tokens, a letter beyond ASCII may be spelled otherwise
    (half of one is U+FFFD or nothing to some servers, or letters of the vocabulary's own). Then the beginning is where
    the continuation is spelled, before what was generated, or else behind the prompt.
    """
    whole_ = prompt + continuation
    if (at := joined.find(whole_)) >= 0:
        return at + len(prompt), at + len(whole_)
    if not isinstance(text, str) or not text.startswith(whole_):
        raise NoLikelihood("the server gives no log-probabilities of the prompt: it ignores 'echo'", hint=ELSEWHERE)
    generated = text.removeprefix(whole_)
    end = len(joined) - len(generated)
    if joined.endswith(continuation + generated):
        return end - len(continuation), end
    if joined.endswith(generated) and (at := joined.find(prompt)) >= 0:
        return at + len(prompt), end
    raise NoLikelihood("the server's tokens do not spell the text whose log-probability is asked for", hint=ELSEWHERE)


ELSEWHERE = (
    "choose metrics that need none, or a server whose /completions has 'echo' with 'logprobs', such as vLLM; "
    "a local model (hf:...) has them"
)


def _choice(raw: Mapping[str, Any], clean: Clean) -> Mapping[str, Any]:
    """The first. Raises Transient for none, and for one that the server gave up in the middle, ServerRefused."""
    choices = raw.get("choices")
    if choices is None and any(isinstance(raw.get(name), str) for name in OTHER_FORMS):
        raise ServerRefused("the server answers in a form that is not OpenAI's", status=200, hint=NOT_FOUND)
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise Transient("the server's answer holds no choice", tries=CHARGED)
    choice: Mapping[str, Any] = choices[0]
    if choice.get("error") or choice.get("finish_reason") in BROKEN_OFF:
        told = in_words(choice.get("error") or choice["finish_reason"], clean)
        raise Transient(f"the server gave up its answer in the middle: {told}", tries=CHARGED)
    return choice


def _message(choice: Mapping[str, Any], clean: Clean) -> object:
    """A chat's text: a string, or parts of which some are text."""
    message = choice.get("message")
    if not isinstance(message, dict):
        return None
    if message.get("refusal"):
        said = " ".join(clean(str(message["refusal"])).split())[:200]
        raise ContentRefused(f"the model declined: {said}", charged=True)
    content = message.get("content")
    if isinstance(content, list):
        return "".join(str(part.get("text") or "") for part in content if isinstance(part, dict))
    ended = message and isinstance(choice.get("finish_reason"), str)
    return "" if content is None and ended else content  # it only thought, called a tool, or had nothing to say


def _cut_in_echo(choice: Mapping[str, Any], text: str, request: Generate) -> bool:
    """Whether a stop string may have ended the message too early: in an echo, or in thoughts that are given apart.

    Without content and without thoughts there was nothing to end.
    """
    if choice.get("finish_reason") != "stop" or _ended_itself(choice):
        return False
    message = choice["message"]
    if not text.strip() and (_thought(message) or isinstance(choice.get("stop_reason"), str)):
        return True
    return message.get("content") is not None and cut_in_echo(text, request)


def _thought(message: Mapping[str, Any]) -> bool:
    """Whether the server gives thoughts apart from the message, under either of the usual names."""
    return any(message.get(name) for name in ("reasoning_content", "reasoning"))


def _finish(
    choice: Mapping[str, Any], request: Generate, tokens: int, *, stopped: bool
) -> Literal["stop", "eos", "length"]:
    """Why the text ended. Few servers tell a stop string from the end of the text; ``stop`` stands for both then."""
    if stopped:
        return "stop"
    if choice.get("finish_reason") == "length" or tokens > request.max_tokens:  # a server may ignore the limit
        return "length"
    return "eos" if not any(request.stop) or _ended_itself(choice) else "stop"


def _ended_itself(choice: Mapping[str, Any]) -> bool:
    """Whether the server says that no stop string was met: few do."""
    return "stop_reason" in choice and choice["stop_reason"] is None


def count(usage: object, name: str) -> int:
    """A count of the server's own; 0 where it gives none."""
    given = usage.get(name) if isinstance(usage, dict) else None
    return given if isinstance(given, int) and given >= 0 else 0
