"""Removal of the period at the end of a sentence, but not of a name."""

from __future__ import annotations

import pytest

from ke_memory.plugin import without_period


@pytest.mark.parametrize(
    "name", ["W. G.", "Liverpool F.C.", "Fiat S.p.A.", "LL.M.", "Apple Inc.", "M. L. King Jr.", "Q"]
)
def test_period_of_a_name_is_kept(name) -> None:
    assert without_period(f" {name}\n") == name


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ("Rome.", "Rome"),
        ("W. G. Sebald. ", "W. G. Sebald"),
        ("Washington, D.C..", "Washington, D.C."),
        ("Windows 7.", "Windows 7"),
        ("Windows 3.1.", "Windows 3.1"),
        ("OpenOffice.org.", "OpenOffice.org"),
        ("Node.js.", "Node.js"),
    ],
)
def test_period_of_the_sentence_is_removed(said, name) -> None:
    assert without_period(said) == name


@pytest.mark.parametrize("said", ["", " ", ".", " . "])
def test_blank_text_becomes_empty(said) -> None:
    assert without_period(said) == ""
