"""The published JSON, validated field by field. Unused fields are ignored."""

from __future__ import annotations

from typing import Any

from attrs import evolve, field, frozen

from ke_benchmarks import all_not_blank, has_label, not_blank
from ke_core.plugin import SLOT, one_slot

Text = str  # inside ``AkewObject``, ``str`` is a field
TARGETS = ("answer_new", "answer_true")
SPELLINGS = ("_aliases", "_alias")
"""The publisher's description spells the fields of aliases in both ways."""
TRIPLETS = "unsfact_triplets_GPT"


def one_layout(raw: Any) -> Any:
    """Return a record with a list of rewrites, aliases under one spelling, and triplets of texts.

    Other values are left unchanged.
    """
    if not isinstance(raw, dict) or "requested_rewrite" not in raw:
        return raw
    rewrites = raw["requested_rewrite"]
    listed = rewrites if isinstance(rewrites, list) else [rewrites]
    return raw | {"requested_rewrite": [_with_texts(_one_spelling(rewrite)) for rewrite in listed]}


def _one_spelling(rewrite: Any) -> Any:
    if not isinstance(rewrite, dict):
        return rewrite
    found = {
        target + SPELLINGS[0]: rewrite[target + spelling]
        for target in TARGETS
        for spelling in reversed(SPELLINGS)
        if target + spelling in rewrite
    }
    return rewrite | found


def _with_texts(rewrite: Any) -> Any:
    """Make every part of a triplet that is not a text, such as null or a list, an empty text: it is incomplete."""
    triplets = rewrite.get(TRIPLETS) if isinstance(rewrite, dict) else None
    if not isinstance(triplets, list):
        return rewrite
    return rewrite | {TRIPLETS: [_texts(one) if isinstance(one, dict) else one for one in triplets]}


def _texts(triplet: dict[str, Any]) -> dict[str, Any]:
    parts = {name: triplet.get(name) for name in ("subject", "prompt", "target")}
    return triplet | {name: part if isinstance(part, str) else "" for name, part in parts.items()}


@frozen(kw_only=True)
class AkewObject:
    """An object: its label."""

    str: Text = field(validator=has_label)


@frozen(kw_only=True)
class AkewTriplet:
    """A fact of the text. ``prompt`` should have a slot for the subject; those without one cannot be asked."""

    subject: str
    prompt: str
    target: str

    @property
    def is_complete(self) -> bool:
        """Whether it is a cloze about a subject, with a target."""
        return self.prompt.count(SLOT) == 1 and bool(self.subject.strip() and self.target.strip())

    @property
    def cloze(self) -> str:
        """The sentence that stops before the target."""
        return self.prompt.replace(SLOT, self.subject.strip()).rstrip()


@frozen(kw_only=True)
class AkewRewrite:
    """One edit: the fact, and the text that states it (``fact_new_uns``)."""

    prompt: str = field(validator=one_slot)
    subject: str = field(validator=has_label)
    target_new: AkewObject
    target_true: AkewObject
    question: str = field(validator=not_blank)
    fact_new_uns: str = field(validator=not_blank)
    unsfact_triplets_GPT: tuple[AkewTriplet, ...] = ()  # noqa: N815  the field's published name
    answer_new_aliases: tuple[str, ...] = field(default=(), validator=all_not_blank)
    answer_true_aliases: tuple[str, ...] = field(default=(), validator=all_not_blank)


@frozen(kw_only=True)
class AkewHop:
    """A single-hop question of MQuAKE-CF, with the names of its answer."""

    question: str
    answer_alias: tuple[str, ...] = ()


@frozen(kw_only=True)
class AkewRecord:
    """One record: edits that are made together, and in MQuAKE-CF a multi-hop question in several wordings."""

    case_id: int
    requested_rewrite: tuple[AkewRewrite, ...]
    questions: tuple[str, ...] = field(default=(), validator=all_not_blank)
    answer: str = ""
    answer_alias: tuple[str, ...] = ()
    new_answer: str = ""
    new_answer_alias: tuple[str, ...] = ()
    single_hops: tuple[AkewHop, ...] = ()
    new_single_hops: tuple[AkewHop, ...] = ()

    def __attrs_post_init__(self) -> None:
        """Reject a record without edits, and a multi-hop question without an answer."""
        if not self.requested_rewrite:
            raise ValueError("requested_rewrite is empty")
        if self.questions and not self.new_answer.strip():
            raise ValueError("questions without new_answer")

    def with_aliases(self, rewrite: AkewRewrite) -> AkewRewrite:
        """Return an edit with the other names of its objects that only the hops of MQuAKE-CF contain."""
        return evolve(
            rewrite,
            answer_new_aliases=(*rewrite.answer_new_aliases, *_names_in(self.new_single_hops, rewrite)),
            answer_true_aliases=(*rewrite.answer_true_aliases, *_names_in(self.single_hops, rewrite)),
        )


def _names_in(hops: tuple[AkewHop, ...], rewrite: AkewRewrite) -> tuple[str, ...]:
    """Return the names of the answer to the question of the edit."""
    asked = rewrite.question.strip()
    return tuple(name for hop in hops if hop.question.strip() == asked for name in hop.answer_alias if name.strip())
