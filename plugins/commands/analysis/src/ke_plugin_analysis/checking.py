"""``ke judges check``: compare a judge with manually labeled items.

A line of the file is one item, a JSON object::

    {"facts": ["The Danube is 2,850 km long."], "thoughts": "The Danube is 1,200 km long.", "label": "inconsistent"}
    {"question": "...", "thoughts": "...", "answer": "Vienna", "label": "support"}
    {"question": "...", "answer": "Roma", "gold": [["Rome", "Roma"]], "pre_edit": [["Paris"]], "label": "right"}

``gold`` and ``pre_edit`` list entities, each with all its names. A label is a verdict, or one of the judge's further
labels.
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
"""The least number of items for a meaningful kappa."""
VERDICT = "verdict"
NOTHING = "nothing"
"""The label if the judge found none of the set."""


@frozen(kw_only=True)
class LabeledLine:
    """One line of the file."""

    label: str
    question: str = ""
    answer: str = ""
    thoughts: str = ""
    facts: tuple[str, ...] = ()
    gold: tuple[tuple[str, ...], ...] = ()
    pre_edit: tuple[tuple[str, ...], ...] = ()

    def item(self, name: str) -> Item:
        """Return the judge's input, without the label. The answer is empty if the thoughts have no answer."""
        both = f"{self.thoughts}\nAnswer: {self.answer}" if self.thoughts and self.answer else ""
        return Item(
            query=Query(
                id=name,
                texts=(self.question or self.answer or self.thoughts or name,),
                gold=Gold(entities=_entities(self.gold)),
                pre_edit=Gold(entities=_entities(self.pre_edit)) if self.pre_edit else None,
            ),
            reply=Answer(
                text=self.answer,
                raw=both or self.thoughts or self.answer,
                outcome="unparsed" if self.thoughts and not self.answer else "answered",
            ),
            facts=self.facts,
        )


@frozen(kw_only=True)
class JudgedItem:
    """An item with its manual label and the judge's label."""

    item: LabeledLine
    group: str
    found: str
    note: str = ""


@frozen(kw_only=True)
class JudgeCheck:
    """The result of a check, with its inputs."""

    check: AgreementCheck
    compared: Sequence[JudgedItem] = field(factory=tuple)

    @property
    def disagreements(self) -> list[JudgedItem]:
        """The items on which manual label and judge differ."""
        return [one for one in self.compared if one.found != one.item.label]


def check(chosen: ResolvedComponent[JudgeSpec], opened: OpenJudge, items: Sequence[LabeledLine]) -> JudgeCheck:
    """Judge ``items`` and compare the labels."""
    groups = groups_of(chosen.spec)
    verdicts = judge_items(opened, inputs(items))
    compared = [_compared(one, found, groups) for one, found in zip(items, verdicts, strict=True)]
    names = dict.fromkeys(one.group for one in compared)
    pairs = {name: [(one.item.label, one.found) for one in compared if one.group == name] for name in names}
    agreements = {name: measure_agreement([a for a, _b in some], [b for _a, b in some]) for name, some in pairs.items()}
    made = AgreementCheck(
        judge=opened.component, items=digest(to_json(items, list[LabeledLine])), agreements=agreements
    )
    return JudgeCheck(check=made, compared=compared)


def inputs(items: Sequence[LabeledLine]) -> list[Item]:
    """Return what the judge gets, without the labels."""
    return [one.item(f"item-{number}") for number, one in enumerate(items, start=1)]


def read_items(spec: JudgeSpec, text: str, *, of: str) -> list[LabeledLine]:
    """Read the labeled items in ``text``, from a file named ``of``. Raises BadData."""
    items = list(read(text, groups_of(spec), of=of))
    if len(items) < FEWEST:
        raise BadData(f"{of} has only {len(items)} labeled items", hint=f"a check needs at least {FEWEST}")
    return items


def groups_of(spec: JudgeSpec) -> dict[str, tuple[str, ...]]:
    """Return the judge's label sets by kind of question. A judge without label sets gives verdicts."""
    return dict(spec.labels) or {VERDICT: tuple(verdict.value for verdict in Verdict)}


def read(text: str, groups: Mapping[str, tuple[str, ...]], *, of: str) -> Iterator[LabeledLine]:
    """Yield the items. Raises BadData with file and line."""
    for raw, place in parse_lines(text, of=of):
        found = from_json(raw, LabeledLine, of=str(place), error=BadData)
        if not any(found.label in labels for labels in groups.values()):
            known = ", ".join(label for labels in groups.values() for label in labels)
            raise BadData(f"{place}: {found.label!r} is not a label of this judge", hint=f"use one of: {known}")
        yield found


def _compared(item: LabeledLine, judgment: Judgment, groups: Mapping[str, tuple[str, ...]]) -> JudgedItem:
    """Return the judge's label from the set of the item's label. Several different labels count as none."""
    group = next(name for name, labels in groups.items() if item.label in labels)
    own = [finding for finding in judgment.findings if group == VERDICT or finding.label in groups[group]]
    found = judgment.verdict.value if group == VERDICT else " and ".join(sorted({one.label for one in own}))
    return JudgedItem(
        item=item, group=group, found=found or NOTHING, note="; ".join(one.note for one in own if one.note)
    )


def _entities(named: Sequence[Sequence[str]]) -> tuple[Entity, ...]:
    return tuple(Entity(label=names[0], aliases=tuple(names[1:])) for names in named if names)
