"""Demonstrations that tell of an edit in force are barred. An edit is read when it comes or goes, and then only it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ke_core.plugin import Edit
from ke_plugin_ike.corpus import KINDS, DemonstrationCorpus, plain


class SubjectFilter:
    """``ids`` of the demonstrations that name the subject of an edit in force, as their own subject or as an object.

    Of an edit that is a statement and nothing else, the statement must not hold their subject or prompt.
    A record goes as a whole if nothing is left of one of its kinds.
    """

    def __init__(self, corpus: DemonstrationCorpus) -> None:
        self.corpus = corpus
        self.ids: frozenset[str] = frozenset()
        self._told: dict[str, set[str]] = {}  # by edit in force: the demonstrations that tell of it
        self._edits: Counter[str] = Counter()  # by demonstration: how many edits in force it tells of

    def change(self, *, add: Sequence[Edit] = (), remove: Sequence[str] = ()) -> None:
        """Take edits off and put others in force; of one id the first counts."""
        for name in remove:
            self._edits.subtract(self._told.pop(name, ()))
        for edit in add:
            if edit.id not in self._told:
                self._told[edit.id] = self._telling(edit)
                self._edits.update(self._told[edit.id])
        self.ids = self._with_records(frozenset(name for name, edits in self._edits.items() if edits))

    def without(self, hidden: frozenset[str]) -> frozenset[str]:
        """``ids`` as if the edits of those ids were not in force."""
        spared = Counter(name for edit in hidden & self._told.keys() for name in self._told[edit])
        if not spared:
            return self.ids
        return self._with_records(frozenset(name for name, edits in self._edits.items() if edits > spared[name]))

    @property
    def records_free(self) -> int:
        """The records that can still be demonstrated."""
        barred = {self.corpus.demonstrations[name].record for name in self.ids}
        return len(self.corpus.records) - sum(self._used_up(record, self.ids) for record in barred)

    def _with_records(self, told: frozenset[str]) -> frozenset[str]:
        """Only the records of ``told`` are looked at: the others are as they were."""
        records = {self.corpus.demonstrations[name].record for name in told}
        used_up = [record for record in records if self._used_up(record, told)]
        return told.union(name for record in used_up for kind in KINDS for name in self.corpus.names(record, kind))

    def _used_up(self, record: int, barred: frozenset[str]) -> bool:
        return not all(self.corpus.of(record, kind, barred) for kind in KINDS)

    def _telling(self, edit: Edit) -> set[str]:
        """The demonstrations that tell of ``edit``."""
        names = [edit.cloze.subject] if edit.cloze else []
        names += edit.after.subject.names if edit.after else ()
        found = map(self._naming, dict.fromkeys(names)) if names else [self._within(edit.statement)]
        return set().union(*found)

    def _naming(self, subject: str) -> set[str]:
        """The demonstrations that name ``subject``: whole words, whatever their case."""
        name = plain(subject)
        holders = [self.corpus.by_word.get(word, {}) for word in name.split()]
        return {each for each, text in min(holders, key=len, default={}).items() if name in text}

    def _within(self, statement: str) -> set[str]:
        """The demonstrations whose subject or prompt stands in ``statement``."""
        told = plain(statement)
        filed = [self.corpus.by_rarest.get(word, {}) for word in dict.fromkeys(told.split())]
        return set().union(*(each for some in filed for text, each in some.items() if text in told))
