"""Cases that can all be edited together: none depends on a fact that another edits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from attrs import define, field, frozen

from ke_plugin_ripple_edits.criteria import BuiltTest
from ke_plugin_ripple_edits.world import Place, RippleWorld

CONSEQUENCES = ("Logical_Generalization", "Compositionality_I", "Compositionality_II", "Forgetfulness")
"""Criteria of which an edit must have a test. The others are met by changing nothing."""
LEAST = 2
"""Minimum number of such tests that a case keeps if a later case removes some."""
EMPTY, NEEDED = "the edit has no consequence", "other cases depend on the changed facts"


@frozen(kw_only=True)
class AcceptedEdit:
    """An edit and its tests, by the key of the published format."""

    world: RippleWorld
    tests: dict[str, list[BuiltTest]]


@define(kw_only=True)
class JointEdits:
    """Accepts one case after another. Tests that a later edit would change are removed if enough others remain."""

    cases: list[AcceptedEdit] = field(factory=list)
    _affected: set[Place] = field(factory=set)
    _resting: dict[Place, list[tuple[AcceptedEdit, str, BuiltTest]]] = field(factory=dict)

    def take(self, world: RippleWorld, tests: Mapping[str, Sequence[BuiltTest]]) -> str:
        """Accept the case, or return why it is rejected."""
        kept = {key: [test for test in found if not test.rests & self._affected] for key, found in tests.items()}
        if not any(kept[key] for key in CONSEQUENCES):
            return EMPTY
        lost = list(self._lost(world))
        if not self._can_lose(lost):
            return NEEDED
        for case, key, test in lost:
            case.tests[key].remove(test)
        taken = AcceptedEdit(world=world, tests=kept)
        self.cases.append(taken)
        self._affected |= world.affected
        for key, found in kept.items():
            for test in found:
                for place in test.rests:
                    self._resting.setdefault(place, []).append((taken, key, test))
        return ""

    def _lost(self, world: RippleWorld) -> list[tuple[AcceptedEdit, str, BuiltTest]]:
        """Return each test that depends on the changed facts, once."""
        rows = (row for place in sorted(world.affected) for row in self._resting.get(place, ()))
        return [row for row in {id(row[2]): row for row in rows}.values() if row[2] in row[0].tests[row[1]]]

    def _can_lose(self, lost: Sequence[tuple[AcceptedEdit, str, BuiltTest]]) -> bool:
        fewer = Counter(id(case) for case, key, _test in lost if key in CONSEQUENCES)
        cases = {id(case): case for case, _key, _test in lost}
        left = (sum(len(case.tests[key]) for key in CONSEQUENCES) - fewer[name] for name, case in cases.items())
        return all(tests >= LEAST for tests in left)
