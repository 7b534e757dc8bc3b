"""Tests of given edits, instead of sampled ones: ``RippleBuilder.from_edits``.

Sampled edits are chosen so that no edit changes a fact that the tests of another edit depend on (``joint_edits``).
Given edits cannot be chosen. Instead, tests that depend on a fact that another edit changes are left out.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from attrs import frozen

from ke_benchmarks.graph import GraphEdit, KnowledgeGraph
from ke_plugin_ripple_edits.criteria import BuiltTest
from ke_plugin_ripple_edits.rules import Rules
from ke_plugin_ripple_edits.world import Place, PlannedEdit, RippleWorld, UniqueNames


@frozen(kw_only=True)
class EditPlanner:
    """Turns given edits into planned ones. ``editable``: the relations that can be edited."""

    graph: KnowledgeGraph
    names: UniqueNames
    editable: Collection[str]

    def plan(self, edit: GraphEdit) -> PlannedEdit | str:
        """Return the plan of an edit, or why there is none."""
        relation, link = edit.relation, self.graph.links[edit.relation]
        known = self.graph.objects(edit.subject, relation)
        if relation not in self.editable:
            return f"the relation {link.relation.label!r} has numbers as objects, or no cloze"
        if link.functional and len(known) > 1:
            return f"the graph has several objects for {link.relation.label!r}: which one is replaced is ambiguous"
        if not self.names.clear(edit.new):
            return f"the graph has several entities called {edit.new.label!r}"
        return PlannedEdit(
            subject=self.graph.entity(edit.subject),
            relation=relation,
            new=edit.new,
            old=tuple(entity for entity in known if entity != edit.new),
            functional=link.functional,
        )


@frozen(kw_only=True)
class GivenWorlds:
    """The worlds of all given edits. ``changing``: keys of entities of which any fact may change too."""

    worlds: Sequence[RippleWorld]
    changing: frozenset[str]

    @classmethod
    def of(
        cls,
        plans: Sequence[PlannedEdit | str],
        edits: Sequence[GraphEdit],
        graph: KnowledgeGraph,
        rules: Rules,
        changing: Collection[str],
    ) -> GivenWorlds:
        """Return the worlds of the planned edits. Entities of the other edits may change too."""
        unplanned = [edit for edit, plan in zip(edits, plans, strict=True) if isinstance(plan, str)]
        return cls(
            worlds=[RippleWorld(graph=graph, rules=rules, plan=plan) for plan in plans if not isinstance(plan, str)],
            changing=frozenset({*changing, *(key for edit in unplanned for key in (edit.subject, edit.new.key))}),
        )

    def independent(self, world: RippleWorld, tests: Mapping[str, Sequence[BuiltTest]]) -> dict[str, list[BuiltTest]]:
        """Return the tests of a world that no other edit can change."""
        others = frozenset(place for other in self.worlds if other is not world for place in other.affected)

        def stays(place: Place) -> bool:
            return place not in others and (place[0] not in self.changing or place == world.plan.place)

        return {key: [test for test in found if all(map(stays, places(test)))] for key, found in tests.items()}


def places(test: BuiltTest) -> frozenset[Place]:
    """Return the facts that a test asks and depends on."""
    return test.rests | {(query["subject_id"], query["relation"]) for query in test.test["test_queries"]}
