"""The two published layouts, validated field by field and converted to MQuAKE's record.

The Hugging Face dataset is flat (``FlatRecord``): it has the objects of edits by label only; their ids are in the
chains. The files of the authors' repository have MQuAKE's nested layout (``NestedRecord``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import field, frozen, validators

from ke_benchmarks import all_not_blank, has_label, not_blank
from ke_core.plugin import one_slot
from ke_plugin_mquake.records import Chains, MquakeRecord, MquakeRewrite, SingleHop, Triple, WikidataEntity

SPLIT_6334 = "6334_split"
"""The name of the split in the repository's file of CF-6334."""
Split = Mapping[str, tuple[str, ...] | None]
"""Number of edited cases to the labels of a case; null for none."""


@frozen(kw_only=True)
class RecordLayout:
    """Field that distinguishes the two layouts: only the nested one has ``orig``."""

    orig: Any = None

    @property
    def nested(self) -> bool:
        """Return whether the record has the nested layout."""
        return self.orig is not None


@frozen(kw_only=True)
class NestedRecord(MquakeRecord):
    """One case of a file of the authors' repository. Only the file of CF-6334 has a split."""

    split: Split | None = field(default=None, metadata={"key": SPLIT_6334})

    @property
    def record(self) -> MquakeRecord:
        """Return the record itself."""
        return self


@frozen(kw_only=True)
class FlatRewrite:
    """An edit: ``prompt`` with the subject, then ``target_new_str`` in place of ``target_true_str``."""

    prompt: str = field(validator=one_slot)
    relation_id: str = field(validator=not_blank)
    subject: str = field(validator=has_label)
    target_new_str: str = field(validator=has_label)
    target_true_str: str = field(validator=has_label)


@frozen(kw_only=True)
class FlatRecord:
    """One case of the Hugging Face dataset."""

    case_id: int
    requested_rewrite: tuple[FlatRewrite, ...] = field(validator=validators.min_len(1))
    questions: tuple[str, ...] = field(validator=[validators.min_len(1), all_not_blank])
    answer: str
    answer_alias: tuple[str, ...]
    new_answer: str
    new_answer_alias: tuple[str, ...]
    single_hops: tuple[SingleHop, ...]
    new_single_hops: tuple[SingleHop, ...]
    orig_triples: tuple[Triple, ...]
    orig_triples_labeled: tuple[Triple, ...]
    new_triples: tuple[Triple, ...]
    new_triples_labeled: tuple[Triple, ...]
    answer_extended: tuple[str, ...] = ()
    split: Split
    record: MquakeRecord = field(init=False)

    def __attrs_post_init__(self) -> None:
        """Convert the record now, so that errors name it."""
        object.__setattr__(self, "record", self._record())

    def _record(self) -> MquakeRecord:
        edited = tuple(map(self._edited, range(len(self.requested_rewrite))))
        return MquakeRecord(
            case_id=self.case_id,
            requested_rewrite=tuple(map(self._rewrite, self.requested_rewrite, edited)),
            questions=self.questions,
            answer=self.answer,
            answer_alias=self.answer_alias,
            new_answer=self.new_answer,
            new_answer_alias=self.new_answer_alias,
            single_hops=self.single_hops,
            new_single_hops=self.new_single_hops,
            orig=Chains(
                triples=self.orig_triples,
                triples_labeled=self.orig_triples_labeled,
                new_triples=self.new_triples,
                new_triples_labeled=self.new_triples_labeled,
                edit_triples=tuple(self.new_triples[hop] for hop in edited),
            ),
            answer_extended=self.answer_extended,
        )

    def _edited(self, at: int) -> int:
        """Return the hop of the new chain that is this edit's fact."""
        rewrite = self.requested_rewrite[at]
        wanted = (rewrite.subject, rewrite.relation_id, rewrite.target_new_str)
        both = zip(self.new_triples, self.new_triples_labeled, self.new_single_hops, strict=False)
        for hop, (ids, labels, _asked) in enumerate(both):
            if (labels[0], ids[1], labels[2]) == wanted:
                return hop
        raise ValueError(f"requested_rewrite[{at}] is not a hop of new_triples_labeled")

    def _rewrite(self, rewrite: FlatRewrite, hop: int) -> MquakeRewrite:
        return MquakeRewrite(
            prompt=rewrite.prompt,
            relation_id=rewrite.relation_id,
            target_new=WikidataEntity(str=rewrite.target_new_str, id=self.new_triples[hop][2]),
            target_true=WikidataEntity(str=rewrite.target_true_str, id=self._old_object(rewrite)),
            subject=rewrite.subject,
            question=self.new_single_hops[hop].question,
        )

    def _old_object(self, rewrite: FlatRewrite) -> str | None:
        """Return the old object. It has an id only if the edit rewrites a hop of the old chain."""
        wanted = (rewrite.subject, rewrite.relation_id, rewrite.target_true_str)
        for ids, labels in zip(self.orig_triples, self.orig_triples_labeled, strict=False):
            if (labels[0], ids[1], labels[2]) == wanted:
                return ids[2]
        return None
