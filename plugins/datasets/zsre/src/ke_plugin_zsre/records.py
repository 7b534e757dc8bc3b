"""The published JSON, checked field by field; fields that we do not use are left alone."""

from __future__ import annotations

from attrs import Attribute, field, frozen

from ke_benchmarks import all_have_labels, has_label, not_blank, some_not_blank


def _blank_or_labelled(instance: object, attribute: Attribute[str], value: str) -> None:
    if value.strip():
        has_label(instance, attribute, value)


@frozen(kw_only=True)
class ZsreRecord:
    """One question. ``answers`` are spellings of the true answer. ``alt`` is read with ``ZsreAlternative`` alone.

    ``loc`` is a question about something else, in lower case and without a question mark, ``loc_ans`` its answer.
    """

    subject: str = field(validator=has_label)
    src: str = field(validator=not_blank)
    rephrase: str = field(validator=not_blank)
    answers: tuple[str, ...] = field(validator=[some_not_blank, all_have_labels])
    loc: str = field(validator=not_blank)
    loc_ans: str = field(validator=not_blank)


@frozen(kw_only=True)
class ZsreAlternative(ZsreRecord):
    """One question with another answer than the true one, which may be blank."""

    alt: str = field(validator=_blank_or_labelled)
