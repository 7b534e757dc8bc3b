"""Where a name ends at the end of a sentence (M2)."""

from __future__ import annotations

import pytest

from ke_memory.plugin import without_period


@pytest.mark.parametrize("name", ["W. G.", "Liverpool F.C.", "Fiat S.p.A.", "Apple Inc.", "M. L. King Jr.", "Q"])
def test_m2_a_name_keeps_a_period_of_its_own(name) -> None:
    assert without_period(f" {name}\n") == name


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ("Rome.", "Rome"),
        ("W. G. Sebald. ", "W. G. Sebald"),
        ("Washington, D.C..", "Washington, D.C."),
        ("Windows 7.", "Windows 7"),
    ],
)
def test_the_period_that_closes_the_sentence_goes(said, name) -> None:
    assert without_period(said) == name


@pytest.mark.parametrize("said", ["", " ", ".", " . "])
def test_nothing_stays_nothing(said) -> None:
    assert without_period(said) == ""
