"""The behavioral part of the contract of editors."""

from __future__ import annotations

from ke_testing.editor import EditorContract
from ke_testing.profile import BEHAVIOR, EditorProfileContract


def held_to(contract: type) -> set[str]:
    return {name for name in dir(contract) if name.startswith("test_") and callable(getattr(contract, name))}


def test_profile_contract_contains_only_behavioral_tests() -> None:
    assert held_to(EditorProfileContract) == set(BEHAVIOR) < held_to(EditorContract)
