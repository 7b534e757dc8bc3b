"""The published JSON, validated field by field.

Unknown fields are ignored, because some publishers add their own. Every field that is used must be present, have the
right type, and agree with the others.
"""

from __future__ import annotations

import re

from attrs import field, frozen, validators

from ke_benchmarks import all_not_blank, not_blank
from ke_core.plugin import one_slot

SLOT = "{}"
BARE = re.compile(r"[QPL]\d+\Z|.*://")
"""Ids that are never names. In your own graph a name may be the id."""

Text = str  # inside ``WikidataEntity``, ``str`` is a field
Triple = tuple[str, str, str]


@frozen(kw_only=True)
class WikidataEntity:
    """A Wikidata entity: label and id. The id is null if the file has none."""

    str: Text = field(validator=not_blank)
    id: Text | None = field(validator=validators.optional(not_blank))

    def __attrs_post_init__(self) -> None:
        """Reject an id in place of a missing label: a prompt with it is meaningless."""
        if self.str == self.id and BARE.match(self.id):
            raise ValueError(f"{self.id} has no label, only its Wikidata id")


@frozen(kw_only=True)
class MquakeRewrite:
    """An edit: ``prompt`` with the subject, then ``target_new`` in place of ``target_true``."""

    prompt: str = field(validator=one_slot)
    relation_id: str = field(validator=not_blank)
    target_new: WikidataEntity
    target_true: WikidataEntity
    subject: str = field(validator=not_blank)
    question: str = field(validator=not_blank)


@frozen(kw_only=True)
class SingleHop:
    """One hop of a chain as a question and as a cloze, with its answer."""

    question: str = field(validator=not_blank)
    cloze: str = field(validator=not_blank)
    answer: str = field(validator=not_blank)
    answer_alias: tuple[str, ...]


@frozen(kw_only=True)
class Chains:
    """The chains of a case, by ids and by labels, and the edits by ids, in the order of the rewrites."""

    triples: tuple[Triple, ...]
    triples_labeled: tuple[Triple, ...]
    new_triples: tuple[Triple, ...]
    new_triples_labeled: tuple[Triple, ...]
    edit_triples: tuple[Triple, ...]


@frozen(kw_only=True)
class MquakeRecord:
    """One case of the file. Only MQuAKE-T has ``answer_extended``."""

    case_id: int
    requested_rewrite: tuple[MquakeRewrite, ...] = field(validator=validators.min_len(1))
    questions: tuple[str, ...] = field(validator=[validators.min_len(1), all_not_blank])
    answer: str = field(validator=not_blank)
    answer_alias: tuple[str, ...]
    new_answer: str = field(validator=not_blank)
    new_answer_alias: tuple[str, ...]
    single_hops: tuple[SingleHop, ...] = field(validator=validators.min_len(1))
    new_single_hops: tuple[SingleHop, ...] = field(validator=validators.min_len(1))
    orig: Chains
    answer_extended: tuple[str, ...] = ()

    def __attrs_post_init__(self) -> None:
        """Check that parallel lists have the same length and agree."""
        orig = self.orig
        for name, hops, ids, labels in (
            ("", self.single_hops, orig.triples, orig.triples_labeled),
            ("new_", self.new_single_hops, orig.new_triples, orig.new_triples_labeled),
        ):
            if not len(hops) == len(ids) == len(labels):
                raise ValueError(
                    f"{name}single_hops has {len(hops)} items, orig.{name}triples {len(ids)}, "
                    f"orig.{name}triples_labeled {len(labels)}"
                )
            for triple, words in zip(ids, labels, strict=True):
                _named(triple, words, f"orig.{name}triples_labeled")
        if len(self.requested_rewrite) != len(orig.edit_triples):
            raise ValueError(
                f"requested_rewrite has {len(self.requested_rewrite)} items, orig.edit_triples {len(orig.edit_triples)}"
            )
        for at, (rewrite, triple) in enumerate(zip(self.requested_rewrite, orig.edit_triples, strict=True)):
            if (rewrite.relation_id, rewrite.target_new.id) != triple[1:]:
                raise ValueError(f"requested_rewrite[{at}] and orig.edit_triples[{at}] are different facts")
            if triple not in orig.new_triples:
                raise ValueError(f"orig.edit_triples[{at}] is not in orig.new_triples")


def _named(triple: Triple, words: Triple, where: str) -> None:
    for key, label in zip(triple, words, strict=True):
        if not label.strip():
            raise ValueError(f"a label in {where} is blank")
        if key == label and BARE.match(key):
            raise ValueError(f"{key} has no label in {where}, only its Wikidata id")
