"""The prompt for a query, and how to extract the answer from the generated text."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import evolve, field, frozen, validators

from ke_core.spec.facts import OMITTED


@frozen(kw_only=True)
class Decoding:
    """How text is generated. ``temperature`` 0 is greedy. ``max_tokens`` counts tokens, not characters."""

    max_tokens: int = field(default=32, validator=validators.ge(1))
    stop: tuple[str, ...] = ()
    temperature: float = field(default=0.0, validator=validators.ge(0.0))
    top_k: int = field(default=0, validator=validators.ge(0))


@frozen(kw_only=True)
class Parse:
    """Extracts the answer: the text after the last ``after`` (all of it if empty), up to the first ``until``."""

    after: str = ""
    until: str = "\n"

    def __call__(self, text: str) -> tuple[str, bool]:
        """Return the answer, and whether ``text`` has the expected form."""
        if self.after:
            _head, marker, tail = text.rpartition(self.after)
            if not marker:
                return "", False
            text = tail
        answer = text.lstrip().split(self.until, 1)[0] if self.until else text
        return answer.strip(), bool(answer.strip())


@frozen(kw_only=True)
class Prompt:
    """The complete prompt for one query, and how to decode and parse the continuation.

    ``several_lines``: a right answer may have several lines (``with_room``). A method with its own prompt must then not
    stop at a line end either.
    """

    text: str
    decoding: Decoding = Decoding()
    parse: Parse = Parse()
    several_lines: bool = field(default=False, metadata=OMITTED)


LONG_WORDS, LONG_TOKENS = 20, 512
"""An answer of more words is long. A prompt that may have a long answer allows that many tokens."""


def with_room(prompt: Prompt, answers: Iterable[str], *, until: str = "") -> Prompt:
    """Return ``prompt`` with room for ``answers``, the ones that are right before and after the edit.

    If none of them is long or has several lines, the prompt is returned unchanged. Otherwise at least ``LONG_TOKENS``
    may be generated. If one has several lines, an answer ends at ``until`` (the start of the next question) and not at
    a line end.
    """
    texts = [answer.strip() for answer in answers]
    lines = any("\n" in text for text in texts)
    if not lines and not any(len(text.split()) > LONG_WORDS for text in texts):
        return prompt
    roomy = evolve(prompt.decoding, max_tokens=max(LONG_TOKENS, prompt.decoding.max_tokens))
    roomier = evolve(prompt, decoding=roomy)
    return across_lines(roomier, until=until) if lines else roomier


def across_lines(prompt: Prompt, *, until: str = "") -> Prompt:
    """Return ``prompt`` for an answer of several lines: it ends at ``until`` and not at a line end."""
    kept = (text for text in prompt.decoding.stop if text.strip())
    stop = tuple(dict.fromkeys((*kept, *filter(None, [until]))))
    return evolve(
        prompt, decoding=evolve(prompt.decoding, stop=stop), parse=evolve(prompt.parse, until=until), several_lines=True
    )
