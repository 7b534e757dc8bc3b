"""Write triples as sentences that stop before the answer (step 4), with clozes from the graph and the table."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from attrs import frozen

from ke_benchmarks.graph import KnowledgeGraph
from ke_core.plugin import Entity
from ke_plugin_ripple_edits.rules import Rules

SLOT = "{}"
IS = re.compile(r" (?:is|are)\Z")


@frozen(kw_only=True)
class FactWriter:
    """Writes the facts of a graph as sentences."""

    graph: KnowledgeGraph
    rules: Rules

    def cloze(self, subject: Entity, relation: str) -> str | None:
        """Return the sentence about a named entity; None if its type has no cloze."""
        link = self.graph.links.get(relation)
        if link is not None and link.relation.cloze and link.subject == self.graph.kind(subject):
            return self.graph.cloze(subject, relation).prompt
        return _filled(self.rules.words(relation).cloze, self.graph.mention(subject))

    def renamed(self, subject: Entity, alias: str, relation: str) -> str | None:
        """Return the sentence about an entity under another name."""
        link = self.graph.links[relation]
        words = alias.split()
        the = words[0].casefold() != "the" and any(word in self.rules.table.articles for word in words)
        return _filled(link.relation.cloze, f"the {alias}" if the else alias)

    def composed(self, subject: Entity, first: str, second: str) -> str | None:
        """Return the sentence about an entity described by its relation to another: (subject, first then second, ?)."""
        described = self._described(subject, first)
        if described is None:
            return None
        link = self.graph.links[second]
        return _filled(self.rules.words(second).cloze or link.relation.cloze, described)

    def besides(self, sentence: str, others: Sequence[Entity]) -> str:
        """Return the same sentence, excluding ``others``."""
        named = [self.graph.mention(other) for other in others]
        listed = " and ".join(filter(None, (", ".join(named[:-1]), named[-1])))
        if IS.search(sentence) and len(named) == 1:
            at = sentence.rindex(" ")
            return f"{sentence[:at]}, which is not {listed},{sentence[at:]}"
        lower = sentence.startswith("The ")
        return f"Besides {listed}, {'t' + sentence[1:] if lower else sentence}"

    def _described(self, subject: Entity, relation: str) -> str | None:
        """Return a description such as ``the capital of Peru``: the table's noun phrase, or the start of the graph's
        cloze.
        """
        mention = self.graph.mention(subject)
        own = self.rules.words(relation).describe
        if own is not None:
            return own.replace(SLOT, mention)
        noun = self.graph.noun(relation)
        return f"the {noun.replace(SLOT, mention)}" if noun else None


def _filled(template: str | None, mention: str) -> str | None:
    if template is None:
        return None
    said = template.replace(SLOT, mention)
    return said[0].upper() + said[1:]


def asked(prompt: str, subject: Entity, relation: str, objects: Sequence[Entity], **two_hop: Any) -> dict[str, Any]:
    """Return a query in the published format. ``two_hop``: its second relation, targets and answers."""
    answers = two_hop.pop("answers", objects)
    return {
        "prompt": prompt,
        "answers": [{"value": entity.label, "aliases": list(entity.aliases)} for entity in answers],
        "query_type": "two_hop" if two_hop else "regular",
        "subject_id": subject.key,
        "relation": relation,
        "target_ids": [entity.key for entity in objects],
        "phrase": prompt if two_hop else None,
        **two_hop,
    }
