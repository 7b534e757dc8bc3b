"""Prompts of generated answers: long texts, and short answers to a question or after a cloze."""

from __future__ import annotations

from ke_core.plugin import Decoding, Parse, Prompt, Query

SUB_QUESTION = "sub-question"
"""The aspect of questions about details of an edited text."""
QUESTION_STYLES = ("direct", "qa")
SHORT = Decoding(max_tokens=24, stop=("\n",))


def long_answer_prompt(question: str, style: str, *, max_tokens: int, end: str) -> Prompt | None:
    """Return the prompt for an answer of several sentences in one of ``QUESTION_STYLES``; None for another style.

    ``direct``: the bare question. ``qa``: the question between "Q:" and "A:"; the answer ends at the next "Q:". With
    ``end="line"`` an answer also ends at a line end.
    """
    if style not in QUESTION_STYLES:
        return None
    bare = style == "direct"
    text, stop = (question, ()) if bare else (f"Q: {question}\nA:", ("\nQ:",))
    if end == "line":
        return Prompt(text=text, decoding=Decoding(max_tokens=max_tokens, stop=("\n",)))
    decoding = Decoding(max_tokens=max_tokens, stop=stop)
    return Prompt(text=text, decoding=decoding, parse=Parse(until="".join(stop)), several_lines=True)


def short_answer_prompt(query: Query, style: str) -> Prompt | None:
    """Return the prompt in one of ``QUESTION_STYLES``; None for another style.

    ``direct``: the bare text. ``qa``: a question between "Q:" and "A:". A cloze is always bare, and so is a text with
    continuations to score.
    """
    if style not in QUESTION_STYLES:
        return None
    text = query.texts[0]
    bare = style == "direct" or query.form == "cloze" or query.continuations
    return Prompt(text=text if bare else f"Q: {text}\nA:", decoding=SHORT)
