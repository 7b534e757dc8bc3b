"""The records of a CompKE file, validated field by field.

The paper names the parts of a case (Table 1) but prints no file, so the spelling is ours; the README shows a complete
record. Every field that is used must be present, have the right type, and agree with the others. Unknown fields are
ignored.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

from attrs import Attribute, asdict, field, frozen, validators

from ke_benchmarks import all_not_blank, has_label, not_blank, some_not_blank
from ke_core.plugin import one_slot
from ke_plugin_compke.algebra import OPS, Op, SetStep, evaluate

Text = str  # inside ``NamedEntity``, ``str`` is a field
STEP = "#"
"""Prefix of the number of a step that is used as an input: "#1"."""


@frozen(kw_only=True)
class NamedEntity:
    """An entity: its label, id and aliases."""

    str: Text = field(validator=has_label)
    id: Text = field(validator=not_blank)
    aliases: tuple[Text, ...] = field(default=(), validator=all_not_blank)


def _a_set(_instance: object, attribute: Attribute[tuple[NamedEntity, ...]], value: tuple[NamedEntity, ...]) -> None:
    if not value:
        raise ValueError(f"{attribute.name} is empty")
    seen: set[str] = set()
    for named in value:
        if named.id in seen:
            raise ValueError(f"{attribute.name} contains {named.id} twice")
        seen.add(named.id)


@frozen(kw_only=True)
class CompkeRewrite:
    """An edit e = (s, r, O -> O'): ``prompt`` with the subject precedes the objects.

    ``question``, ``relation`` and ``statement`` are optional. They default to the relation's templates
    (``relations.json``) and the prompt.
    """

    subject: str = field(validator=has_label)
    subject_id: str = field(validator=not_blank)
    relation_id: str = field(validator=not_blank)
    prompt: str = field(validator=one_slot)
    old_objects: tuple[NamedEntity, ...] = field(validator=_a_set)
    new_objects: tuple[NamedEntity, ...] = field(validator=_a_set)
    question: str = ""
    relation: str = ""
    statement: str = ""

    def __attrs_post_init__(self) -> None:
        """Reject two equal sets, which are no edit."""
        if {old.id for old in self.old_objects} == {new.id for new in self.new_objects}:
            raise ValueError("old_objects and new_objects are the same set")


@frozen(kw_only=True)
class CompkeTriple:
    """One fact (s, r, O). ``question`` and ``cloze`` default to the relation's templates."""

    subject: NamedEntity
    relation_id: str = field(validator=not_blank)
    objects: tuple[NamedEntity, ...] = field(validator=_a_set)
    question: str = ""
    cloze: str = ""


@frozen(kw_only=True)
class Operation:
    """One step: an input is "#1" (the result of step 1) or the id of an entity; ``output`` contains ids."""

    op: Op = field(validator=validators.in_(OPS))
    inputs: tuple[str, ...] = field(validator=some_not_blank)
    output: tuple[str, ...]
    relation_id: str = ""
    value: str = ""

    def step(self) -> SetStep:
        """Return the step as one of the algebra. Raises ValueError."""
        inputs = tuple(_number(given) for given in self.inputs)
        return SetStep(op=self.op, inputs=inputs, relation=self.relation_id, value=self.value)


@frozen(kw_only=True)
class CompkeRecord:
    """One case of the file."""

    case_id: int
    edits: tuple[CompkeRewrite, ...] = field(validator=validators.min_len(1))
    questions: tuple[str, ...] = field(validator=some_not_blank)
    answers: tuple[NamedEntity, ...] = field(validator=_a_set)
    new_answers: tuple[NamedEntity, ...] = field(validator=_a_set)
    triples: tuple[CompkeTriple, ...] = field(validator=validators.min_len(1))
    new_triples: tuple[CompkeTriple, ...] = field(validator=validators.min_len(1))
    structure: str = ""
    operations: tuple[Operation, ...] = ()
    new_operations: tuple[Operation, ...] = ()
    steps: tuple[str, ...] = field(default=(), validator=all_not_blank)

    def __attrs_post_init__(self) -> None:
        """Check that redundant fields agree, and that the answers follow from the facts if steps are given."""
        edited = [(edit.subject_id, edit.relation_id) for edit in self.edits]
        if len(set(edited)) < len(edited):
            raise ValueError("edits: two of them change the same subject and relation")
        before, after = _facts(self.triples, "triples"), _facts(self.new_triples, "new_triples")
        for at, edit in enumerate(self.edits):
            place = edit.subject_id, edit.relation_id
            for name, facts, objects in (
                ("triples", before, edit.old_objects),
                ("new_triples", after, edit.new_objects),
            ):
                if place in facts and set(facts[place]) != {named.id for named in objects}:
                    raise ValueError(f"edits[{at}] and {name} give {place[0]} {place[1]} different objects")
            if place not in before and place not in after:
                raise ValueError(f"edits[{at}] changes a fact that is in neither triples nor new_triples")
        _follows("operations", self.operations, before, self.answers)
        _follows("new_operations", self.new_operations, after, self.new_answers)
        if self.steps and self.operations and len(self.steps) != len(self.operations):
            raise ValueError(f"steps has {len(self.steps)} items, operations {len(self.operations)}")

    def json(self) -> dict[str, object]:
        """Return the record as JSON values."""
        made: dict[str, object] = json.loads(json.dumps(asdict(self)))  # lists instead of tuples
        return made


def _number(given: str) -> int | str:
    number = given.removeprefix(STEP)
    return int(number) if given.startswith(STEP) and number.isdecimal() else given


def _facts(triples: Sequence[CompkeTriple], name: str) -> Mapping[tuple[str, str], tuple[str, ...]]:
    found: dict[tuple[str, str], tuple[str, ...]] = {}
    for triple in triples:
        place = triple.subject.id, triple.relation_id
        if place in found:
            raise ValueError(f"{name} contain {place[0]} {place[1]} twice")
        found[place] = tuple(named.id for named in triple.objects)
    return found


def _follows(
    name: str,
    operations: Sequence[Operation],
    facts: Mapping[tuple[str, str], tuple[str, ...]],
    answers: Sequence[NamedEntity],
) -> None:
    """Check that each output follows from the facts and that the last one is the answer."""
    if not operations:
        return
    made = evaluate([operation.step() for operation in operations], lambda subject, r: facts.get((subject, r), ()))
    for number, (operation, keys) in enumerate(zip(operations, made, strict=True), start=1):
        if set(operation.output) != set(keys):
            raise ValueError(
                f"{name}: step {number} gives {_said(keys)} from the facts, but its output is {_said(operation.output)}"
            )
    if set(made[-1]) != {named.id for named in answers}:
        raise ValueError(
            f"{name} end with {_said(made[-1])}, but the answers are {_said(named.id for named in answers)}"
        )


def _said(keys: Iterable[str]) -> str:
    return ", ".join(sorted(keys)) or "nothing"
