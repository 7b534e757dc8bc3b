"""The published JSON, validated field by field, with the anomalies of the real records.

Ids are texts, numbers or lists of them. ``answers`` may be empty, and so may an answer's label (Wikidata has none in
English). The old object may be missing from its own prompt. The key ``Relation_Specificity`` also occurs without its
second "ic". Files of ``ke build`` contain the labels that the published ones lack, in fields that other software
ignores.
"""

from __future__ import annotations

from typing import Any

from attrs import Attribute, field, frozen, validators

from ke_benchmarks import all_not_blank, has_label, not_blank

Ids = tuple[str, ...]
SUBSETS = ("recent", "random", "popular")
KEYS = {
    "logical-generalization": "Logical_Generalization",
    "compositionality-1": "Compositionality_I",
    "compositionality-2": "Compositionality_II",
    "subject-aliasing": "Subject_Aliasing",
    "preservation": "Forgetfulness",
    "relation-specificity": "Relation_Specificity",
}
"""Aspect to the key of its tests, in the order of the paper's tables."""


def one_of(*allowed: str) -> Any:
    """Attrs validator: the text is one of ``allowed``."""

    def check(_instance: object, attribute: Attribute[str], value: str) -> None:
        if value not in allowed:
            raise ValueError(f"{attribute.name} is {value!r}, not {' or '.join(allowed)}")

    return check


def are_ids(_instance: object, attribute: Attribute[Any], value: Any) -> None:
    """Attrs validator: a text or a number, or a list of them."""
    if not all(type(item) in (str, int, float) for item in (value if isinstance(value, list) else [value])):
        raise TypeError(f"{attribute.name} must be a text, a number or a list of them")


def ids(value: Any) -> Ids:
    """Return an id, or a list of them, as texts."""
    return tuple(map(str, value if isinstance(value, list) else [value]))


@frozen(kw_only=True)
class RippleTarget:
    """A gold target: its label, which may be blank, and its aliases."""

    value: str
    aliases: tuple[str, ...]


@frozen(kw_only=True)
class RippleQuery:
    """A query. With ``two_hop``, its answers are those of the second hop."""

    prompt: str = field(validator=not_blank)
    answers: tuple[RippleTarget, ...]
    query_type: str = field(validator=one_of("regular", "two_hop"))
    subject_id: Any = field(validator=are_ids)
    relation: str = field(validator=not_blank)
    target_ids: Any = field(validator=are_ids)
    phrase: str | None = None
    second_relation: str | None = None
    second_hop_target_ids: Any = field(default=None, validator=validators.optional(are_ids))

    def __attrs_post_init__(self) -> None:
        """Check that a two-hop query has its second hop."""
        if self.query_type == "two_hop" and (self.second_relation is None or self.second_hop_target_ids is None):
            raise ValueError("second_relation or second_hop_target_ids is missing from a two_hop query")

    @property
    def two_hop(self) -> bool:
        """Whether the query describes its subject instead of naming it."""
        return self.query_type == "two_hop"

    @property
    def gold_ids(self) -> Ids:
        """Return the ids of the answers."""
        return ids(self.second_hop_target_ids if self.two_hop else self.target_ids)


@frozen(kw_only=True)
class RippleTest:
    """Queries of which one (OR) or all (AND) must be right, if the unedited model meets the conditions."""

    __test__ = False  # not a pytest test

    test_queries: tuple[RippleQuery, ...] = field(validator=validators.min_len(1))
    condition_queries: tuple[RippleQuery, ...]
    test_condition: str = field(default="OR", validator=one_of("OR", "AND"))


@frozen(kw_only=True)
class OldFact:
    """The fact that the edit replaces."""

    prompt: str = field(validator=not_blank)
    subject_id: Any = field(validator=are_ids)
    relation: str = field(validator=not_blank)
    target_id: Any = field(validator=are_ids)
    target_label: str | None = field(default=None, validator=validators.optional(not_blank))
    target_aliases: tuple[str, ...] = ()


@frozen(kw_only=True)
class RippleEdit:
    """The edit. All fields after ``original_fact`` are our own."""

    prompt: str = field(validator=not_blank)
    subject_id: Any = field(validator=are_ids)
    relation: str = field(validator=not_blank)
    target_id: Any = field(validator=are_ids)
    original_fact: OldFact | None = None
    phrase: str | None = field(default=None, validator=validators.optional(not_blank))
    question: str | None = field(default=None, validator=validators.optional(not_blank))
    subject_label: str | None = field(default=None, validator=validators.optional(has_label))
    subject_aliases: tuple[str, ...] = field(default=(), validator=all_not_blank)
    target_label: str | None = field(default=None, validator=validators.optional(has_label))
    target_aliases: tuple[str, ...] = field(default=(), validator=all_not_blank)

    def __attrs_post_init__(self) -> None:
        """Check that the labels are in the prompt."""
        for name in ("phrase", "subject_label", "target_label"):
            text = getattr(self, name)
            if text is not None and text not in self.prompt:
                raise ValueError(f"{name} is not in prompt")


@frozen(kw_only=True)
class RippleRecord:
    """One edit with its tests."""

    example_type: str = field(validator=one_of(*SUBSETS))
    edit: RippleEdit
    Logical_Generalization: tuple[RippleTest, ...]
    Compositionality_I: tuple[RippleTest, ...]
    Compositionality_II: tuple[RippleTest, ...]
    Subject_Aliasing: tuple[RippleTest, ...]
    Forgetfulness: tuple[RippleTest, ...]
    Relation_Specificity: tuple[RippleTest, ...] | None = None
    Relation_Specifity: tuple[RippleTest, ...] | None = None

    def __attrs_post_init__(self) -> None:
        """Check that one of the two spellings is present."""
        if self.Relation_Specificity is None and self.Relation_Specifity is None:
            raise ValueError("Relation_Specificity is missing")

    def tests(self, aspect: str) -> tuple[RippleTest, ...]:
        """Return the tests of that criterion."""
        found: tuple[RippleTest, ...] | None = getattr(self, KEYS[aspect])
        return found if found is not None else self.Relation_Specifity or ()
