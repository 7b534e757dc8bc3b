"""A bank of edits is a mapping, and finds what contradicts a path without going through all of it."""

import pytest

from ke_core.spec.facts import Edit, EditBank, Entity, Fact, Relation, contradicting

LANGUAGE, CAPITAL = Relation(label="official language", id="P37"), Relation(label="capital")


def fact(subject: str, relation: Relation, *objects: str) -> Fact:
    return Fact(subject=Entity(label=subject), relation=relation, objects=tuple(Entity(label=o) for o in objects))


def edit(name: str, after: Fact | None) -> Edit:
    return Edit(id=name, statement=name, after=after)


ARABIC, X = edit("arabic", fact("US", LANGUAGE, "Arabic")), edit("x", fact("US", CAPITAL, "X"))
WORDS, TWO = edit("words", None), edit("two", fact("Peru", LANGUAGE, "Quechua", "Spanish"))
EDITS = (ARABIC, X, WORDS, TWO)


def test_a_bank_is_a_mapping_in_the_order_of_its_edits():
    bank = EditBank(EDITS)
    assert list(bank) == ["arabic", "x", "words", "two"]
    assert (len(bank), bank["x"], "y" in bank) == (4, X, False)
    with pytest.raises(KeyError):
        bank["y"]


@pytest.mark.parametrize("bank", [EditBank(EDITS), {edit.id: edit for edit in EDITS}], ids=["indexed", "plain"])
@pytest.mark.parametrize(
    ("path", "hidden"),
    [
        ([("US", LANGUAGE, "English")], {"arabic"}),  # mquake_remastered.md, acceptance check 11
        ([("US", LANGUAGE, "Arabic")], set()),
        ([("US", CAPITAL, "Washington")], {"x"}),
        ([("US", LANGUAGE, "English"), ("US", CAPITAL, "Washington")], {"arabic", "x"}),
        ([("Peru", LANGUAGE, "Spanish", "Quechua")], set()),
        ([("Peru", LANGUAGE, "Spanish")], {"two"}),
        ([("Oman", LANGUAGE, "Arabic")], set()),
        ([], set()),
    ],
)
def test_edit_is_masked_if_it_changes_the_objects_of_a_hop(bank, path, hidden):
    assert contradicting([fact(*hop) for hop in path], bank) == hidden
