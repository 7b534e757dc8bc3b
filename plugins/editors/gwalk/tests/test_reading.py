"""Parsing of the lines that the model writes."""

from __future__ import annotations

import pytest

from ke_core.plugin import Generated
from ke_plugin_gwalk import reading


def said(text: str, finish="stop") -> Generated:
    return Generated(text=text, finish=finish)


@pytest.mark.parametrize(
    ("text", "paper", "default"),
    [
        (" [Mira Toll]", "Mira Toll", "Mira Toll"),
        (" [Mira Toll's]", "Mira Toll", "Mira Toll"),
        (" [Mira Toll\u2019s]", "Mira Toll\u2019s", "Mira Toll"),
        (" [Conan O'Brien]", "Conan O", "Conan O'Brien"),
        (" [W. G. Sebald] and more", "W. G. Sebald", "W. G. Sebald"),
        (" Mira Toll", "", "Mira Toll"),
        (" [Mira", "", "Mira"),
        ("", "", ""),
    ],
)
def test_start_entity(text, paper, default) -> None:
    assert (reading.bracketed(said(text)), reading.named(said(text))) == (paper, default)


def test_truncated_entity_is_not_parsed() -> None:
    assert reading.named(said(" Mira", "length")) == ""
    assert reading.named(said(" [Mira Toll] is", "length")) == "Mira Toll"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("(a)->(b)->answer", ("a", "b")),
        (" (a) -> (b) -> answer", ("a", "b")),
        ("(a)->(answer)", ("a",)),
        ("(a)->Answer.", ("a",)),
        ("(a)->(answered by)", ("a", "answered by")),
        ("(a (of b))->answer", ("a (of b)",)),
        ("(a)->b->(c)", ("a",)),
        ("(a)", ("a",)),
    ],
)
def test_relations_of_a_path(text, found) -> None:
    assert reading.relations(said(text), 4) == found


def test_names_with_periods_stay_complete() -> None:
    """The released code stops on token ids, which cuts "W. G. Sebald" at its first period."""
    for text, name in {
        " The author of Austerlitz is {}. W. G. Sebald": "W. G. Sebald",
        " The pen name of W. G. Sebald is {}. Max": "Max",
        " The son is {}. Martin L. King Jr.": "Martin L. King Jr.",
        " The agency is {}. The C.I.A.": "The C.I.A.",
        " The country is {}. Iraq.": "Iraq",
        " The platform is {}. .NET Framework": ".NET Framework",
        " The country is {} Iraq": "Iraq",
        " The country is Iraq. Iraq": "Iraq",
        " {} is the author of Austerlitz. W. G. Sebald": "W. G. Sebald",
        " The city of {} is the capital of Boland. Tora.": "Tora",
        " The author is {} W. G. Sebald": "W. G. Sebald",
    }.items():
        assert reading.after_slot(said(text)) == name
    assert reading.after_first_period(said(" The pen name of W. G. Sebald is {}. Max")) == "G. Sebald is {}. Max"


@pytest.mark.parametrize("read", [reading.after_slot, reading.after_first_period])
@pytest.mark.parametrize(("text", "finish", "why"), [("Iraq", "eos", "unparsed"), ("It is {}. Ir", "length", "length")])
def test_unparsable_answer_has_an_outcome(read, text, finish, why) -> None:
    with pytest.raises(reading.WalkFailed) as end:
        read(said(text, finish))
    assert end.value.outcome == why
