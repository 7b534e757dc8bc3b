"""A chat model's message as the continuation of a text, from a server or from a model that is loaded here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ke_core.requests import Generate

GOING_ON = ".,-_'\u2019"
"""Behind these a word or a number may go on."""


def continued(text: str, request: Generate) -> tuple[str, bool]:
    """A message as the continuation of the prompt, and whether a stop string ended it."""
    joint, rest = _joined(request.prompt, text)
    rest, stopped = cut(rest, request.stop)
    # A stop string such as "\nQuestion:" may begin with the joint; one that is the joint itself ended nothing.
    whole, again = cut(joint + rest, [stop for stop in request.stop if stop.strip()])
    return (whole, True) if stopped or again else (whole.rstrip("\n"), False)


def begun(text: str, request: Generate) -> bool:
    """Whether what is written so far of a message is past line ends and what may still become an echo of the prompt.

    "A: Oslo" behind the prompt's last line, "A:", has begun, though an example in the prompt is answered so as well.
    """
    text = text.lstrip()
    echoes = list(_echoes(request.prompt))
    if any(text.startswith(echo) and _over(echo, rest := text[len(echo) :]) and rest.strip() for echo in echoes):
        return True
    return bool(text) and not any(len(text) < len(echo) and echo.startswith(text) for echo in echoes)


def _joined(prompt: str, text: str) -> tuple[str, str]:
    """What belongs between the prompt and the message, and the message without an echo of the prompt's last lines.

    An echo ends where a word or a number does: "Idaho" does not repeat "I", nor "2.5" "2.", but "->(author)" does "->".
    After it the message goes on as it does, unless with a new line: then as if it began there. Else: nothing after
    white space or before nothing, a line end after a sentence that is over, a space after anything else (a label with
    its colon, a sentence that breaks off).
    """
    text = text.lstrip()
    for echo in _echoes(prompt):
        rest = text[len(echo) :]
        if text.startswith(echo) and _over(echo, rest):
            text = rest.lstrip()
            if "\n" in rest[: len(rest) - len(text)] or prompt[-1].isspace():
                break
            return "", rest
    if not text or not prompt or prompt[-1].isspace():
        return "", text
    return ("\n" if prompt[-1] in ".?!" else " "), text


def _echoes(prompt: str) -> Iterator[str]:
    """The prompt's last lines, the most first."""
    lines = prompt.strip().split("\n")
    echoes = ("\n".join(lines[first:]).strip() for first in range(len(lines)))
    return (echo for echo in echoes if echo)


def _over(echo: str, rest: str) -> bool:
    """Whether a word or a number ends between the two."""
    return not rest or rest[0].isspace() or not (echo[-1].isalnum() or echo[-1] in GOING_ON)


def cut(text: str, stops: Sequence[str]) -> tuple[str, bool]:
    """``text`` up to the earliest stop string, and whether there was one."""
    ends = [at for stop in stops if stop and (at := text.find(stop)) >= 0]
    return (text[: min(ends)], True) if ends else (text, False)
