"""An edit from one sentence, as ``ke edit "Paris is the capital of Spain"`` and ``ke serve edits add`` read it."""

from __future__ import annotations

from ke_core.app import SourceLine, edit_from
from ke_core.plugin import BadData, SourcedEdit

ARROW = "=>"
FUNCTION_WORDS = frozenset(
    [
        "a",
        "an",
        "the",
        "is",
        "are",
        "was",
        "were",
        "be",
        "of",
        "in",
        "on",
        "at",
        "to",
        "by",
        "for",
        "from",
        "with",
        "as",
        "and",
        "or",
        "has",
        "have",
    ]
)
"""Words that end a prompt, and are never the whole of a new object."""


def edit_from_sentence(sentence: str, subject: str, object_: str = "") -> SourcedEdit:
    """Return the edit of a sentence that states the new fact. Raises BadData if it cannot be split.

    The prompt is the text before ``=>``, or before ``object_`` at the end. Without either, the object is the last word
    and the capitalized words directly before it: ``... is English``, ``... of the United Kingdom``. A period ends the
    sentence, unless it is part of ``object_``.
    """
    place = SourceLine(file="the command line")
    text = " ".join(sentence.split())
    if ARROW in text:
        prompt, _, target = (part.strip() for part in text.partition(ARROW))
        if object_ and object_ != target:
            raise place.wrong("object", f"is {object_!r} in --object and {target!r} in the sentence")
    elif object_:
        target = object_.strip()
        text = text if text.endswith(f" {target}") else text.rstrip(".")
        if not text.endswith(f" {target}"):
            raise place.wrong("sentence", f"does not end with its object {target!r}", hint="or write '... => object'")
        prompt = text.removesuffix(target).strip()
    else:
        prompt, target = _cut(text.rstrip("."), subject)
    return edit_from({"prompt": prompt, "subject": subject, "target_new": target}, place)


def _cut(text: str, subject: str) -> tuple[str, str]:
    """Return prompt and object: the last word and the capitalized words before it, without the subject."""
    end = text.rfind(subject) + len(subject) if subject in text else 0
    words = text[end:].split()
    if not words:
        raise BadData(
            f"nothing follows the subject {subject!r} in {text!r}",
            hint=f"state the fact, with the object last, or write 'prompt {ARROW} object'",
        )
    if words[-1] in FUNCTION_WORDS:
        raise BadData(
            f"the sentence has no new object after {words[-1]!r}: {text!r}",
            hint=f"end with the object, or write 'prompt {ARROW} object'",
        )
    start = len(words) - 1
    while start > 0 and words[start][:1].isupper() and words[start - 1][:1].isupper():
        start -= 1
    target = " ".join(words[start:])
    return text.removesuffix(target).strip(), target
