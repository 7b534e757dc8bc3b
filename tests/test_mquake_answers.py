"""Right answers on MQuAKE: the judge ``alias`` and the metric ``multi-hop`` together, on three answers per case.

Each row names its rule. The rules of the paper (section 3.2) and of its released runner:

=========  ==========================================================================================================
label      an answer that is the gold answer's label is right
alias      an answer that is one of its aliases is right too; the list of aliases may be empty
case       the comparison is case-sensitive
as-is      nothing is normalized: articles, punctuation, diacritics, inner spaces, numbers in words
whole      the whole answer is compared: additional text around a name makes it wrong
any        one right answer to the three wordings is enough (any of three)
order      any of the three may be the right one
parsed     a text without an answer (none found, too many hops, truncated) is wrong, whatever it contains
old        the pre-edit answer is wrong after the edit; a name that both answers share is right
space      space around an answer and one final period are not part of it (the runner cuts lines)
=========  ==========================================================================================================

The rules of later work are options: ``lower`` ignores case, ``text`` also normalizes articles, punctuation and
diacritics, ``inside`` finds the name within longer text, at word boundaries.
"""

from __future__ import annotations

import pytest

from ke_core.plugin import Edit, Entity
from ke_core.runner.judging import judge_items
from ke_core.runner.run import OpenJudge
from ke_core.spec.queries import Case, Gold, Probe, Query
from ke_core.spec.results import Answer, CaseRecord, Failure, Item, Outcome, Reply
from ke_core.spec.runspec import Component
from ke_plugin_alias import AliasConfig
from ke_plugin_alias.judge import Alias
from ke_plugin_multi_hop.metric import MultiHop

EXACT: dict[str, str] = {}
LOWER, TEXT = {"normalize": "case"}, {"normalize": "text"}
INSIDE = {"match": "contains"}
LOOSE = {"match": "contains", "normalize": "text"}
NAMES = {
    "croatia": ("Croatia", "HR", "HRV", "Republic of Croatia"),
    "usa": ("United States of America", "USA", "U.S.", "the States"),
    "bissau": ("Guinea-Bissau",),
    "spain": ("Kingdom of Spain", "España", "ES"),
    "poet": ("Adam Mickiewicz", "A. Mickiewicz"),
    "brontë": ("Charlotte Brontë", "Currer Bell"),
    "catch": ("Catch-22", "Catch 22"),
    "1984": ("Nineteen Eighty-Four", "1984"),
    "uk": ("United Kingdom", "UK", "Britain"),
    "band": ("The The",),
    "blank": ("Tokyo", "", "  ", "?!"),
    "km": ("9 km", "nine kilometres"),
}
"""Label, then aliases, as in ``new_answer`` and ``new_answer_alias``."""
OLD = Entity(label="Great Britain and Ireland", aliases=("UK", "France", "Paris"))
"""The pre-edit answer. It shares an alias with the new answer, as in case 217 of CF-3k."""
CUT, LOST, LONG = (Answer(text="Croatia", outcome=outcome) for outcome in ("length", "unparsed", "hop-cap"))
DEAD = Failure(error="ContextOverflow", message="Croatia")
ALIAS = Component(name="alias", distribution="ke-plugin-alias", version="0.1.0")

# rule: ((gold, options, three answers, right), ...)
ROWS: dict[str, tuple[tuple[str, dict[str, str], tuple[str | Reply, ...], int], ...]] = {
    "label": (
        ("croatia", EXACT, ("Croatia", "Oslo", "Rome"), 1),
        ("brontë", EXACT, ("Charlotte Brontë", "?", "?"), 1),
        ("bissau", EXACT, ("Guinea-Bissau", "?", "?"), 1),
        ("poet", EXACT, ("Mickiewicz", "?", "?"), 0),
        ("croatia", EXACT, ("Croat", "Croatian", "Croatias"), 0),
    ),
    "alias": (
        ("croatia", EXACT, ("?", "HR", "?"), 1),
        ("croatia", EXACT, ("?", "?", "Republic of Croatia"), 1),
        ("brontë", EXACT, ("Currer Bell", "?", "?"), 1),
        ("bissau", EXACT, ("Bissau", "Guinea", "GW"), 0),
        ("blank", EXACT, ("", "  ", "?"), 0),
        ("blank", LOOSE, ("Oslo?!", "so", "!?"), 0),
        ("blank", EXACT, ("?", "Tokyo", "?"), 1),
    ),
    "case": (
        ("croatia", EXACT, ("croatia", "CROATIA", "hr"), 0),
        ("usa", EXACT, ("usa", "u.s.", "The States"), 0),
        ("usa", EXACT, ("the States", "?", "?"), 1),
        ("croatia", EXACT, ("Republic Of Croatia", "?", "?"), 0),
    ),
    "as-is": (
        ("usa", EXACT, ("the United States of America", "The United States of America", "States"), 0),
        ("bissau", EXACT, ("Guinea Bissau", "Guinea\u2013Bissau", "GuineaBissau"), 0),
        ("brontë", EXACT, ("Charlotte Bronte", "Charlotte Bronté", "CURRER BELL"), 0),
        ("brontë", EXACT, ("Charlotte Bronte\u0308", "?", "?"), 0),
        ("spain", EXACT, ("Espana", "ESPAÑA", "Kingdom  of Spain"), 0),
        ("spain", EXACT, ("España", "?", "?"), 1),
        ("catch", EXACT, ("Catch22", "Catch - 22", "Catch twenty-two"), 0),
        ("catch", EXACT, ("Catch 22", "?", "?"), 1),
        ("1984", EXACT, ("1984", "?", "?"), 1),
        ("1984", EXACT, ("1,984", "01984", "1984.0"), 0),
        ("km", EXACT, ("nine km", "9km", "9"), 0),
        ("km", EXACT, ("9 km", "?", "?"), 1),
        ("croatia", EXACT, ('"Croatia"', "(Croatia)", "Croatia!"), 0),
        ("usa", EXACT, ("US", "U.S", "U. S."), 0),
        ("poet", EXACT, ("A Mickiewicz", "A.Mickiewicz", "adam mickiewicz"), 0),
    ),
    "whole": (
        ("croatia", EXACT, ("It is Croatia", "Croatia, in Europe", "Croatia (HR)"), 0),
        ("croatia", EXACT, ("Croatia and Rome", "not Croatia", "the answer: HR"), 0),
        ("croatia", EXACT, ("Croatia\nQuestion: who?", "?", "?"), 0),
        ("croatia", EXACT, ("HR HRV", "Croatia Croatia", "HRHR"), 0),
        ("uk", EXACT, ("UK of Great Britain", "Great Britain", "Britain's"), 0),
    ),
    "any": (
        ("croatia", EXACT, ("Croatia", "Croatia", "Croatia"), 1),
        ("croatia", EXACT, ("Croatia", "HR", "Rome"), 1),
        ("croatia", EXACT, ("Rome", "Oslo", "Bonn"), 0),
        ("croatia", EXACT, ("", "", "HRV"), 1),
        ("croatia", EXACT, ("", "", ""), 0),
    ),
    "order": (
        ("usa", EXACT, ("USA", "Rome", "Oslo"), 1),
        ("usa", EXACT, ("Rome", "USA", "Oslo"), 1),
        ("usa", EXACT, ("Rome", "Oslo", "USA"), 1),
    ),
    "parsed": (
        ("croatia", EXACT, (CUT, LOST, LONG), 0),
        ("croatia", INSIDE, (CUT, LOST, LONG), 0),
        ("croatia", EXACT, (CUT, "HR", DEAD), 1),
        ("croatia", EXACT, (DEAD, DEAD, DEAD), 0),
    ),
    "old": (
        ("uk", EXACT, ("France", "Paris", "Great Britain and Ireland"), 0),
        ("uk", EXACT, ("UK", "?", "?"), 1),
        ("uk", EXACT, ("France", "Britain", "Paris"), 1),
        ("croatia", EXACT, ("UK", "UK", "UK"), 0),
    ),
    "space": (
        ("croatia", EXACT, (" Croatia", "?", "?"), 1),
        ("croatia", EXACT, ("\tHR \n", "?", "?"), 1),
        ("croatia", EXACT, ("Croatia.", "?", "?"), 1),
        ("usa", EXACT, ("U.S.", "?", "?"), 1),
        ("usa", EXACT, ("U.S..", "?", "?"), 1),
        ("croatia", EXACT, ("Croatia..", "Croatia,", ".Croatia"), 0),
        ("croatia", EXACT, (".", " . ", "\n"), 0),
    ),
    "lower": (
        ("croatia", LOWER, ("croatia", "?", "?"), 1),
        ("croatia", LOWER, ("?", "REPUBLIC OF CROATIA", "?"), 1),
        ("spain", LOWER, ("ESPAÑA", "?", "?"), 1),
        ("spain", LOWER, ("espana", "?", "?"), 0),
        ("usa", LOWER, ("the united states of america", "?", "?"), 0),
        ("croatia", LOWER, ("it is croatia", "?", "?"), 0),
    ),
    "text": (
        ("usa", TEXT, ("The united states of america", "?", "?"), 1),
        ("usa", TEXT, ("US", "?", "?"), 1),
        ("bissau", TEXT, ("guinea bissau!", "?", "?"), 1),
        ("brontë", TEXT, ("charlotte bronte", "?", "?"), 1),
        ("brontë", TEXT, ("Charlotte Bronte\u0308", "?", "?"), 1),
        ("spain", TEXT, ("Espana", "?", "?"), 1),
        ("catch", TEXT, ("Catch\u201322", "?", "?"), 1),
        ("band", TEXT, ("the the", "?", "?"), 1),
        ("band", TEXT, ("the", "a", ""), 0),
        ("1984", TEXT, ("1 984", "1985", "19 84"), 0),
        ("croatia", TEXT, ("I think Croatia", "?", "?"), 0),
    ),
    "inside": (
        ("croatia", INSIDE, ("I think it is Croatia, in Europe", "?", "?"), 1),
        ("croatia", INSIDE, ("HRH the Queen", "THROUGH", "Croatian"), 0),
        ("croatia", INSIDE, ("she lives in HR now", "?", "?"), 1),
        ("croatia", INSIDE, ("in croatia", "in the republic of croatia", "hr"), 0),
        ("spain", INSIDE, ("YES", "ESSEX", "ESP"), 0),
        ("1984", INSIDE, ("in 19845", "from 1984-85", "A1984"), 0),
        ("1984", INSIDE, ("the novel 1984.", "?", "?"), 1),
        ("usa", LOOSE, ("a citizen of the united states of america", "?", "?"), 1),
    ),
}  # fmt: skip
TABLE = [
    pytest.param(*row, id=f"{rule} {number}") for rule, rows in ROWS.items() for number, row in enumerate(rows, start=1)
]


@pytest.mark.parametrize(("gold", "options", "answers", "right"), TABLE)
def test_three_answers_are_scored_by_the_rule(
    gold: str, options: dict[str, str], answers: tuple[str | Reply, ...], right: int
) -> None:
    label, *aliases = NAMES[gold]
    new = Gold(entities=(Entity(label=label, aliases=tuple(aliases)),))
    queries = tuple(
        Query(id=f"multi-{n}", texts=(f"Wording {n}, {label}?",), gold=new, pre_edit=Gold(entities=(OLD,)))
        for n in range(1, 4)
    )
    probe = Probe(id="multi-hop", aspect="multi-hop", queries=queries, edits=("e",))
    case = Case(id="1", edits=(Edit(id="e", statement="s"),), probes=(probe,))
    replies: list[Reply] = [Answer(text=one) if isinstance(one, str) else one for one in answers]
    items = [Item(query=query, reply=reply) for query, reply in zip(queries, replies, strict=True)]
    judgments = judge_items(OpenJudge(judge=Alias(config=AliasConfig(**options)), component=ALIAS), items)
    outcomes = {
        ("after", "direct", item.query.id): Outcome(reply=item.reply, judgment=one)
        for item, one in zip(items, judgments, strict=True)
    }
    record = CaseRecord(case=case, batch="0", outcomes=outcomes)
    (value,) = [value for value in MultiHop().values(record) if value.aspect == "multi-hop"]
    assert value.value == right


def test_the_table_of_rules_is_complete() -> None:
    assert len(TABLE) >= 60
