"""The published JSON, checked field by field; fields that we do not use are left alone."""

from __future__ import annotations

from attrs import Attribute, field, frozen

from ke_benchmarks import all_labelled, labelled, said, some_said


def _blank_or_labelled(instance: object, attribute: Attribute[str], value: str) -> None:
    if value.strip():
        labelled(instance, attribute, value)


@frozen(kw_only=True)
class Record:
    """One question. ``answers`` are spellings of the true answer. ``alt`` is read with ``Alternative`` alone.

    ``loc`` is a question about something else, in lower case and without a question mark, ``loc_ans`` its answer.
    """

    subject: str = field(validator=labelled)
    src: str = field(validator=said)
    rephrase: str = field(validator=said)
    answers: tuple[str, ...] = field(validator=[some_said, all_labelled])
    loc: str = field(validator=said)
    loc_ans: str = field(validator=said)


@frozen(kw_only=True)
class Alternative(Record):
    """One question with another answer than the true one, which may be blank."""

    alt: str = field(validator=_blank_or_labelled)
