"""Exclude demonstrations about the subject of an active edit.

Each edit is processed once, when it is added or removed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ke_core.plugin import Edit
from ke_plugin_ike.corpus import KINDS, DemonstrationCorpus, plain


class SubjectFilter:
    """``ids`` of the demonstrations that name the subject of an active edit, as their subject or as an object.

    For an edit with a statement only, they are the demonstrations whose subject or prompt occurs in the statement. A
    record is excluded completely if one of its kinds has no demonstration left.
    """

    def __init__(self, corpus: DemonstrationCorpus) -> None:
        self.corpus = corpus
        self.ids: frozenset[str] = frozenset()
        self._conflicts: dict[str, set[str]] = {}  # by active edit: its demonstrations
        self._edits: Counter[str] = Counter()  # by demonstration: its number of active edits

    def change(self, *, add: Sequence[Edit] = (), remove: Sequence[str] = ()) -> None:
        """Remove and add active edits. The first edit of an id counts."""
        for name in remove:
            self._edits.subtract(self._conflicts.pop(name, ()))
        for edit in add:
            if edit.id not in self._conflicts:
                self._conflicts[edit.id] = self._conflicting(edit)
                self._edits.update(self._conflicts[edit.id])
        self.ids = self._with_records(frozenset(name for name, edits in self._edits.items() if edits))

    def without(self, hidden: frozenset[str]) -> frozenset[str]:
        """Return ``ids`` as if the edits of those ids were not active."""
        spared = Counter(name for edit in hidden & self._conflicts.keys() for name in self._conflicts[edit])
        if not spared:
            return self.ids
        return self._with_records(frozenset(name for name, edits in self._edits.items() if edits > spared[name]))

    @property
    def records_free(self) -> int:
        """Number of records that can still be demonstrated."""
        excluded = {self.corpus.demonstrations[name].record for name in self.ids}
        return len(self.corpus.records) - sum(self._used_up(record, self.ids) for record in excluded)

    def _with_records(self, conflicts: frozenset[str]) -> frozenset[str]:
        """Add the records that have no demonstration left of a kind. Only records of ``conflicts`` can."""
        records = {self.corpus.demonstrations[name].record for name in conflicts}
        used_up = [record for record in records if self._used_up(record, conflicts)]
        return conflicts.union(name for record in used_up for kind in KINDS for name in self.corpus.names(record, kind))

    def _used_up(self, record: int, excluded: frozenset[str]) -> bool:
        return not all(self.corpus.of(record, kind, excluded) for kind in KINDS)

    def _conflicting(self, edit: Edit) -> set[str]:
        """Return the demonstrations that conflict with ``edit``."""
        names = [edit.cloze.subject] if edit.cloze else []
        names += edit.after.subject.names if edit.after else ()
        found = map(self._naming, dict.fromkeys(names)) if names else [self._within(edit.statement)]
        return set().union(*found)

    def _naming(self, subject: str) -> set[str]:
        """Return the demonstrations that name ``subject``: whole words, ignoring case."""
        name = plain(subject)
        holders = [self.corpus.by_word.get(word, {}) for word in name.split()]
        return {each for each, text in min(holders, key=len, default={}).items() if name in text}

    def _within(self, statement: str) -> set[str]:
        """Return the demonstrations whose subject or prompt occurs in ``statement``."""
        text_words = plain(statement)
        filed = [self.corpus.by_rarest.get(word, {}) for word in dict.fromkeys(text_words.split())]
        return set().union(*(each for some in filed for text, each in some.items() if text in text_words))
