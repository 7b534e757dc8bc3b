"""Wording of a case: three wordings of its question, its sub-questions, its facts.

A relation's own templates (``relations.RelationTemplate``) say "official languages of Peru". A relation without them
uses the noun at the start of its cloze ("The products of {} are"), or is quoted: 'answers to "Where does Ada
work?"'. All are plural nouns, so the same sentences fit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import evolve, frozen

from ke_benchmarks.graph import KnowledgeGraph
from ke_plugin_compke.algebra import SetStep
from ke_plugin_compke.relations import SLOT, RelationTemplate, Templates, wikidata

BLANK = "___"
Wordings = tuple[str, str, str]
PLAIN = RelationTemplate()


@frozen(kw_only=True)
class QuestionWriter:
    """Writes questions and facts. ``templates``: phrases by relation that replace those of the graph."""

    graph: KnowledgeGraph
    templates: Templates

    def knows(self, relation: str) -> bool:
        """Return whether the relation has a question and a cloze, here or in the graph."""
        return bool(self._own(relation, "question") and self._own(relation, "cloze"))

    # --- facts -------------------------------------------------------------------------------------------

    def question(self, subject: str, relation: str) -> str:
        """Return the relation's question about that subject."""
        return self._about(subject, relation, "question").replace(SLOT, self.graph.entity(subject).label)

    def prompt(self, subject: str, relation: str) -> str:
        """Return the cloze with ``{}`` for the subject's label. An article is part of the template."""
        return self._about(subject, relation, "cloze")

    def cloze(self, subject: str, relation: str) -> str:
        """Return the cloze about that subject: a sentence that stops before the objects."""
        return self.prompt(subject, relation).replace(SLOT, self.graph.entity(subject).label)

    def statement(self, subject: str, relation: str, objects: Sequence[str]) -> str:
        """Return the whole fact: the cloze, then the objects."""
        return f"{self.cloze(subject, relation)} {listed([self.graph.mention(key) for key in objects])}"

    # --- nouns -------------------------------------------------------------------------------------------

    def noun(self, relation: str, about: str, *, single: bool = True) -> str:
        """Return the noun for the relation's objects, without an article. ``about`` is one entity if ``single``."""
        own, link = self._given(relation), self.graph.links[relation]
        one = own.one or (self.graph.noun(relation) if link.functional and not own.many else None)
        if link.functional and single and one:
            return one.replace(SLOT, about)
        if many := self._many(relation):
            return many.replace(SLOT, about)
        return f'answers to "{self._own(relation, "question").replace(SLOT, BLANK)}" for {about}'

    def of(self, relation: str, subject: str) -> str:
        """Return the noun of a relation about an entity that the question names."""
        if self._many(relation):
            return self.noun(relation, self.graph.mention(subject))
        return f'answers to "{self.question(subject, relation)}"'

    def _many(self, relation: str) -> str | None:
        """Return the plural noun: from the table, or from the start of the cloze of a one-to-many relation."""
        functional = self.graph.links[relation].functional
        return self._given(relation).many or (None if functional else self.graph.noun(relation))

    def condition(self, relation: str, value: str, *, negated: bool = False) -> str:
        """Return the condition on the members of a set: "have Spanish as an official language"."""
        own = self._given(relation)
        template = own.lacks if negated else own.has
        if template:
            return template.replace(SLOT, self.graph.mention(value))
        cloze = self._own(relation, "cloze").replace(SLOT, BLANK)
        return f'{"do not fit" if negated else "fit"} "{cloze} {self.graph.mention(value)}"'

    # --- questions ---------------------------------------------------------------------------------------

    def questions(self, form: str, names: Mapping[str, str]) -> Wordings:  # noqa: PLR0911  a table of forms
        """Return a question of that structure in three wordings."""
        first = self.of(names["r1"], names["a"])
        match form:
            case "one-step":
                return self.question(names["a"], names["r1"]), f"Name the {first}.", f"Which are the {first}?"
            case "two-step":
                single = self.graph.links[names["r1"]].functional
                return _asked(self.noun(names["r2"], f"the {first}", single=single))
            case "3" | "4":
                return _chosen(first, first, self.condition(names["r2"], names["v"], negated=form == "4"))
        second = self.of(names["r2"], names["b"])
        match form:
            case "1":
                return _shared(first, second, self.joint(names))
            case "2":
                return (
                    f"What are the {first} and the {second}, taken together?",
                    f"Name everything that is among the {first}, among the {second}, or among both.",
                    f"Put the {first} and the {second} into one list: what is in it?",
                )
            case "5":
                if self.graph.links[names["r2"]].functional:
                    about = f"the {second}"
                    third = self.noun(names["r3"], about)
                    return _shared(first, third, self._joint(names["r1"], names["r3"], names["a"], about, third))
                third = self.noun(names["r3"], f"any of the {second}", single=False)
                return _shared(first, third, f"{first} that are also {third}")
            case "6":
                asked = _asked(self.noun(names["r3"], f"the {self.joint(names)}", single=False))
                long = self.noun(names["r3"], f"the {first} that are also {second}", single=False)
                return asked[0], asked[1], f"Which are the {long}?"
            case _:
                return _chosen(
                    self.joint(names), f"{first} that are also {second}", self.condition(names["r3"], names["v"])
                )

    def joint(self, names: Mapping[str, str]) -> str:
        """Return a noun for the common members of ``a`` and ``b``, shorter if both have the same relation."""
        second = self.of(names["r2"], names["b"])
        return self._joint(names["r1"], names["r2"], names["a"], self.graph.mention(names["b"]), second)

    def _joint(self, relation: str, other: str, subject: str, about: str, second: str) -> str:
        if relation == other and self._given(relation).many:
            return self.noun(relation, f"both {self.graph.mention(subject)} and {about}", single=False)
        return f"{self.of(relation, subject)} that are also {second}"

    # --- steps -------------------------------------------------------------------------------------------

    def steps(self, steps: Sequence[SetStep]) -> tuple[str, ...]:
        """Return one sub-question for each step. A logical step is an operation on earlier steps."""
        return tuple(self._step(steps, number) for number in range(1, len(steps) + 1))

    def _step(self, steps: Sequence[SetStep], number: int) -> str:
        step = steps[number - 1]
        sets = [f"T{given}" for given in step.inputs]
        match step.op:
            case "map" if isinstance(step.inputs[0], str):
                return self.question(step.inputs[0], step.relation)
            case "map":
                return self._own(step.relation, "question").replace(SLOT, f"each of {sets[0]}")
            case "filter" | "filter_not":
                has = "has" if step.op == "filter" else "does not have"
                value = self.graph.mention(step.value)
                return f"Logical operation: of {sets[0]}, keep each that {has} {value} in T{number - 1}."
            case _:
                name = "intersection" if step.op == "intersect" else "union"
                return f"Logical operation: the {name} of {listed(sets)}."

    def _about(self, subject: str, relation: str, name: str) -> str:
        template = self._own(relation, name)
        if not self.graph.node(subject).article:
            return template
        return template.replace(SLOT, f"The {SLOT}" if template.startswith(SLOT) else f"the {SLOT}")

    def _own(self, relation: str, name: str) -> str:
        """Return the given template, otherwise that of the graph or of the Wikidata property, or an empty text."""
        return getattr(self._given(relation), name) or str(getattr(self.graph.relation(relation), name, None) or "")

    def _given(self, relation: str) -> RelationTemplate:
        own, graph = self.templates.get(relation), self.graph.relation(relation)
        if own is not None:
            return own
        known = wikidata().get(relation, PLAIN)
        return evolve(known, question=graph.question or known.question, cloze=graph.cloze or known.cloze)


def listed(parts: Sequence[str]) -> str:
    """Join with commas and "and"."""
    return " and ".join((", ".join(parts[:-1]), parts[-1])) if len(parts) > 1 else "".join(parts)


def _asked(noun: str) -> Wordings:
    return f"What are the {noun}?", f"Name the {noun}.", f"Which are the {noun}?"


def _chosen(noun: str, long: str, condition: str) -> Wordings:
    return (
        f"Which of the {noun} {condition}?",
        f"Name those of the {noun} that {condition}.",
        f"Among the {long}, which ones {condition}?",
    )


def _shared(first: str, second: str, joint: str) -> Wordings:
    return (
        f"Which are the {joint}?",
        f"Which of the {first} are also {second}?",
        f"Name everything that is both among the {first} and among the {second}.",
    )
