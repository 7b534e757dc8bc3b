"""Demonstrations that tell of an edit in force are barred. Each is read once, and each edit when it comes or goes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import cached_property

from ke_core.plugin import Edit
from ke_plugin_ike.corpus import KINDS, Corpus

WORD = re.compile(r"\w+")


class Bars:
    """``ids`` of the demonstrations that name the subject of an edit in force, as their own subject or as an object.

    Of an edit that is a statement and nothing else, the statement must not hold their subject or prompt.
    A record goes as a whole if nothing is left of one of its kinds.
    """

    def __init__(self, corpus: Corpus) -> None:
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

    def _with_records(self, told: frozenset[str]) -> frozenset[str]:
        corpus = self.corpus
        used_up = {
            number for number in range(len(corpus.records)) if not all(corpus.of(number, kind, told) for kind in KINDS)
        }
        return told.union(name for name, each in corpus.demonstrations.items() if each.record in used_up)

    def _telling(self, edit: Edit) -> set[str]:
        """The demonstrations that tell of ``edit``."""
        names = [edit.cloze.subject] if edit.cloze else []
        names += edit.after.subject.names if edit.after else ()
        found = map(self._naming, dict.fromkeys(names)) if names else [self._within(edit.statement)]
        return set().union(*found)

    def _naming(self, subject: str) -> set[str]:
        """The demonstrations that name ``subject``: whole words, whatever their case."""
        name = _plain(subject)
        holders = [self._by_word.get(word, {}) for word in name.split()]
        return {each for each, text in min(holders, key=len, default={}).items() if name in text}

    def _within(self, statement: str) -> set[str]:
        """The demonstrations whose subject or prompt stands in ``statement``."""
        told = _plain(statement)
        filed = [self._by_rarest.get(word, {}) for word in dict.fromkeys(told.split())]
        return set().union(*(each for some in filed for text, each in some.items() if text in told))

    @cached_property
    def _by_word(self) -> dict[str, dict[str, str]]:
        """Demonstrations and all that they say, by each word of it."""
        found: dict[str, dict[str, str]] = {}
        for name, each in self.corpus.demonstrations.items():
            text = _plain(f"{each.fact} {each.prompt} {each.answer}")
            for word in text.split():
                found.setdefault(word, {})[name] = text
        return found

    @cached_property
    def _by_rarest(self) -> dict[str, dict[str, set[str]]]:
        """Subjects and prompts, and the demonstrations that have them, by the word of theirs that the fewest have."""
        owners: dict[str, set[str]] = {}
        for name, each in self.corpus.demonstrations.items():
            for text in (each.prompt, self.corpus.records[each.record].subject):
                owners.setdefault(_plain(text), set()).add(name)
        uses = Counter(word for text in owners for word in set(text.split()))
        found: dict[str, dict[str, set[str]]] = {}
        for text, names in owners.items():
            if words := text.split():
                found.setdefault(min(words, key=lambda word: uses[word]), {})[text] = names
        return found


def _plain(text: str) -> str:
    """The words, a space before and after each, so that one text in another is whole words in others."""
    return f" {' '.join(WORD.findall(text.casefold()))} "
