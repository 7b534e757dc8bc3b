"""The dataset: MQuAKE's, from other records, with a split of its own."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from attrs import evolve, frozen

from ke_core.plugin import BadData, Case
from ke_plugin_mquake.cases import cases
from ke_plugin_mquake.dataset import Mquake
from ke_plugin_mquake_remastered.records import FlatRecord
from ke_plugin_mquake_remastered.variants import (
    EDITED,
    TEST,
    TEST_ONLY,
    TEST_UNEDITED,
    TRAIN,
    UNEDITED,
    RemasteredVariant,
)


@frozen(kw_only=True)
class Remastered(Mquake):
    """A split of MQuAKE-Remastered."""

    variant: RemasteredVariant

    def split(self, k: int, seed: int) -> Mapping[str, str] | None:
        """Case id to ``edited`` or ``unedited`` for the published k; None for another k, and for the view of edits.

        Whatever the seed: the published split was drawn once. In CF-6334 the edits of all ``train_edited`` and
        ``test_edited`` cases are in force, ``test_unedited`` cases are asked without theirs, and the rest is left out.
        """
        del seed
        if k not in self.variant.sizes or self.config.view == "edits":
            return None
        parts = {case_id: _side(labels[k]) for case_id, labels in self._labels.items()}
        return {case_id: side for case_id, side in parts.items() if side}

    def chains(self) -> tuple[Case, ...]:
        """Every case; those of CF-6334 say for each k in a tag ``part-K`` which bucket of its tables they are in."""
        found = cases([flat.record for flat in self._flat])
        if self.variant.masked:
            return found
        labels = self._labels
        return tuple(evolve(case, tags={**case.tags, **_buckets(labels[case.id])}) for case in found)

    @property
    def _labels(self) -> dict[str, dict[int, frozenset[str]]]:
        return {str(flat.case_id): {k: flat.labels(k) for k in self.variant.sizes} for flat in self._flat}

    @cached_property
    def _flat(self) -> tuple[FlatRecord, ...]:
        """The hub writes one record a line; a list is as good."""
        found = tuple(self.records(FlatRecord, lines=True))
        for flat in found:
            self._check(flat)
        return found

    def _check(self, flat: FlatRecord) -> None:
        """A split that says something else than this file's may is of another file."""
        for k in self.variant.sizes:
            labels = flat.labels(k)
            if wrong := sorted(labels - self.variant.labels):
                self._refuse(flat, f"split.{k}: {wrong[0]!r} is none of {', '.join(sorted(self.variant.labels))}")
            if len({_SIDES[label] for label in labels}) > 1:
                self._refuse(flat, f"split.{k}: both edited and unedited")
            if self.variant.masked and not labels:
                self._refuse(flat, f"split.{k}: neither edited nor unedited")

    def _refuse(self, flat: FlatRecord, problem: str) -> None:
        raise BadData(
            f"{self.variant.file}, case {flat.case_id}: {problem}",
            hint=f"get {self.variant.file} again where it is published",
        )


_SIDES = {
    EDITED: EDITED, TRAIN: EDITED, TEST: EDITED, TEST_ONLY: EDITED, UNEDITED: UNEDITED, TEST_UNEDITED: UNEDITED,
}  # fmt: skip


def _side(labels: frozenset[str]) -> str:
    return next((_SIDES[label] for label in sorted(labels)), "")


def _buckets(labels: Mapping[int, frozenset[str]]) -> dict[str, str]:
    """The published tables' (test only, shared by train and test, unedited); what is in none has no tag."""
    found = {f"part-{k}": _bucket(of) for k, of in labels.items()}
    return {name: bucket for name, bucket in found.items() if bucket}


def _bucket(labels: frozenset[str]) -> str:
    if TEST_UNEDITED in labels:
        return UNEDITED
    if TRAIN in labels:
        return "shared" if TEST in labels else "train only"
    return "test only" if labels else ""
