"""Splitting of an answer into the items that it lists."""

from __future__ import annotations

import pytest

from ke_plugin_set.splitting import items, normal

NAMES = ("Bosnia and Herzegovina", "Washington, D.C.", "Oslo")


@pytest.mark.parametrize(
    ("text", "listed"),
    [
        ("Oslo", ["Oslo"]),
        ("Oslo, Rome", ["Oslo", "Rome"]),
        ("Oslo; Rome", ["Oslo", "Rome"]),
        ("Oslo and Rome.", ["Oslo", "Rome"]),
        ("Oslo, Rome, and Lima", ["Oslo", "Rome", "Lima"]),
        ("Oslo & Rome", ["Oslo", "Rome"]),
        ("Oslo\nRome\n", ["Oslo", "Rome"]),
        ("1. Oslo\n2. Rome", ["Oslo", "Rome"]),
        ("1) Oslo 2) Rome 10) Lima", ["Oslo", "Rome", "Lima"]),
        ("- Oslo\n- Rome\n* Lima\n\u2022 Paris", ["Oslo", "Rome", "Lima", "Paris"]),
        ("The cities are: Oslo and Rome", ["Oslo", "Rome"]),
        ("The cities are:\n1. Oslo\n2. Rome", ["Oslo", "Rome"]),
        ("Andorra, Sandnes", ["Andorra", "Sandnes"]),
        ("Guinea-Bissau, 3.5 million", ["Guinea-Bissau", "3.5 million"]),
        ("bosnia and herzegovina and Oslo", ["bosnia and herzegovina", "Oslo"]),
        ("Washington, D.C., Oslo", ["Washington, D.C", "Oslo"]),
        ("Trinidad and Tobago", ["Trinidad", "Tobago"]),
        ("", []),
        (" , and ;\n", []),
    ],
)
def test_items_of_a_list(text: str, listed: list[str]) -> None:
    assert items(text, NAMES) == listed


TITLES = ("Mission: Impossible", "Star Trek: The Next Generation", "Star Wars: Episode IV \u2013 A New Hope", "Top Gun")


@pytest.mark.parametrize(
    ("text", "listed"),
    [
        ("Mission: Impossible, Top Gun", ["Mission: Impossible", "Top Gun"]),
        ("Top Gun, Mission: Impossible", ["Top Gun", "Mission: Impossible"]),
        ("Star Trek: The Next Generation, Lost", ["Star Trek: The Next Generation", "Lost"]),
        ("Lost and Star Trek: The Next Generation", ["Lost", "Star Trek: The Next Generation"]),
        ("Star Wars: Episode IV \u2013 A New Hope", ["Star Wars: Episode IV \u2013 A New Hope"]),
        ("The films are: Mission: Impossible and Top Gun", ["Mission: Impossible", "Top Gun"]),
        ("Films like Top Gun: Mission: Impossible", ["Mission: Impossible"]),
        ("Top Gun: a film, Lost", ["Top Gun: a film", "Lost"]),
        ("1. Mission: Impossible\n2. Top Gun", ["Mission: Impossible", "Top Gun"]),
        ("Star Trek: Picard, Lost", ["Picard", "Lost"]),
    ],
)
def test_known_name_is_not_a_heading_and_is_not_split(text: str, listed: list[str]) -> None:
    assert items(text, TITLES) == listed


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("The Netherlands", "netherlands"),
        ("the  Wharton\tSchool", "wharton school"),
        ("A Place", "place"),
        ('"Oslo."', "oslo"),
        ("STRASSE", "strasse"),
        ("Stra\u00dfe", "strasse"),
        ("Theodor", "theodor"),
        ("C\u00f4te d\u2019Ivoire", "c\u00f4te d'ivoire"),
        ("The", "the"),
        ("...", ""),
    ],
)
def test_normalized_name(name: str, plain: str) -> None:
    assert normal(name) == plain
