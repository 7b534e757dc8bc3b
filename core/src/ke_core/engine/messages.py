"""Turn a chat model's message into the continuation of a prompt, for local and remote models."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from unicodedata import category

from ke_core.spec.requests import Generate

CONTINUATION_FORMAT = "joined to the prompt, stopped behind an echo, without thoughts"
"""Part of the digest of a chat model, so completions that were processed in another way are not reused."""
LINE = re.compile(r"(?m)^\s*(\S)")
THOUGHT, SPOKEN = "<think>", "</think>"
"""The tags around the thoughts of a reasoning model. Some chat templates write the opening tag."""
GOING_ON = ".,-_'\u2019"
"""A word or a number may continue after these characters."""


def continuation(text: str, request: Generate, *, ended: bool = True) -> tuple[str, bool]:
    """Return a message as the continuation of the prompt, and whether a stop string ended it.

    ``ended``: the model ended the message before the token limit, so line ends after it have no meaning.
    """
    joint, rest = _joined(request.prompt, _spoken(text))
    rest, stopped = cut_at_stops(rest, request.stop)
    # A stop string such as "\nQuestion:" may begin with the joint. A stop string equal to the joint ends nothing.
    whole, again = cut_at_stops(joint + rest, [stop for stop in request.stop if stop.strip()])
    stopped |= again
    return whole.rstrip("\n") if ended and not stopped else whole, stopped


def has_content(text: str, request: Generate) -> bool:
    """Return whether the message so far is past leading line ends and past a possible echo of the prompt.

    "A: Oslo" after the prompt's last line "A:" has content, even if an example in the prompt has the same answer.
    """
    text = _spoken(text)
    return bool(text) and (_past_echo(text, request.prompt) or not _in_echo(text, request.prompt))


def cut_in_echo(text: str, request: Generate) -> bool:
    """Return whether a stop string may have ended a message within thoughts, line ends or an echo of the prompt.

    Servers search for stop strings there too. ``text`` may include the stop string or not.
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
    """Return a message without its thoughts. Empty if it has only thoughts."""
    thoughts, spoken, message = text.partition(SPOKEN)
    if spoken:
        return message.lstrip()
    return "" if thoughts.lstrip().startswith(THOUGHT) else text.lstrip()


def _joined(prompt: str, text: str) -> tuple[str, str]:
    """Return the text between prompt and message, and the message without an echo of the prompt's last lines.

    An echo ends at the end of a word or number: "Idaho" does not repeat "I", and "2.5" does not repeat "2.", but
    "->(author)" repeats "->". The text after an echo is unchanged, except that leading line ends are removed. Without
    an echo, the text between is empty after white space or before an empty message, a line end after a complete
    sentence, and otherwise a space (after a label with a colon, or an incomplete sentence).
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
    """Return whether ``text`` is an echo of the prompt's last lines, and more."""
    return any(rest.strip() for rest in _behind_echoes(text, prompt))


def _in_echo(text: str, prompt: str) -> bool:
    """Return whether the prompt's last lines, any number of them, begin with ``text``."""
    prompt = prompt.strip()
    return any(prompt.startswith(text, line.start(1)) for line in LINE.finditer(prompt))


def _behind_echoes(text: str, prompt: str) -> Iterator[str]:
    """Return the text after the prompt's last lines, if ``text`` begins with them. More lines are tried first."""
    prompt = prompt.strip()
    for line in LINE.finditer(prompt):
        length = len(prompt) - line.start(1)
        if length <= len(text) and prompt.endswith(text[:length]) and _over(text[:length], text[length:]):
            yield text[length:]


def _over(echo: str, rest: str) -> bool:
    """Return whether a word or a number ends between ``echo`` and ``rest``."""
    if not rest or rest[0].isspace():
        return True
    if echo[-1] == ":" and rest[0].isdigit():  # 1:30
        return not echo[-2:-1].isdigit()
    return category(echo[-1])[0] not in "LMN" and echo[-1] not in GOING_ON


def cut_at_stops(text: str, stops: Sequence[str]) -> tuple[str, bool]:
    """Return ``text`` up to the earliest stop string, and whether there was one."""
    ends = [at for stop in stops if stop and (at := text.find(stop)) >= 0]
    return (text[: min(ends)], True) if ends else (text, False)
