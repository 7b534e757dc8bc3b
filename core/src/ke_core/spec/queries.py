"""Cases, probes and queries, and the answers that count as right."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Literal, get_args

from attrs import Attribute, evolve, field, frozen, validators

from ke_core.spec.facts import OMITTED, UNSPACED, Edit, Entity, Fact, continued

Form = Literal["question", "cloze"]
Phase = Literal["before", "after"]
PHASES: tuple[Phase, ...] = get_args(Phase)
EFFICACY = "efficacy"
CONDITION = "condition"
"""The aspect of a probe's conditions, which are asked of the unedited model."""


def _spaced(instance: Query, attribute: Attribute[tuple[str, ...]], value: tuple[str, ...]) -> None:
    """A continuation begins with exactly one space, in a script without spaces, or as ``continued`` writes it.

    A whole text follows nothing.
    """
    if instance.is_whole_text:
        return
    prompts = instance.contexts or instance.texts[:1] * len(value)
    for prompt, text in zip(prompts, value, strict=False):  # the next validator compares the lengths
        if not re.match(rf" \S|[{UNSPACED}]", text) and not continued(prompt, text) == text.rstrip() != "":
            raise ValueError(f"{attribute.name}: {text!r} must begin with exactly one space")


def one_for_each(instance: Any, attribute: Attribute[tuple[str, ...]], value: tuple[str, ...]) -> None:
    """Attrs validator: one text for each continuation and no shared prompt, or none at all. A query has no prompt."""
    if value and len(value) != len(instance.continuations):
        raise ValueError(f"{attribute.name}: {len(value)} given for {len(instance.continuations)} continuations")
    if value and (shared := getattr(instance, "prompt", None)):
        raise ValueError(f"{attribute.name} and prompt cannot both be given: {shared!r}")


@frozen(kw_only=True)
class Gold:
    """The right answer: all of the entities, any of them, all in this order, or a number.

    An entity is named by its label or by any alias.
    """

    entities: tuple[Entity, ...] = ()
    require: Literal["all", "any", "ordered", "number"] = "all"

    def words(self, named: Callable[[Entity], str]) -> str:
        """Return the answer in words, with entities written by ``named``: "Rome and Oslo", "Rome or Oslo"."""
        joint = {"any": " or ", "all": " and ", "ordered": ", then ", "number": ", "}[self.require]
        return joint.join(map(named, self.entities)) or "nothing"


@frozen(kw_only=True)
class Query:
    """One question, or one set of continuations to score.

    ``texts[0]`` is the wording that is used. The rest are other wordings, which a method may read. ``cloze``: the same
    question as a sentence that stops before the answer. ``pre_edit``: the answer right before the
    edit, which tells "not edited" from "broken". ``edit``: the id of the edit whose own fact is asked, if any. ``hops``
    and ``hops_before``: the single-hop questions of a multi-hop question, after and before the edits.

    With ``continuations``, nothing is generated. Each of them is scored after the prompt, and the reply is ``Scored``,
    in this order. ``contexts``: the text before each continuation, if they do not share ``texts[0]``. If the form is
    cloze and the text is empty, each continuation is a whole text and its rolling likelihood is computed.

    ``tags``: text by name (``{"language": "de"}``), for breakdowns of scores. Editors do not get them.
    """

    id: str = field(validator=validators.min_len(1))
    texts: tuple[str, ...] = field(validator=validators.min_len(1))
    form: Form = "question"
    cloze: str | None = None
    gold: Gold
    pre_edit: Gold | None = None
    edit: str | None = None
    relation: str | None = None
    continuations: tuple[str, ...] = field(default=(), validator=_spaced)
    contexts: tuple[str, ...] = field(default=(), validator=one_for_each, metadata=OMITTED)
    tags: Mapping[str, str] = field(factory=dict, metadata=OMITTED)
    hops: tuple[Query, ...] = ()
    hops_before: tuple[Query, ...] = ()

    @property
    def is_whole_text(self) -> bool:
        """Whether the continuations are whole texts (rolling likelihood)."""
        return self.form == "cloze" and not self.texts[0] and not self.contexts

    @property
    def options(self) -> tuple[str, ...]:
        """The names of the continuations in a right answer: their texts, or their contexts if the texts are equal."""
        same = len(set(self.continuations)) < len(self.continuations)
        return tuple(text.strip() for text in (self.contexts if same and self.contexts else self.continuations))


@frozen(kw_only=True)
class Probe:
    """Queries that test one aspect of ``edits`` and are scored together.

    ``require``: any query or all queries must be right. ``given``: conditions, which the unedited model must answer
    right. ``phase``: whether the unedited model is asked, the edited one, or both. ``metric``: the metric that derived
    the probe from the case; the run sets it. Its queries are asked after the others, because they may name an answer.
    """

    id: str = field(validator=validators.min_len(1))
    aspect: str
    queries: tuple[Query, ...] = field(validator=validators.min_len(1))
    require: Literal["all", "any"] = "any"
    given: tuple[Query, ...] = ()
    phase: Literal["before", "after", "both"] = "after"
    edits: tuple[str, ...] = ()
    metric: str = field(default="", metadata=OMITTED)

    @property
    def tags(self) -> Mapping[str, str]:
        """The tags that all queries of the probe share."""
        first, *others = self.queries
        return {name: text for name, text in first.tags.items() if all(one.tags.get(name) == text for one in others)}

    def asked(self, phase: Phase) -> bool:
        """Whether the queries of this probe are asked in that phase."""
        return self.phase in (phase, "both")


@frozen(kw_only=True)
class Case:
    """The unit of a benchmark: edits that are made together, and the probes that test them.

    ``facts_before`` and ``facts_after``: the chain of facts behind the questions, for masking and audits.
    A query id means one question in the whole case: if two probes share it, it is answered once.
    ``sentences_before`` and ``sentences_after``: everything that is true according to the data, for judges. Without
    them, judges get the edits and the chain.
    ``not_editable``: the reason why a case that should have edits has none. Runs skip it with that reason.
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
        """The tags of each query and each probe, by id. Those without tags are omitted."""
        tagged = (query for probe in self.probes for query in probe.queries if query.tags)
        of_probes = {probe.id: probe.tags for probe in self.probes if probe.tags}
        return of_probes | {query.id: query.tags for query in tagged}


def expected(query: Query, probe: Probe, phase: Phase, *, edited: bool) -> Query:
    """Return ``query`` with the gold and pre-edit answers of that phase.

    Before editing, and in a control whose edits are not made, the pre-edit answer is the right one.
    """
    if probe.phase == "before" or (phase == "after" and edited) or query.pre_edit is None:
        return query
    return evolve(query, gold=query.pre_edit, pre_edit=query.gold)


PARAPHRASE, LOCALITY = "paraphrase", "locality"
PORTABILITY, FLUENCY = "portability", "fluency"
"""Consequences of the edit (asked after it); beginnings of texts about its subject (continued in both phases)."""
PROBABILITY = "-probability"
SINGLE_ASPECTS = tuple(name + how for name in (EFFICACY, PARAPHRASE, LOCALITY) for how in ("", PROBABILITY))
FACTS_PERPLEXITY, COUNTERFACTUALS_PERPLEXITY = "perplexity-facts", "perplexity-counterfactuals"
QUESTION_ENTITIES = "question-entities"
"""The name of a material. Its value maps the text of a question to a description of its key entity."""
SUB_QUESTIONS = "sub-questions"
"""The name of a material. Its value maps ``case/query`` to ``{phase: sub-questions in order}``."""


@frozen(kw_only=True)
class SubQuestion:
    """A single-hop question, and its pre-edit answer.

    ``statement``: the answer as a sentence without a period if the question has a cloze, else only the answer.
    """

    question: str
    answer: str
    statement: str
