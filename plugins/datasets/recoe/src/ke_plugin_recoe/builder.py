"""ReCoE's construction: from any knowledge graph, or from questions and a model (``ke_plugin_recoe.construction``)."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import cast

from attrs import evolve, frozen

from ke_benchmarks.graph import BuildTools, KnowledgeGraph, RecallProbe
from ke_benchmarks.graph import Record as JsonRecord
from ke_core.plugin import BadData
from ke_plugin_recoe import GROUPS, RecoeBuild
from ke_plugin_recoe.cases import golds
from ke_plugin_recoe.construction import generate_records
from ke_plugin_recoe.records import RecoeRecord, Scheme
from ke_plugin_recoe.schemes import Schemes
from ke_plugin_recoe.words import RecoeWording, Table
from ke_plugin_recoe.world import WorldSampler

SUBJECTS = 1000  # minimum for each relation
UNKNOWN = "the model does not answer the question correctly"


@frozen(kw_only=True)
class RecoeBuilder:
    """Builder of ReCoE cases. ``words``: phrases of relations that replace those of the graph."""

    config: RecoeBuild
    words: Table

    def records(self, graph: KnowledgeGraph, tools: BuildTools) -> Iterator[JsonRecord]:
        """Yield up to ``tools.cases`` records as JSON values, ordered so that the first ones are representative.

        Raises BadData if the graph has neither numbers to compare nor sets to count.
        """
        return (record.json() for record in self.built(graph, tools))

    def built(self, graph: KnowledgeGraph, tools: BuildTools) -> Iterator[RecoeRecord]:
        """Yield the records as objects."""
        found = _records_by_scheme(self._schemes(graph, tools), tools)
        if not found:
            raise BadData(
                f"{graph.name} has no usable question of any scheme",
                hint="it needs a relation to numbers (object: number), or one with several objects per subject "
                "(functional: false), with at least two subjects",
            )
        random.Random(f"{tools.seed}/order").shuffle(found)  # noqa: S311  a choice, not a secret
        questions = tools.phrase([record.question for record in found])
        return (evolve(record, question=new) for record, new in zip(found, questions, strict=True))

    def from_questions(self, path: Path, tools: BuildTools) -> Iterator[JsonRecord]:
        """Yield records by the paper's construction: a model writes facts and counterfactuals for the questions of a
        file.
        """
        return (record.json() for record in generate_records(path, tools, self.config))

    def _schemes(self, graph: KnowledgeGraph, tools: BuildTools) -> Schemes:
        sampling = WorldSampler(
            graph=graph,
            relations=graph.relations(self.config.relations) or tuple(graph.links),
            share=self.config.share,
            margin=self.config.margin,
            size=max(SUBJECTS, 4 * tools.cases),
            seed=tools.seed,
        )
        return Schemes(
            graph=graph,
            wording=RecoeWording(graph=graph, table=self.words),
            world=sampling.world(),
            margin=self.config.margin,
            seed=tools.seed,
        )


def _records_by_scheme(schemes: Schemes, tools: BuildTools) -> list[RecoeRecord]:
    """Return the same number of records for each scheme. Other schemes replace exhausted ones."""
    feeds = {scheme: _recalled(schemes.records(cast("Scheme", scheme)), tools) for scheme in GROUPS}
    found: list[RecoeRecord] = []
    while feeds and len(found) < tools.cases:
        for scheme in tuple(feeds):
            more = list(islice(feeds[scheme], 1)) if len(found) < tools.cases else []
            found += more
            if not more:
                del feeds[scheme]
    return found


def _recalled(records: Iterator[RecoeRecord], tools: BuildTools) -> Iterator[RecoeRecord]:
    """Yield the records that the model answers with A: only these can flip."""
    for record in records:
        gold = golds(record)[0]
        cloze = f"{record.question} The answer is"
        if all(tools.recalls([RecallProbe(question=record.question, cloze=cloze, gold=gold)])):
            yield record
        else:
            tools.dropped(UNKNOWN)
