"""A judge against items labeled by hand: ``ke judges check``.

A line of the file is one item, a JSON object::

    {"facts": ["The Danube is 2,850 km long."], "thoughts": "The Danube is 1,200 km long.", "label": "inconsistent"}
    {"question": "...", "thoughts": "...", "answer": "Vienna", "label": "support"}
    {"question": "...", "answer": "Roma", "gold": [["Rome", "Roma"]], "stale": [["Paris"]], "label": "right"}

``gold`` and ``stale`` list entities, each by all its names. A label is a verdict, or of those that the judge gives
beside one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from attrs import field, frozen

from ke_core.app import AgreementCheck, OpenJudge, ResolvedComponent, judge_items, parse_lines
from ke_core.plugin import (
    Answer,
    BadData,
    Entity,
    Gold,
    Item,
    JudgeSpec,
    Judgment,
    Query,
    Verdict,
    digest,
    from_json,
    to_json,
)
from ke_plugin_analysis.kappa import measure_agreement

FEWEST = 50
"""Items; with fewer, kappa says little."""
VERDICT = "verdict"
NOTHING = "nothing"
"""What stands for the label of a judge that found none of the set."""


@frozen(kw_only=True)
class LabeledLine:
    """One line of the file."""

    label: str
    question: str = ""
    answer: str = ""
    thoughts: str = ""
    facts: tuple[str, ...] = ()
    gold: tuple[tuple[str, ...], ...] = ()
    stale: tuple[tuple[str, ...], ...] = ()

    def item(self, name: str) -> Item:
        """What the judge is given: it is not told the label. Without an answer, thoughts that came to none."""
        told = f"{self.thoughts}\nAnswer: {self.answer}" if self.thoughts and self.answer else ""
        return Item(
            query=Query(
                id=name,
                texts=(self.question or self.answer or self.thoughts or name,),
                gold=Gold(entities=_entities(self.gold)),
                stale=Gold(entities=_entities(self.stale)) if self.stale else None,
            ),
            reply=Answer(
                text=self.answer,
                raw=told or self.thoughts or self.answer,
                outcome="unparsed" if self.thoughts and not self.answer else "answered",
            ),
            facts=self.facts,
        )


@frozen(kw_only=True)
class JudgedItem:
    """One item: the label by hand, and what the judge found."""

    item: LabeledLine
    group: str
    found: str
    note: str = ""


@frozen(kw_only=True)
class JudgeCheck:
    """The check, and what it rests on."""

    check: AgreementCheck
    compared: Sequence[JudgedItem] = field(factory=tuple)

    @property
    def disagreements(self) -> list[JudgedItem]:
        """Where hand and judge differ."""
        return [one for one in self.compared if one.found != one.item.label]


def check(chosen: ResolvedComponent[JudgeSpec], opened: OpenJudge, items: Sequence[LabeledLine]) -> JudgeCheck:
    """Judge ``items`` and compare."""
    groups = groups_of(chosen.spec)
    asked = [one.item(f"item-{number}") for number, one in enumerate(items, start=1)]
    verdicts = judge_items(opened, asked)
    compared = [_compared(one, found, groups) for one, found in zip(items, verdicts, strict=True)]
    names = dict.fromkeys(one.group for one in compared)
    pairs = {name: [(one.item.label, one.found) for one in compared if one.group == name] for name in names}
    agreements = {name: measure_agreement([a for a, _b in some], [b for _a, b in some]) for name, some in pairs.items()}
    made = AgreementCheck(
        judge=opened.component, items=digest(to_json(items, list[LabeledLine])), agreements=agreements
    )
    return JudgeCheck(check=made, compared=compared)


def read_items(spec: JudgeSpec, text: str, *, of: str) -> list[LabeledLine]:
    """The items of ``text`` (a file called ``of``), labeled as that judge labels. Raises BadData."""
    items = list(read(text, groups_of(spec), of=of))
    if len(items) < FEWEST:
        raise BadData(f"{of} holds {len(items)} labeled items", hint=f"a check needs at least {FEWEST}")
    return items


def groups_of(spec: JudgeSpec) -> dict[str, tuple[str, ...]]:
    """The sets of labels that a judge gives, by what is asked; a judge without any gives verdicts."""
    return dict(spec.labels) or {VERDICT: tuple(verdict.value for verdict in Verdict)}


def read(text: str, groups: Mapping[str, tuple[str, ...]], *, of: str) -> Iterator[LabeledLine]:
    """The items, in order. Raises BadData, with file and line."""
    for raw, place in parse_lines(text, of=of):
        found = from_json(raw, LabeledLine, of=str(place), error=BadData)
        if not any(found.label in labels for labels in groups.values()):
            known = ", ".join(label for labels in groups.values() for label in labels)
            raise BadData(f"{place}: {found.label!r} is no label of this judge", hint=f"one of: {known}")
        yield found


def _compared(item: LabeledLine, judgment: Judgment, groups: Mapping[str, tuple[str, ...]]) -> JudgedItem:
    """What the judge found of the set that the item's label is of; several different labels are none of the set."""
    group = next(name for name, labels in groups.items() if item.label in labels)
    own = [finding for finding in judgment.findings if group == VERDICT or finding.label in groups[group]]
    found = judgment.verdict.value if group == VERDICT else " and ".join(sorted({one.label for one in own}))
    return JudgedItem(
        item=item, group=group, found=found or NOTHING, note="; ".join(one.note for one in own if one.note)
    )


def _entities(named: Sequence[Sequence[str]]) -> tuple[Entity, ...]:
    return tuple(Entity(label=names[0], aliases=tuple(names[1:])) for names in named if names)
