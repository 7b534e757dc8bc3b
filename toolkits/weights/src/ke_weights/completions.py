"""What a model says where a fact is asked: its own words, and how probable given ones are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import frozen

from ke_core.plugin import (
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


@frozen(kw_only=True)
class PromptWithObjects:
    """A prompt, the objects to score after it, and the answers that are expected, so that there is room for them."""

    id: str
    prompt: str
    objects: tuple[str, ...] = ()
    expect: tuple[str, ...] = ()


@frozen(kw_only=True)
class Completion:
    """``text``: the greedy continuation, one line unless an expected answer has several. ``logprobs``: natural, summed
    over tokens, one for each object.
    """

    text: str
    logprobs: tuple[float, ...] = ()
    tokens: tuple[int, ...] = ()

    def begins_with(self, names: Sequence[str]) -> bool:
        """Whether the text begins with one of ``names``: case and spaces aside, and up to the end of a word."""
        text = _plain(self.text)
        return any(text.startswith(name) and not text[len(name) :][:1].isalnum() for name in map(_plain, names) if name)


def complete_prompts(session: Session[Any], prompts: Sequence[PromptWithObjects]) -> Mapping[str, Completion]:
    """What the session's model says now, by id. Raises EditFailed where it cannot be asked."""
    found: dict[str, Completion] = {}
    for name, result in session.engine.run({one.id: _asked(one) for one in prompts}).items():
        if isinstance(result, Failure):
            raise EditFailed(f"the model cannot be asked {name!r}: {result.message}")
        found[name] = result
    return found


@frozen(kw_only=True)
class PromptComparison:
    """One prompt before and after: of the edit itself (``paraphrase`` false), or of one of its paraphrases.

    ``said`` are its answers; the log-probabilities are of the new object and, where there is one, of the old.
    """

    edit: SourcedEdit
    prompt: str
    paraphrase: bool
    before: Completion
    after: Completion

    @property
    def generated(self) -> bool:
        """Whether the edited model says the new object."""
        return self.after.begins_with([self.edit.target])

    @property
    def preferred(self) -> bool | None:
        """Whether the edited model finds the new object more probable than the old; None where no old is given."""
        return self.after.logprobs[0] > self.after.logprobs[1] if len(self.after.logprobs) > 1 else None


def compare(
    edits: Sequence[SourcedEdit], before: Mapping[str, Completion], after: Mapping[str, Completion]
) -> tuple[PromptComparison, ...]:
    """The answers to ``questions`` before and after, by edit."""
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
    """Every edit's own prompt, and its paraphrases."""
    return [
        PromptWithObjects(
            id=f"{one.edit.id}/{number}", prompt=prompt, objects=tuple(name for name in (one.target, one.old) if name)
        )
        for one in edits
        for number, prompt in enumerate((one.prompt, *one.paraphrases))
    ]


def _asked(one: PromptWithObjects) -> Procedure[Completion]:
    room = with_room(Prompt(text=one.prompt, decoding=DECODING), (*one.objects, *one.expect)).decoding
    written: Generated = yield Generate(prompt=one.prompt, max_tokens=room.max_tokens, stop=room.stop)
    if not one.objects:
        return Completion(text=written.text.strip())
    continuations = tuple(continued(one.prompt, name) for name in one.objects)
    scored: Scored = yield Score(prompt=one.prompt, continuations=continuations)
    return Completion(text=written.text.strip(), logprobs=scored.logprobs, tokens=scored.tokens)


def _plain(text: str) -> str:
    return " ".join(text.casefold().split()).lstrip("\"' ")
