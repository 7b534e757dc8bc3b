"""A chat model's message as the continuation of a text, from a server or from a model that is loaded here."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from unicodedata import category

from ke_core.spec.requests import Generate

CONTINUATION_FORMAT = "joined to the prompt, stopped behind an echo, without thoughts"
"""Part of the digest of a chat model: completions that were read in another way are not taken for these."""
LINE = re.compile(r"(?m)^\s*(\S)")
THOUGHT, SPOKEN = "<think>", "</think>"
"""What stands around the thoughts that a reasoning model writes first; some templates write the first themselves."""
GOING_ON = ".,-_'\u2019"
"""Behind these a word or a number may go on."""


def continuation(text: str, request: Generate, *, ended: bool = True) -> tuple[str, bool]:
    """A message as the continuation of the prompt, and whether a stop string ended it.

    ``ended``: not by the limit of tokens, so that line ends behind it say nothing.
    """
    joint, rest = _joined(request.prompt, _spoken(text))
    rest, stopped = cut_at_stops(rest, request.stop)
    # A stop string such as "\nQuestion:" may begin with the joint; one that is the joint itself ended nothing.
    whole, again = cut_at_stops(joint + rest, [stop for stop in request.stop if stop.strip()])
    stopped |= again
    return whole.rstrip("\n") if ended and not stopped else whole, stopped


def has_content(text: str, request: Generate) -> bool:
    """Whether what is written so far of a message is past line ends and what may still become an echo of the prompt.

    "A: Oslo" behind the prompt's last line, "A:", has begun, though an example in the prompt is answered so as well.
    """
    text = _spoken(text)
    return bool(text) and (_past_echo(text, request.prompt) or not _in_echo(text, request.prompt))


def cut_in_echo(text: str, request: Generate) -> bool:
    """Whether a stop string may have ended a message before it was past thoughts, line ends and an echo of the prompt.

    Servers look for stop strings in these as well. ``text`` may end with the stop string or before it.
    """
    if text.strip() and not _spoken(text):
        return True
    text = _spoken(text)
    ending = next((stop for stop in request.stop if stop and text.endswith(stop)), "")
    text = text.removesuffix(ending)
    if _past_echo(text, request.prompt):
        return False
    stops = [stop for stop in request.stop if stop]
    if not text.strip():
        return any(not stop.strip() or _in_echo(stop.lstrip(), request.prompt) for stop in stops)
    echoed = any(not rest.strip() for rest in _behind_echoes(text, request.prompt))
    return echoed or any(_in_echo(text + stop, request.prompt) for stop in stops)


def _spoken(text: str) -> str:
    """A message without the thoughts before it; empty where it is not past them."""
    thoughts, spoken, message = text.partition(SPOKEN)
    if spoken:
        return message.lstrip()
    return "" if thoughts.lstrip().startswith(THOUGHT) else text.lstrip()


def _joined(prompt: str, text: str) -> tuple[str, str]:
    """What belongs between the prompt and the message, and the message without an echo of the prompt's last lines.

    An echo ends where a word or a number does: "Idaho" does not repeat "I", nor "2.5" "2.", but "->(author)" does "->".
    After it the message goes on as it does, unless with a new line: then as if it began there. Else: nothing after
    white space or before nothing, a line end after a sentence that is over, a space after anything else (a label with
    its colon, a sentence that breaks off).
    """
    rest = next(_behind_echoes(text, prompt), None)
    if rest is not None:
        text = rest.lstrip()
        if "\n" not in rest[: len(rest) - len(text)] and not prompt[-1].isspace():
            return "", rest
    if not text or not prompt or prompt[-1].isspace():
        return "", text
    return ("\n" if prompt[-1] in ".?!" else " "), text


def _past_echo(text: str, prompt: str) -> bool:
    """Whether ``text`` is an echo of the prompt's last lines and more."""
    return any(rest.strip() for rest in _behind_echoes(text, prompt))


def _in_echo(text: str, prompt: str) -> bool:
    """Whether the prompt's last lines, however many, begin with ``text``."""
    prompt = prompt.strip()
    return any(prompt.startswith(text, line.start(1)) for line in LINE.finditer(prompt))


def _behind_echoes(text: str, prompt: str) -> Iterator[str]:
    """What stands behind the prompt's last lines in ``text``, where it begins with these: the most lines first."""
    prompt = prompt.strip()
    for line in LINE.finditer(prompt):
        length = len(prompt) - line.start(1)
        if length <= len(text) and prompt.endswith(text[:length]) and _over(text[:length], text[length:]):
            yield text[length:]


def _over(echo: str, rest: str) -> bool:
    """Whether a word or a number ends between the two."""
    if not rest or rest[0].isspace():
        return True
    if echo[-1] == ":" and rest[0].isdigit():  # 1:30
        return not echo[-2:-1].isdigit()
    return category(echo[-1])[0] not in "LMN" and echo[-1] not in GOING_ON


def cut_at_stops(text: str, stops: Sequence[str]) -> tuple[str, bool]:
    """``text`` up to the earliest stop string, and whether there was one."""
    ends = [at for stop in stops if stop and (at := text.find(stop)) >= 0]
    return (text[: min(ends)], True) if ends else (text, False)
