"""How a question is put to a model, and how its answer is cut out of what the model writes."""

from __future__ import annotations

from attrs import field, frozen, validators


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
    """The complete text put to the model for one query, and what to do with the continuation."""

    text: str
    decoding: Decoding = Decoding()
    parse: Parse = Parse()
