"""What a benchmark wants to know of an edited model, and what would count as right."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, get_args

from attrs import Attribute, evolve, field, frozen, validators

from ke_core.spec.facts import OMITTED, Edit, Entity, Fact

Form = Literal["question", "cloze"]
Phase = Literal["before", "after"]
PHASES: tuple[Phase, ...] = get_args(Phase)
EFFICACY = "efficacy"
CONDITION = "condition"
"""The aspect of what is put to the unedited model as a probe's condition."""


def _spaced(instance: Query, attribute: Attribute[tuple[str, ...]], value: tuple[str, ...]) -> None:
    """A continuation begins with exactly one space (E1); a whole text, which follows nothing, with none."""
    for text in value:
        if instance.is_whole_text:
            continue
        if text[:1] != " " or not text[1:] or text[1].isspace():
            raise ValueError(f"{attribute.name}: {text!r} must begin with exactly one space")


def _one_for_each(instance: Query, attribute: Attribute[tuple[str, ...]], value: tuple[str, ...]) -> None:
    if value and len(value) != len(instance.continuations):
        raise ValueError(f"{attribute.name}: {len(value)} given for {len(instance.continuations)} continuations")


@frozen(kw_only=True)
class Gold:
    """What must be named: all or any of the entities, all in this order, or a number.

    An entity is named by its label or by any alias.
    """

    entities: tuple[Entity, ...] = ()
    require: Literal["all", "any", "ordered", "number"] = "all"

    def words(self, named: Callable[[Entity], str]) -> str:
        """What must be named, each entity as ``named`` has it: "Rome and Oslo", "Rome or Oslo", "Rome, then Oslo"."""
        joint = {"any": " or ", "all": " and ", "ordered": ", then ", "number": ", "}[self.require]
        return joint.join(map(named, self.entities)) or "nothing"


@frozen(kw_only=True)
class Query:
    """One thing asked.

    ``texts[0]`` is the wording that is asked; the rest are other wordings of the same question, which a
    method may consult. ``cloze`` is the same thing as a sentence that stops where the answer starts.
    ``stale`` is right before the edit, so that "not edited" and "broken" differ. ``edit`` is the id of the
    edit whose own fact this asks for, if it asks for one. ``hops`` and ``hops_before`` are the single-hop
    questions behind a multi-hop one, after and before the edits.

    With ``continuations`` nothing is generated: each of them is scored after the prompt, and the reply is ``Scored``,
    in this order. ``contexts``: the text before each continuation, where they do not share ``texts[0]``. In an empty
    cloze each continuation is a whole text, and its rolling likelihood is asked for.

    ``tags``: texts by name (``{"language": "de"}``) that scores are broken down by. Editors do not get them.
    """

    id: str = field(validator=validators.min_len(1))
    texts: tuple[str, ...] = field(validator=validators.min_len(1))
    form: Form = "question"
    cloze: str | None = None
    gold: Gold
    stale: Gold | None = None
    edit: str | None = None
    relation: str | None = None
    continuations: tuple[str, ...] = field(default=(), validator=_spaced)
    contexts: tuple[str, ...] = field(default=(), validator=_one_for_each, metadata=OMITTED)
    tags: Mapping[str, str] = field(factory=dict, metadata=OMITTED)
    hops: tuple[Query, ...] = ()
    hops_before: tuple[Query, ...] = ()

    @property
    def is_whole_text(self) -> bool:
        """Whether the continuations follow nothing: rolling likelihood."""
        return self.form == "cloze" and not self.texts[0] and not self.contexts

    @property
    def options(self) -> tuple[str, ...]:
        """What a right answer calls each continuation: its own text, or its context where the texts are the same."""
        same = len(set(self.continuations)) < len(self.continuations)
        return tuple(text.strip() for text in (self.contexts if same and self.contexts else self.continuations))


@frozen(kw_only=True)
class Probe:
    """Queries that stand or fall together, testing one aspect of the edits ``edits``.

    ``require``: one right query suffices, or all must be right. ``given``: conditions, put to the unedited
    model. ``phase``: asked of the unedited model, of the edited one, or of both.
    """

    id: str = field(validator=validators.min_len(1))
    aspect: str
    queries: tuple[Query, ...] = field(validator=validators.min_len(1))
    require: Literal["all", "any"] = "any"
    given: tuple[Query, ...] = ()
    phase: Literal["before", "after", "both"] = "after"
    edits: tuple[str, ...] = ()

    @property
    def tags(self) -> Mapping[str, str]:
        """The tags that all of its queries share: those of a value of the whole probe."""
        first, *others = self.queries
        return {name: text for name, text in first.tags.items() if all(one.tags.get(name) == text for one in others)}

    def asked(self, phase: Phase) -> bool:
        """Whether this probe's queries are put to the model of that phase."""
        return self.phase in (phase, "both")


@frozen(kw_only=True)
class Case:
    """The unit of a benchmark: edits that are made together, and the probes that test them.

    ``facts_before`` and ``facts_after`` are the chain the case rests on; masking and audits read them.
    A query id stands for one question in the whole case: two probes that share it are answered once.
    ``sentences_before`` and ``sentences_after``: everything that the data say is true then, for judges, where that is
    more than a chain of functional facts can hold; without them, judges are given the edits and the chain.
    ``not_editable``: why the case has no edits although its source record should have some; runs skip it with that
    reason.
    """

    id: str = field(validator=validators.min_len(1))
    edits: tuple[Edit, ...] = ()
    probes: tuple[Probe, ...] = field(validator=validators.min_len(1))
    facts_before: tuple[Fact, ...] = ()
    facts_after: tuple[Fact, ...] = ()
    tags: Mapping[str, str] = field(factory=dict)
    sentences_before: tuple[str, ...] = field(default=(), metadata=OMITTED)
    sentences_after: tuple[str, ...] = field(default=(), metadata=OMITTED)
    not_editable: str = field(default="", metadata=OMITTED)

    @property
    def tags_by_query(self) -> Mapping[str, Mapping[str, str]]:
        """The tags of each query and of each probe, by id; without those that have none."""
        tagged = (query for probe in self.probes for query in probe.queries if query.tags)
        of_probes = {probe.id: probe.tags for probe in self.probes if probe.tags}
        return of_probes | {query.id: query.tags for query in tagged}


def expected(query: Query, probe: Probe, phase: Phase, *, edited: bool) -> Query:
    """``query`` with the gold and stale answers of that moment.

    Where the world is still the old one (asked before editing, or a control whose edits are withheld) the
    answer that was right before the edit is right, and the edited one would be wrong.
    """
    if probe.phase == "before" or (phase == "after" and edited) or query.stale is None:
        return query
    return evolve(query, gold=query.stale, stale=query.gold)


PARAPHRASE, LOCALITY = "paraphrase", "locality"
PORTABILITY, FLUENCY = "portability", "fluency"
"""Questions that follow from the edit (answered after); openings about its subject that are continued (both phases)."""
PROBABILITY = "-probability"
SINGLE_ASPECTS = tuple(name + how for name in (EFFICACY, PARAPHRASE, LOCALITY) for how in ("", PROBABILITY))
FACTS_PERPLEXITY, COUNTERFACTUALS_PERPLEXITY = "perplexity-facts", "perplexity-counterfactuals"
QUESTION_ENTITIES = "question-entities"
"""The name of the material. Its value: the text of a question to what is said of its key entity."""
SUB_QUESTIONS = "sub-questions"
"""The name of the material. Its value: ``case/query`` to ``{phase: sub-questions in order}``."""


@frozen(kw_only=True)
class SubQuestion:
    """A single-hop question, and the answer of a model that knows every fact as it was before the edits.

    ``statement``: that answer as a sentence without full stop, where the question has a cloze; else the answer alone.
    """

    question: str
    answer: str
    statement: str
