"""The dataset class: MQuAKE's, with other records and a published split."""

from __future__ import annotations

import random
from collections.abc import Mapping
from functools import cached_property

from attrs import evolve, frozen

from ke_core.plugin import BadData, Case
from ke_plugin_mquake.cases import cases
from ke_plugin_mquake.dataset import Mquake
from ke_plugin_mquake_remastered.records import SPLIT_6334, FlatRecord, NestedRecord, RecordLayout
from ke_plugin_mquake_remastered.variants import (
    EDITED,
    TEST,
    TEST_ONLY,
    TEST_UNEDITED,
    TRAIN,
    UNEDITED,
    RemasteredVariant,
)

SEED = 100
"""Seed of the published lists of edited cases. The flat layout contains the lists themselves."""


@frozen(kw_only=True)
class Remastered(Mquake):
    """A split of MQuAKE-Remastered."""

    variant: RemasteredVariant

    def split(self, k: int, seed: int) -> Mapping[str, str] | None:
        """Return case id to ``edited`` or ``unedited`` for a published k; None for another k, and with ``view=edits``.

        The published split is the same for every seed. In CF-6334 the edits of all ``train_edited`` and ``test_edited``
        cases are active, ``test_unedited`` cases are asked without their edits, and all other cases are excluded. Also
        None for a file without a split that lacks some of the published cases.
        """
        del seed
        if k not in self.variant.sizes or self.config.view == "edits":
            return None
        parts = {case_id: _side(labels[k]) for case_id, labels in self._labels.items()}
        return {case_id: side for case_id, side in parts.items() if side} or None

    def chains(self) -> tuple[Case, ...]:
        """Return every case. Cases of CF-6334 have a tag ``part-K`` for each k with their bucket in the published
        tables.
        """
        found = cases([one.record for one in self._records])
        if self.variant.masked:
            return found
        labels = self._labels
        return tuple(evolve(case, tags={**case.tags, **_buckets(labels[case.id])}) for case in found)

    @cached_property
    def _labels(self) -> dict[str, dict[int, frozenset[str]]]:
        """Return each case's labels for each published k, from the file or computed like the authors'."""
        drawn = self._drawn()
        found: dict[str, dict[int, frozenset[str]]] = {}
        for one in self._records:
            given = None if one.split is None else {k: frozenset(one.split.get(str(k)) or ()) for k in drawn}
            found[str(one.case_id)] = given or {k: drawn[k].get(one.case_id, frozenset()) for k in drawn}
        return found

    def _drawn(self) -> dict[int, dict[int, frozenset[str]]]:
        """Compute the published lists of a masked dataset; empty for a file with another number of cases."""
        ids = [one.case_id for one in self._records]
        found: dict[int, dict[int, frozenset[str]]] = {k: {} for k in self.variant.sizes}
        if self.variant.masked and len(ids) == max(self.variant.sizes):
            for k, labels in found.items():
                edited = set(random.Random(SEED).sample(ids, k))  # noqa: S311  not a secret
                labels.update({one: frozenset({EDITED if one in edited else UNEDITED}) for one in ids})
        return found

    @cached_property
    def _records(self) -> tuple[FlatRecord | NestedRecord, ...]:
        """Return every record, in either published layout, as a JSON list or one record per line."""
        nested = next(self.records(RecordLayout, key="", lines=True)).nested
        layout: type[FlatRecord | NestedRecord] = NestedRecord if nested else FlatRecord
        found = tuple(self.records(layout, lines=True))
        for one in found:
            self._check(one)
        return found

    def _check(self, record: FlatRecord | NestedRecord) -> None:
        """Raise BadData for a split that does not fit this file."""
        name = SPLIT_6334 if isinstance(record, NestedRecord) else "split"
        if record.split is None:
            if not self.variant.masked:
                self._refuse(record, f"{name}: missing")
            return
        for k in self.variant.sizes:
            labels = frozenset(record.split.get(str(k)) or ())
            if wrong := sorted(labels - self.variant.labels):
                self._refuse(
                    record,
                    f"{name}.{k}: unknown label {wrong[0]!r}; expected one of {', '.join(sorted(self.variant.labels))}",
                )
            if len({_SIDES[label] for label in labels}) > 1:
                self._refuse(record, f"{name}.{k}: both edited and unedited")
            if self.variant.masked and not labels:
                self._refuse(record, f"{name}.{k}: neither edited nor unedited")

    def _refuse(self, record: FlatRecord | NestedRecord, problem: str) -> None:
        raise BadData(
            f"{self.variant.file}, case {record.case_id}: {problem}",
            hint=f"get {self.variant.file} again from where it is published",
        )


_SIDES = {
    EDITED: EDITED, TRAIN: EDITED, TEST: EDITED, TEST_ONLY: EDITED, UNEDITED: UNEDITED, TEST_UNEDITED: UNEDITED,
}  # fmt: skip


def _side(labels: frozenset[str]) -> str:
    return next((_SIDES[label] for label in sorted(labels)), "")


def _buckets(labels: Mapping[int, frozenset[str]]) -> dict[str, str]:
    """Return the buckets of the published tables: test only, shared by train and test, unedited. Other cases have no
    tag.
    """
    found = {f"part-{k}": _bucket(of) for k, of in labels.items()}
    return {name: bucket for name, bucket in found.items() if bucket}


def _bucket(labels: frozenset[str]) -> str:
    if TEST_UNEDITED in labels:
        return UNEDITED
    if TRAIN in labels:
        return "shared" if TEST in labels else "train only"
    return "test only" if labels else ""
