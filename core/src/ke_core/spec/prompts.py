"""How a question is put to a model, and how its answer is cut out of what the model writes."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import evolve, field, frozen, validators

from ke_core.spec.facts import OMITTED


@frozen(kw_only=True)
class Decoding:
    """How text is generated. ``temperature`` 0 is greedy; ``max_tokens`` counts tokens, never characters."""

    max_tokens: int = field(default=32, validator=validators.ge(1))
    stop: tuple[str, ...] = ()
    temperature: float = field(default=0.0, validator=validators.ge(0.0))
    top_k: int = field(default=0, validator=validators.ge(0))


@frozen(kw_only=True)
class Parse:
    """The answer is what follows the last ``after`` (the whole text if empty), up to the first ``until``."""

    after: str = ""
    until: str = "\n"

    def __call__(self, text: str) -> tuple[str, bool]:
        """The answer, and whether ``text`` had the expected form."""
        if self.after:
            _head, marker, tail = text.rpartition(self.after)
            if not marker:
                return "", False
            text = tail
        answer = text.lstrip().split(self.until, 1)[0] if self.until else text
        return answer.strip(), bool(answer.strip())


@frozen(kw_only=True)
class Prompt:
    """The complete text put to the model for one query, and what to do with the continuation.

    ``several_lines``: a right answer may have several lines (``with_room``), so a method with a prompt of its own must
    not end an answer at a line end either.
    """

    text: str
    decoding: Decoding = Decoding()
    parse: Parse = Parse()
    several_lines: bool = field(default=False, metadata=OMITTED)


LONG_WORDS, LONG_TOKENS = 20, 512
"""Answers of more words are long; a prompt whose answer may be long leaves room for so many tokens."""


def with_room(prompt: Prompt, answers: Iterable[str], *, until: str = "") -> Prompt:
    """Return ``prompt`` with room for ``answers``, the ones that are right before and after the edit.

    Unless one of them is long or has several lines, the prompt is returned unchanged. Otherwise at least
    ``LONG_TOKENS`` may be generated: the limit says no more of an answer than that it is long. Where one has several
    lines, an answer ends at ``until`` (what the next question begins with), and not at a line end.
    """
    texts = [answer.strip() for answer in answers]
    lines = any("\n" in text for text in texts)
    if not lines and not any(len(text.split()) > LONG_WORDS for text in texts):
        return prompt
    roomy = evolve(prompt.decoding, max_tokens=max(LONG_TOKENS, prompt.decoding.max_tokens))
    roomier = evolve(prompt, decoding=roomy)
    return across_lines(roomier, until=until) if lines else roomier


def across_lines(prompt: Prompt, *, until: str = "") -> Prompt:
    """Return ``prompt`` for an answer of several lines, which ends at ``until`` and not at a line end."""
    kept = (text for text in prompt.decoding.stop if text.strip())
    stop = tuple(dict.fromkeys((*kept, *filter(None, [until]))))
    return evolve(
        prompt, decoding=evolve(prompt.decoding, stop=stop), parse=evolve(prompt.parse, until=until), several_lines=True
    )
