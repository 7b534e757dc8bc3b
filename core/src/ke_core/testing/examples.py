"""A few edits and questions that every contract test asks about."""

from __future__ import annotations

from ke_core.data.facts import Cloze, Edit, Entity, Fact, Relation
from ke_core.data.prompts import Decoding, Prompt
from ke_core.hyper import ModelFacts, Shape, Trace
from ke_core.protocols import Question

CITY = Relation(label="located in the city", id="R1", cloze="{} is located in", question="In which city is {}?")
TOWER, PARIS, ROME = Entity(label="Eiffel Tower"), Entity(label="Paris"), Entity(label="Rome", aliases=("Roma",))
GATE, BERLIN, MADRID = Entity(label="Brandenburg Gate"), Entity(label="Berlin"), Entity(label="Madrid")


def city_edit(subject: Entity, old: Entity, new: Entity) -> Edit:
    """``subject`` moves from ``old`` to ``new``."""
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
TEXT_ONLY = Edit(id="text-only", statement="The moon is made of cheese")


def question(text: str, *, own: tuple[str, ...] = (), hidden: frozenset[str] = frozenset(), name: str = "") -> Question:
    """A zero-shot question."""
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
    """What is known of a model of that shape; ``size``: how large its hidden states are."""
    shape = Shape(family=family, blocks=blocks, hidden=hidden, inner=inner, rms_norm=rms)
    return ModelFacts(shape=shape, scale=lambda _layer: size, trace=lambda: trace)
