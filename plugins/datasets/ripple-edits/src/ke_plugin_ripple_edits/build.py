"""The builder: sample edits from a graph and write each with its tests as a record in the published format."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from attrs import frozen

from ke_benchmarks.graph import BuildTools, GraphEdit, KnowledgeGraph, RecallProbe, Record
from ke_core.plugin import BadData, Case, Gold
from ke_plugin_ripple_edits import RippleBuildConfig
from ke_plugin_ripple_edits.cases import cases_of
from ke_plugin_ripple_edits.criteria import BuiltTest, CriteriaBuilder
from ke_plugin_ripple_edits.given_edits import EditPlanner, GivenWorlds
from ke_plugin_ripple_edits.joint_edits import JointEdits
from ke_plugin_ripple_edits.rules import Rules, read
from ke_plugin_ripple_edits.sampling import EditSampler
from ke_plugin_ripple_edits.wording import FactWriter
from ke_plugin_ripple_edits.world import RippleWorld, UniqueNames

SPARE = 2
"""Edits sampled for each requested one: some have no consequence, some are not recalled by the model."""


@frozen
class RippleBuilder:
    """RippleEdits' pipeline (section 4.1)."""

    config: RippleBuildConfig

    def records(self, graph: KnowledgeGraph, tools: BuildTools) -> Iterator[Record]:
        """Return up to ``tools.cases`` records; none depends on a fact that another edits. Raises BadData if there are
        none.
        """
        rules, names = self._rules(graph), UniqueNames(graph)
        chooser = EditSampler(graph=graph, rules=rules, config=self.config, tools=tools, names=names)
        drawn = list(islice(chooser.worlds(), SPARE * tools.cases))
        known = list(self._known(drawn, tools))
        wording = FactWriter(graph=graph, rules=rules)
        together = JointEdits()
        for world in known:
            criteria = CriteriaBuilder(world=world, wording=wording, names=names, backwards=self.config.backwards)
            reason = together.take(world, criteria.tests())
            if reason:
                tools.dropped(reason)
            if len(together.cases) == tools.cases:
                break
        if not together.cases:
            raise BadData(
                f"no edit of a fact in {graph.name} has a consequence",
                hint="add relations with a cloze, and objects that have facts of their own",
            )
        for case in together.cases:
            yield self._record(case.world, case.tests, tools)

    def from_edits(
        self, edits: Sequence[GraphEdit], graph: KnowledgeGraph, changing: Collection[str] = ()
    ) -> list[Case | str]:
        """Return the case of each edit, or why there is none, as ``EditBuilder`` describes."""
        rules, names, tools = self._rules(graph), UniqueNames(graph), BuildTools()
        sampler = EditSampler(graph=graph, rules=rules, config=self.config, tools=tools, names=names)
        planner = EditPlanner(graph=graph, names=names, editable=sampler.editable)
        plans = [planner.plan(edit) for edit in edits]
        given, wording = GivenWorlds.of(plans, edits, graph, rules, changing), FactWriter(graph=graph, rules=rules)
        records = []
        for world in given.worlds:
            criteria = CriteriaBuilder(world=world, wording=wording, names=names, backwards=self.config.backwards)
            records.append(self._record(world, given.independent(world, criteria.tests()), tools))
        cases = iter(cases_of(records, "the built cases"))
        return [plan if isinstance(plan, str) else next(cases) for plan in plans]

    def _rules(self, graph: KnowledgeGraph) -> Rules:
        return Rules.of(read(Path(self.config.rules).expanduser() if self.config.rules else None), graph)

    def _known(self, drawn: Sequence[RippleWorld], tools: BuildTools) -> Iterator[RippleWorld]:
        """Yield edits whose old fact the model recalls; injected facts always pass."""
        if self.config.subset == "recent" or not drawn:
            yield from drawn
            return
        facts = [
            RecallProbe(
                question=_question(world) or _cloze(world),
                cloze=_cloze(world),
                gold=Gold(entities=world.plan.old, require="any"),
            )
            for world in drawn
        ]
        for world, known in zip(drawn, tools.recalls(facts), strict=True):
            if known:
                yield world
            else:
                tools.dropped("the model does not recall the edited fact")

    def _record(self, world: RippleWorld, tests: Mapping[str, Sequence[BuiltTest]], tools: BuildTools) -> Record:
        plan, phrase = world.plan, _cloze(world)
        question = _question(world)
        edit: dict[str, Any] = {
            "prompt": f"{phrase} {world.graph.mention(plan.new)}.",
            "subject_id": plan.subject.key,
            "relation": plan.relation,
            "target_id": plan.new.key,
            "phrase": phrase,
            "question": tools.phrase([question])[0] if question else None,
            "subject_label": plan.subject.label,
            "subject_aliases": list(plan.subject.aliases),
            "target_label": plan.new.label,
            "target_aliases": list(plan.new.aliases),
        }
        if plan.old and self.config.subset != "recent":
            old = plan.old[0]
            edit["original_fact"] = {
                "prompt": f"{phrase} {world.graph.mention(old)}.",
                "subject_id": plan.subject.key,
                "relation": plan.relation,
                "target_id": old.key,
                "target_label": old.label,
                "target_aliases": list(old.aliases),
            }
        return {
            "example_type": self.config.subset,
            "edit": edit,
            **{key: [one.test for one in found] for key, found in tests.items()},
        }


def _cloze(world: RippleWorld) -> str:
    return world.graph.cloze(world.plan.subject, world.plan.relation).prompt


def _question(world: RippleWorld) -> str | None:
    if world.graph.relation(world.plan.relation).question is None:
        return None
    return world.graph.question(world.plan.subject, world.plan.relation)
