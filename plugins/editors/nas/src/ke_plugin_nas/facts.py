"""Counterfactual edits of capitals, for the mean norm of targets."""

from __future__ import annotations

from ke_core.plugin import SLOT, Cloze, Edit, Entity, Fact, Relation

CAPITALS = (
    ("France", "Paris"), ("Germany", "Berlin"), ("Italy", "Rome"), ("Spain", "Madrid"), ("Portugal", "Lisbon"),
    ("Austria", "Vienna"), ("Poland", "Warsaw"), ("Hungary", "Budapest"), ("Greece", "Athens"), ("Sweden", "Stockholm"),
    ("Norway", "Oslo"), ("Finland", "Helsinki"), ("Denmark", "Copenhagen"), ("Ireland", "Dublin"),
    ("Belgium", "Brussels"), ("Romania", "Bucharest"), ("Bulgaria", "Sofia"), ("Croatia", "Zagreb"),
    ("Russia", "Moscow"), ("Ukraine", "Kyiv"), ("Turkey", "Ankara"), ("Egypt", "Cairo"), ("Kenya", "Nairobi"),
    ("Japan", "Tokyo"), ("China", "Beijing"), ("Thailand", "Bangkok"), ("Vietnam", "Hanoi"), ("Cuba", "Havana"),
    ("Canada", "Ottawa"), ("Australia", "Canberra"), ("Peru", "Lima"), ("Chile", "Santiago"), ("Iran", "Tehran"),
    ("Iraq", "Baghdad"),
)  # fmt: skip
PROMPTS = ("The capital of {} is", "The seat of government of {} is in", "The parliament of {} meets in")


def builtin_facts() -> list[Edit]:
    """Return 102 edits: three prompts for each country, with the capital of another one."""
    found: list[Edit] = []
    for shift, prompt in enumerate(PROMPTS, start=1):
        for at, (country, capital) in enumerate(CAPITALS):
            _other, wrong = CAPITALS[(at + 5 * shift) % len(CAPITALS)]
            subject, relation = Entity(label=country), Relation(label=prompt, cloze=prompt)
            found.append(
                Edit(
                    id=f"{country}-{shift}",
                    statement=f"{prompt.replace(SLOT, country)} {wrong}",
                    before=Fact(subject=subject, relation=relation, objects=(Entity(label=capital),)),
                    after=Fact(subject=subject, relation=relation, objects=(Entity(label=wrong),)),
                    cloze=Cloze(template=prompt, subject=country),
                )
            )
    return found
