"""Convert a candidate to a record: edits, facts, steps and answers, with their wording."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import frozen

from ke_benchmarks.graph import KnowledgeGraph
from ke_plugin_compke.algebra import Keys, Place, SetStep, World
from ke_plugin_compke.candidates import StructureCandidate
from ke_plugin_compke.records import STEP, CompkeRecord, CompkeRewrite, CompkeTriple, NamedEntity, Operation
from ke_plugin_compke.words import QuestionWriter


@frozen(kw_only=True)
class RecordWriter:
    """Writes records of a graph's candidates."""

    graph: KnowledgeGraph
    words: QuestionWriter

    def record(
        self, number: int, found: StructureCandidate, phrase: Callable[[Sequence[str]], Sequence[str]]
    ) -> CompkeRecord:
        """Return the record of a candidate. ``phrase`` may rewrite its questions."""
        before, after = found.world.before, found.world.after
        return CompkeRecord(
            case_id=number,
            structure=found.form.name,
            edits=tuple(self._edit(place, before(*place), after(*place)) for place in found.edited),
            questions=tuple(phrase(self.words.questions(found.form.name, found.names))),
            answers=self._named(found.before[-1]),
            new_answers=self._named(found.after[-1]),
            triples=self._triples(found.facts_before, before),
            new_triples=self._triples(found.facts_after, after),
            operations=_operations(found.steps, found.before),
            new_operations=_operations(found.steps, found.after),
            steps=self.words.steps(found.steps),
        )

    def _edit(self, place: Place, old: Keys, new: Keys) -> CompkeRewrite:
        subject, relation = place
        return CompkeRewrite(
            subject=self.graph.entity(subject).label,
            subject_id=subject,
            relation_id=relation,
            prompt=self.words.prompt(subject, relation),
            old_objects=self._named(old),
            new_objects=self._named(new),
            question=self.words.question(subject, relation),
            relation=self.graph.relation(relation).label,
            statement=self.words.statement(subject, relation, new),
        )

    def _triples(self, facts: Sequence[Place], truth: World) -> tuple[CompkeTriple, ...]:
        return tuple(
            CompkeTriple(
                subject=self._one(subject),
                relation_id=relation,
                objects=self._named(tuple(truth(subject, relation))),
                question=self.words.question(subject, relation),
                cloze=self.words.cloze(subject, relation),
            )
            for subject, relation in facts
        )

    def _named(self, keys: Keys) -> tuple[NamedEntity, ...]:
        return tuple(map(self._one, keys))

    def _one(self, key: str) -> NamedEntity:
        entity = self.graph.entity(key)
        return NamedEntity(str=entity.label, id=key, aliases=entity.aliases)


def _operations(steps: Sequence[SetStep], made: Sequence[Keys]) -> tuple[Operation, ...]:
    return tuple(
        Operation(
            op=step.op,
            inputs=tuple(f"{STEP}{given}" if isinstance(given, int) else given for given in step.inputs),
            relation_id=step.relation,
            value=step.value,
            output=output,
        )
        for step, output in zip(steps, made, strict=True)
    )
