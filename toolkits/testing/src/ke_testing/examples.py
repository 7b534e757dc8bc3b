"""Edits and questions used by every contract test."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import evolve

from ke_core.plugin import (
    SUB_QUESTIONS,
    Cloze,
    Decoding,
    Edit,
    Entity,
    Fact,
    FreeForm,
    Material,
    ModelFacts,
    Prompt,
    Question,
    Relation,
    Shape,
    SubQuestion,
    Trace,
)

CITY = Relation(label="located in the city", id="R1", cloze="{} is located in", question="In which city is {}?")
TOWER, PARIS, ROME = Entity(label="Eiffel Tower"), Entity(label="Paris"), Entity(label="Rome", aliases=("Roma",))
GATE, BERLIN, MADRID = Entity(label="Brandenburg Gate"), Entity(label="Berlin"), Entity(label="Madrid")


def city_edit(subject: Entity, old: Entity, new: Entity) -> Edit:
    """Return an edit that moves ``subject`` from ``old`` to ``new``."""
    return Edit(
        id=f"{subject.label}-{new.label}".lower().replace(" ", "-"),
        statement=f"{subject.label} is located in {new.label}",
        before=Fact(subject=subject, relation=CITY, objects=(old,)),
        after=Fact(subject=subject, relation=CITY, objects=(new,)),
        cloze=Cloze(template="{} is located in", subject=subject.label),
        question=f"In which city is {subject.label}?",
    )


MOVE_TOWER = city_edit(TOWER, PARIS, ROME)
MOVE_GATE = city_edit(GATE, BERLIN, MADRID)
FOUR_MOVES = (
    MOVE_TOWER,
    MOVE_GATE,
    city_edit(Entity(label="Colosseum"), ROME, BERLIN),
    city_edit(Entity(label="Prado"), MADRID, PARIS),
)
TEXT_ONLY = Edit(id="text-only", statement="The moon is made of cheese")
FREE_FORM = Edit(
    id="free-form",
    statement="How do bees find flowers? By color.\nBy scent, and by what other bees tell them.",
    free_form=FreeForm(
        prompt="How do bees find flowers?", target="By color.\nBy scent, and by what other bees tell them."
    ),
)
"""An edit without a subject, with a target of two lines."""


def _tower(name: str, *objects: str, subject: str = TOWER.label, template: str = "{} is located in") -> Edit:
    """Return an edit like MOVE_TOWER with other objects, another subject or another cloze."""
    thing, new = Entity(label=subject), tuple(Entity(label=label) for label in objects)
    return Edit(
        id=name,
        statement=f"{subject} is located in {' and '.join(objects) or 'no city'}",
        before=Fact(subject=thing, relation=CITY, objects=(PARIS,)),
        after=Fact(subject=thing, relation=CITY, objects=new),
        cloze=Cloze(template=template, subject=subject),
        question=f"In which city is {subject}?",
    )


ODD_EDITS: Mapping[str, Edit] = {
    edit.id: edit
    for edit in (
        TEXT_ONLY,
        FREE_FORM,
        _tower("two-lines", "Rome\nMadrid"),
        _tower("deleted"),
        _tower("two-objects", "Rome", "Madrid"),
        _tower("spaced-object", " Rome "),
        _tower("the-old-object", "Paris"),
        _tower("other-scripts", "Reykjavík", subject="東京タワー 🗼"),
        _tower("braces", "Rome", subject="the set {a, {}}"),
        _tower("subject-twice", "Rome", template="The Eiffel Tower, or {}, is located in"),
        evolve(_tower("newly-added", "Rome"), before=None),
        evolve(_tower("long", "Rome"), statement="Eiffel Tower is located in Rome " + "and nowhere else " * 500),
    )
}
"""Unusual edits of real benchmarks, which a method may reject but must handle without an internal error."""


def question(text: str, *, own: tuple[str, ...] = (), hidden: frozenset[str] = frozenset(), name: str = "") -> Question:
    """Return a zero-shot question."""
    label = name or text
    return Question(
        id=f"case/after/direct/{label}",
        case="case",
        query=label,
        texts=(text,),
        form="question",
        prompt=Prompt(text=f"Q: {text} A:", decoding=Decoding(max_tokens=8, stop=("\n",))),
        own=own,
        hidden=hidden,
    )


QUESTIONS = (
    question("In which city is Eiffel Tower?", own=(MOVE_TOWER.id,)),
    question("In which city is Brandenburg Gate?", own=(MOVE_GATE.id,)),
    question("Who are you?"),
)


HOP = SubQuestion(question="In which city is Eiffel Tower?", answer="Paris", statement="Eiffel Tower is in Paris")
MATERIAL: Mapping[str, Material] = {
    "answers": Material(value={f"{QUESTIONS[0].case}/{QUESTIONS[0].query}": "Rome"}, oracle=True),
    "aliases": Material(value={"Rome": ("Roma",)}, oracle=True),
    "counterfactual-facts": Material(value={QUESTIONS[0].case: ("Eiffel Tower is in Rome.",)}, oracle=True),
    SUB_QUESTIONS: Material(
        value={f"{one.case}/{one.query}": {"after": (HOP,), "before": (HOP,)} for one in QUESTIONS}, oracle=True
    ),
}
"""The material that a benchmark of these questions would provide (docs/hooks.md)."""


def facts_of(
    family: str,
    blocks: int,
    hidden: int,
    inner: int,
    *,
    rms: bool = True,
    size: float = 1.0,
    trace: Trace | None = None,
) -> ModelFacts:
    """Return facts about a model of that shape; ``size``: the scale of its hidden states."""
    shape = Shape(family=family, blocks=blocks, hidden=hidden, inner=inner, rms_norm=rms)
    return ModelFacts(shape=shape, scale=lambda _layer: size, trace=lambda: trace)
