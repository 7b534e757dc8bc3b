"""A model's completions of prompts, and the probabilities of given objects."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from itertools import dropwhile
from typing import Any

from attrs import frozen

from ke_core.plugin import (
    UNSPACED,
    Decoding,
    EditFailed,
    Failure,
    Generate,
    Generated,
    Procedure,
    Prompt,
    Score,
    Scored,
    Session,
    SourcedEdit,
    continued,
    with_room,
)

DECODING = Decoding(max_tokens=12, stop=("\n",))
"""An answer is a name, unless the objects are longer."""
OPENING = {"Ps", "Pi", "Pf"}
"""Unicode's categories of quotes and opening brackets."""
WORD_END = rf"(?![^\W_])|(?<=[{UNSPACED}])|(?=[{UNSPACED}])"


@frozen(kw_only=True)
class PromptWithObjects:
    """A prompt, the objects to score after it, and the expected answers, which set the maximum length."""

    id: str
    prompt: str
    objects: tuple[str, ...] = ()
    expect: tuple[str, ...] = ()


@frozen(kw_only=True)
class Completion:
    """``text``: the greedy continuation, one line unless an expected answer has several.

    ``logprobs``: natural, summed over tokens, one per object.
    """

    text: str
    logprobs: tuple[float, ...] = ()

    def begins_with(self, names: Sequence[str]) -> bool:
        """Return whether the text begins with one of ``names``, up to a word's end, ignoring case, spaces and quotes.

        In scripts without spaces between words, the next character does not show where a word ends.
        """
        text = _plain(self.text)
        return any(re.match(f"{re.escape(name)}(?:{WORD_END})", text) for name in map(_plain, names) if name)


def complete_prompts(session: Session[Any], prompts: Sequence[PromptWithObjects]) -> Mapping[str, Completion]:
    """Return the model's current completions by id. Raises EditFailed if a request fails."""
    found: dict[str, Completion] = {}
    for name, result in session.engine.run({one.id: _complete(one) for one in prompts}).items():
        if isinstance(result, Failure):
            raise EditFailed(
                f"the model cannot complete the prompt of {name!r}: {result.message}",
                hint="shorten or remove this prompt" if result.particular else "run the command again later",
            )
        found[name] = result
    return found


@frozen(kw_only=True)
class PromptComparison:
    """One prompt before and after the edit: the edit's own, or one of its paraphrases (``paraphrase``).

    The log-probabilities are of the new object and, if there is one, of the old.
    """

    edit: SourcedEdit
    prompt: str
    paraphrase: bool
    before: Completion
    after: Completion

    @property
    def generated(self) -> bool:
        """Whether the edited model generates the new object."""
        return self.after.begins_with([self.edit.target])

    @property
    def preferred(self) -> bool | None:
        """Whether the new object is more probable than the old after the edit; None without an old one."""
        return self.after.logprobs[0] > self.after.logprobs[1] if len(self.after.logprobs) > 1 else None


def compare(
    edits: Sequence[SourcedEdit], before: Mapping[str, Completion], after: Mapping[str, Completion]
) -> tuple[PromptComparison, ...]:
    """Return the completions before and after, by edit."""
    return tuple(
        PromptComparison(
            edit=edit,
            prompt=one.prompt,
            paraphrase=one.prompt != edit.prompt,
            before=before[one.id],
            after=after[one.id],
        )
        for edit in edits
        for one in compare_prompts([edit])
    )


def compare_prompts(edits: Sequence[SourcedEdit]) -> list[PromptWithObjects]:
    """Return every edit's own prompt and its paraphrases."""
    return [
        PromptWithObjects(
            id=f"{one.edit.id}/{number}", prompt=prompt, objects=tuple(name for name in (one.target, one.old) if name)
        )
        for one in edits
        for number, prompt in enumerate((one.prompt, *one.paraphrases))
    ]


def greedy_request(one: PromptWithObjects) -> Generate:
    """Return the request for a completion that is long enough for the objects and the expected answers."""
    room = with_room(Prompt(text=one.prompt, decoding=DECODING), (*one.objects, *one.expect)).decoding
    return Generate(prompt=one.prompt, max_tokens=room.max_tokens, stop=room.stop)


def _complete(one: PromptWithObjects) -> Procedure[Completion]:
    written: Generated = yield greedy_request(one)
    if not one.objects:
        return Completion(text=written.text.strip())
    continuations = tuple(continued(one.prompt, name) for name in one.objects)
    scored: Scored = yield Score(prompt=one.prompt, continuations=continuations)
    return Completion(text=written.text.strip(), logprobs=scored.logprobs)


def _plain(text: str) -> str:
    """Return lower case text with single spaces, and without quotes and brackets before it."""
    words = " ".join(text.casefold().split())
    return "".join(dropwhile(lambda one: one in "\"' " or unicodedata.category(one) in OPENING, words))
