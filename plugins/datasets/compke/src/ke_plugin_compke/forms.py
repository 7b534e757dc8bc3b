"""Reasoning structures: the seven of figure 10, and the one-step and two-step questions that it does not show.

In a list of steps, ``a`` and ``b`` are the entities that the question names, ``r1`` to ``r3`` relations, and ``v``
the value of a condition. As in the figure, a condition counts as two steps: the related entities of each member, then
the selection.
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import evolve, frozen

from ke_plugin_compke.algebra import SetStep

START = (SetStep(op="map", inputs=("a",), relation="r1"),)
PAIR = (*START, SetStep(op="map", inputs=("b",), relation="r2"))
BOTH = (*PAIR, SetStep(op="intersect", inputs=(1, 2)))


def _selected(steps: tuple[SetStep, ...], relation: str, *, negated: bool = False) -> tuple[SetStep, ...]:
    last = len(steps)
    looked_up = SetStep(op="map", inputs=(last,), relation=relation)
    kept = SetStep(op="filter_not" if negated else "filter", inputs=(last,), relation=relation, value="v")
    return (*steps, looked_up, kept)


@frozen(kw_only=True)
class QuestionStructure:
    """A structure: its steps and its fraction of the cases.

    ``share``: the published counts by steps are 200, 424, 5,770, 2,949 and 2,581 of 11,924. Structures with the same
    number of steps have equal fractions, which is our choice.
    """

    name: str
    steps: tuple[SetStep, ...]
    share: float

    @property
    def relations(self) -> tuple[str, ...]:
        """The names of its relations, in order of use."""
        return tuple(dict.fromkeys(step.relation for step in self.steps if step.relation))

    def filled(self, names: Mapping[str, str]) -> tuple[SetStep, ...]:
        """Return its steps with these entities, relations and this value."""
        return tuple(
            evolve(
                step,
                inputs=tuple(names[given] if isinstance(given, str) else given for given in step.inputs),
                relation=names[step.relation] if step.relation else "",
                value=names[step.value] if step.value else "",
            )
            for step in self.steps
        )


FORMS = (
    QuestionStructure(name="one-step", steps=START, share=200),
    QuestionStructure(name="two-step", steps=(*START, SetStep(op="map", inputs=(1,), relation="r2")), share=424),
    QuestionStructure(name="1", steps=BOTH, share=5770 / 4),
    QuestionStructure(name="2", steps=(*PAIR, SetStep(op="union", inputs=(1, 2))), share=5770 / 4),
    QuestionStructure(name="3", steps=_selected(START, "r2"), share=5770 / 4),
    QuestionStructure(name="4", steps=_selected(START, "r2", negated=True), share=5770 / 4),
    QuestionStructure(
        name="5",
        steps=(*PAIR, SetStep(op="map", inputs=(2,), relation="r3"), SetStep(op="intersect", inputs=(1, 3))),
        share=2949 / 2,
    ),
    QuestionStructure(name="6", steps=(*BOTH, SetStep(op="map", inputs=(3,), relation="r3")), share=2949 / 2),
    QuestionStructure(name="7", steps=_selected(BOTH, "r3"), share=2581),
)
BY_NAME = {form.name: form for form in FORMS}
