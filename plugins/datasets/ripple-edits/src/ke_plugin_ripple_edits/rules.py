"""The table of rules (``rules.toml``, which explains its format), and the part that applies to a graph."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from attrs import evolve, field, frozen, validators

from ke_benchmarks import structure_record
from ke_benchmarks.graph import KnowledgeGraph
from ke_core.plugin import one_slot, parse_toml, read_toml

ENDS = ("subject", "object")
HINT = "rules.toml in ke-plugin-ripple-edits explains the format at the top"
optional_slot = validators.optional(one_slot)


@frozen(kw_only=True)
class RelationTexts:
    """Phrases and properties of a relation in the table."""

    also: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    inverse: str | None = None
    describe: str | None = field(default=None, validator=optional_slot)
    cloze: str | None = field(default=None, validator=optional_slot)
    quiet: bool = False


def _walk(_instance: object, _attribute: object, value: str) -> None:
    if value.partition("/")[0] not in ENDS:
        raise ValueError(f"{value!r} must start at subject or object")


@frozen(kw_only=True)
class RuleQuery:
    """A query of a rule."""

    about: str = field(validator=_walk)
    ask: str
    answer: tuple[str, ...] = field(default=(), validator=validators.deep_iterable(_walk))
    where: Mapping[str, str] = field(factory=dict)
    count: bool = False
    known: bool = False
    says: tuple[str, ...] = ()

    def __attrs_post_init__(self) -> None:
        """Check that there are either walks or text."""
        if bool(self.answer) == bool(self.says):
            raise ValueError("exactly one of answer and says is required")


@frozen(kw_only=True)
class Rule:
    """After an edit of one of these relations, one of these queries must be answered correctly."""

    edit: tuple[str, ...] = field(validator=validators.min_len(1))
    any: tuple[RuleQuery, ...] = field(validator=validators.min_len(1))


@frozen(kw_only=True)
class RuleFile:
    """A file of rules."""

    relations: Mapping[str, RelationTexts] = field(factory=dict)
    rule: tuple[Rule, ...] = ()
    articles: tuple[str, ...] = ()

    def __attrs_post_init__(self) -> None:
        """Reject rules with unknown relations, which would never apply."""
        for at, rule in enumerate(self.rule, start=1):
            for name in (*rule.edit, *(step for ask in rule.any for step in _steps(ask))):
                if name not in self.relations:
                    raise ValueError(f"rule {at} names the unknown relation {name!r}")
        for name, words in self.relations.items():
            for other in (*words.changes, *((words.inverse,) if words.inverse else ())):
                if other not in self.relations:
                    raise ValueError(f"relations.{name} names the unknown relation {other!r}")


def _steps(ask: RuleQuery) -> tuple[str, ...]:
    walks = (ask.about, *ask.answer)
    return (ask.ask, *ask.where, *(step for walk in walks for step in walk.split("/")[1:]))


def read(path: Path | None = None) -> RuleFile:
    """Read our own table, and with ``path`` add that file's relations and rules. Raises BadData."""
    raw = parse_toml(files("ke_plugin_ripple_edits").joinpath("rules.toml").read_bytes(), "rules.toml")
    if path is None:
        return structure_record(raw, RuleFile, where="rules.toml", hint=HINT)
    own = read_toml(path, hint=HINT)
    alone = structure_record(
        {**own, "relations": {**raw["relations"], **_table(own)}}, RuleFile, where=str(path), hint=HINT
    )
    ours = structure_record(raw, RuleFile, where="rules.toml", hint=HINT)
    return evolve(alone, rule=(*ours.rule, *alone.rule), articles=(*ours.articles, *alone.articles))


def _table(own: Mapping[str, Any]) -> Mapping[str, Any]:
    found = own.get("relations", {})
    return found if isinstance(found, dict) else {"relations": found}


@frozen(kw_only=True, slots=False)
class Rules:
    """The table applied to a graph. Relations have the graph's keys, or the table's names if the graph lacks them."""

    table: RuleFile
    graph: KnowledgeGraph
    keys: Mapping[str, str]
    """Name in the table to key in the graph."""

    @classmethod
    def of(cls, table: RuleFile, graph: KnowledgeGraph) -> Rules:
        """Match relations by key, then by label."""
        labels = {link.relation.label.casefold(): key for key, link in reversed(list(graph.links.items()))}
        keys: dict[str, str] = {}
        for name, words in table.relations.items():
            for spelled in (name, *words.also):
                key = spelled if spelled in graph.links else labels.get(spelled.casefold())
                if key is not None and key not in keys.values():
                    keys[name] = key
                    break
        return cls(table=table, graph=graph, keys=keys)

    def key(self, name: str) -> str:
        """Return the graph's key of the table's name, or the name itself if the graph has no such relation."""
        return self.keys.get(name, name)

    def words(self, key: str) -> RelationTexts:
        """Return the table's entry for the graph's relation."""
        return self.table.relations.get(self._names.get(key, key), RelationTexts())

    def inverse(self, key: str) -> str | None:
        """Return the inverse relation, if the graph has it."""
        link = self.graph.links.get(key)
        if link is not None and link.inverse is not None:
            return link.inverse
        name = self.words(key).inverse
        return self.keys.get(name) if name else None

    def rules(self, key: str) -> tuple[Rule, ...]:
        """Return the rules for an edit of the graph's relation."""
        return tuple(rule for rule in self.table.rule if key in map(self.key, rule.edit))

    def touched(self, key: str) -> frozenset[str]:
        """Return the relations of the edited subject that an edit may change: D_r of the paper, and the relation
        itself.
        """
        asked = {ask.ask for rule in self.rules(key) for ask in rule.any if ask.about == "subject"}
        return frozenset({key, *map(self.key, (*self.words(key).changes, *asked))})

    def touched_object(self, key: str) -> frozenset[str]:
        """Return the relations of the new object that an edit changes."""
        asked = {self.key(ask.ask) for rule in self.rules(key) for ask in rule.any if ask.about == "object"}
        inverse = self.inverse(key)
        return frozenset(asked | ({inverse} if inverse else set()))

    @property
    def _names(self) -> dict[str, str]:
        return {key: name for name, key in self.keys.items()}
