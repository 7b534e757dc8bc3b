"""Statements of a file or an endpoint, collected in memory before a graph is built from them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from attrs import define, field

from ke_benchmarks.graph.rows import ALIAS, ENGLISH, KIND, LABEL, GraphRow

Objects = Mapping[str, tuple[str, ...]]
"""The objects of each subject of a relation, by key."""

RANKS = ("en", "", "en-")
"""Languages by preference for labels: English, none, a variety of English, any other."""


@define
class FactStore:
    """Distinct facts, by relation and subject, and the labels, aliases and types of entities, by key."""

    facts: dict[str, Objects] = field(factory=dict)
    kinds: dict[str, set[str]] = field(factory=dict)
    _labels: dict[str, set[tuple[int, str]]] = field(factory=dict)
    _aliases: dict[str, set[tuple[int, str]]] = field(factory=dict)

    @classmethod
    def of(cls, rows: Iterable[GraphRow]) -> FactStore:
        """Collect rows. Relations, subjects and objects are sorted by key."""
        found, keys = cls(), dict[str, str]()
        facts: dict[str, dict[str, list[str]]] = {}
        texts = {LABEL: found._labels, ALIAS: found._aliases}
        for row in rows:
            if row.relation in texts:
                texts[row.relation].setdefault(row.subject, set()).add((_rank(row.language), row.object))
            elif row.relation == KIND:
                found.kinds.setdefault(row.subject, set()).add(row.object)
            else:
                subject, object_ = (keys.setdefault(key, key) for key in (row.subject, row.object))
                facts.setdefault(row.relation, {}).setdefault(subject, []).append(object_)
        for relation in sorted(facts):
            by_subject = facts.pop(relation)
            found.facts[relation] = {key: tuple(sorted(set(by_subject[key]))) for key in sorted(by_subject)}
        return found

    def names(self, key: str) -> tuple[str, tuple[str, ...]]:
        """Return the label, preferably English, and the aliases: other English labels, and declared aliases."""
        ranked = sorted(self._labels.get(key, ()))
        label = ranked[0][1] if ranked else ""
        others = (*ranked[1:], *sorted(self._aliases.get(key, ())))
        english = [text for rank, text in others if rank < len(RANKS) and text != (label or key)]
        return label, tuple(dict.fromkeys(english))

    def statements(self) -> Iterator[tuple[str, str, str]]:
        """Yield subject, relation and object of every fact."""
        for relation, by_subject in self.facts.items():
            for subject, objects in by_subject.items():
                yield from ((subject, relation, object_) for object_ in objects)

    def remove(self, keys: Collection[str]) -> int:
        """Remove every fact of the entities and return the number of removed facts."""
        gone, statements = frozenset(keys), list(self.statements())
        kept = [GraphRow(*fact) for fact in statements if fact[0] not in gone and fact[2] not in gone]
        self.facts = FactStore.of(kept).facts
        self.kinds = {key: kinds - gone for key, kinds in self.kinds.items() if key not in gone and kinds - gone}
        return len(statements) - len(kept)


def _rank(language: str) -> int:
    if language.lower() in RANKS[:2]:
        return RANKS.index(language.lower())
    return 2 if ENGLISH.match(language) else 3
