"""The published JSON, checked field by field; fields that we do not use are left alone."""

from __future__ import annotations

from attrs import field, frozen

from ke_core.plugin import all_labelled, labelled, said, some_said


@frozen(kw_only=True)
class Record:
    """One question. ``answers`` are spellings of the true answer, ``alt`` is another one.

    ``loc`` is a question about something else, in lower case and without a question mark, ``loc_ans`` its answer.
    """

    subject: str = field(validator=labelled)
    src: str = field(validator=said)
    rephrase: str = field(validator=said)
    alt: str = field(validator=labelled)
    answers: tuple[str, ...] = field(validator=[some_said, all_labelled])
    loc: str = field(validator=said)
    loc_ans: str = field(validator=said)
