"""Find subject and object in a prompt: the published files have whole sentences and ids, but no labels.

A prompt is a relation's phrase with the subject in it, then the object and a full stop. For every relation, the words
around its subject are known; for most they are the relation's own name.
"""

from __future__ import annotations

from collections.abc import Iterable

from attrs import frozen

from ke_core.plugin import Cloze

SLOT = "{}"

AROUND = {
    "AWARD_RECEIVED": " award {} won is",
    "CAPITAL": " city of {} is",
    "CAPITAL_OF": " which {} is the capital of is",
    "CAST_MEMBER": " cast members of {} are",
    "CONTINENT": " which {} is part of is",
    "COUNTRY": " which {} is associated with is",
    "CURRENCY": " currency in {} is",
    "ETHNIC_GROUP": " which {} is associated with is",
    "FOLLOWED_BY": "{} is followed by",
    "FOLLOWS": "{} follows",
    "IS_ALIVE": "Is {} still alive?",
    "LEAGUE": " which {} plays in is",
    "LIKELY_ANTHEM": " performed in {} is",
    "MEMBER_OF_SPORTS_TEAM": " which {} is a member of is",
    "NATIVE_LANGUAGE": " tongue of {} is",
    "NUMBER_OF_CHILDREN": " children {} has is",
    "POSITION_HELD": " held by {} is",
    "RELIGION": " which {} is associated with is",
    "SEX_OR_GENDER": " gender of {} is",
    "SIBLING": " siblings of {} are",
}
NAMED = """
MOTHER FATHER BROTHER SISTER SPOUSE UNCLE AUNT CHILD PLACE_OF_BIRTH PLACE_OF_DEATH PLACE_OF_BURIAL
COUNTRY_OF_CITIZENSHIP STEPFATHER STEPMOTHER ALMA_MATER SEXUAL_ORIENTATION OCCUPATION EMPLOYER
FIELD_OF_WORK EYE_COLOR DATE_OF_BIRTH DATE_OF_DEATH HEAD_OF_GOVERNMENT HEAD_OF_STATE
OFFICIAL_LANGUAGE ANTHEM AUTHOR EDITOR DIRECTOR SCREENWRITER ARCHITECT COMPOSER FOUNDER
"""
RELATIONS = {**AROUND, **{name: f" {name.lower().replace('_', ' ')} of {SLOT} is" for name in NAMED.split()}}
"""The 53 relations of the released code."""


@frozen(kw_only=True)
class Sentence:
    """A statement split into its parts. ``phrase``: the text before the object."""

    phrase: str
    object: str
    cloze: Cloze | None


def split_prompt(prompt: str, relation: str, *, objects: Iterable[str], other: str = "") -> Sentence:
    """Split the prompt of an edit. ``objects``: possible labels of its object. ``other``: the old fact's prompt.

    If the prompt ends with one of the labels, it is the object. Otherwise the phrase ends with the relation's last
    words, at their last position within the common prefix of both prompts.
    """
    said = prompt.strip()
    stem = said.removesuffix(".")
    for label in objects:
        for whole in (stem, said):  # a label may end with its own full stop
            if whole.endswith(f" {label}"):
                phrase = whole[: -len(label)].rstrip()
                return Sentence(phrase=phrase, object=label, cloze=cloze(phrase, relation))
    tail = _words(relation)[1]
    common = _common(said, other.strip()) if other else len(stem)
    end = stem.rfind(f"{tail} ", 0, common + 1)
    if end < 0:
        end = stem.rfind(f"{tail} ")
    if end < 0:
        raise ValueError(f"edit.prompt does not have the form of {relation}: {tail.strip()!r} is missing")
    phrase = stem[: end + len(tail)]
    return Sentence(phrase=phrase, object=stem[end + len(tail) :].strip(), cloze=cloze(phrase, relation))


def cloze(phrase: str, relation: str) -> Cloze | None:
    """Return the phrase with a slot for its subject; None if it does not have the relation's form."""
    head, tail = _words(relation)
    start = phrase.find(head) + len(head)
    end = len(phrase) - len(tail)
    if head not in phrase or not phrase.endswith(tail) or start >= end or SLOT in phrase:
        return None
    return Cloze(template=phrase[:start] + SLOT + phrase[end:], subject=phrase[start:end])


def _common(one: str, other: str) -> int:
    """Return the length of the common prefix."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


def _words(relation: str) -> tuple[str, str]:
    if relation not in RELATIONS:
        raise ValueError(f"edit.relation {relation} is unknown, and edit has no phrase and labels of its own")
    head, _slot, tail = RELATIONS[relation].partition(SLOT)
    return head, tail
