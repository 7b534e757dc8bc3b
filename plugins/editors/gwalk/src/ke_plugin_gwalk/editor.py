"""GWalk as an editor: the model stays as it is, the edits of the batch become edges of a graph."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from attrs import astuple, field, frozen

from ke_core.plugin import (
    Ask,
    Details,
    Edit,
    Edited,
    Encoder,
    Procedure,
    Question,
    Reply,
    Session,
    Step,
    SubQuestion,
    prompt_text,
)
from ke_memory.plugin import HopProcedure, MemoryEditor, SubQuestionResult, SubQuestionWalk, dataset_sub_questions
from ke_plugin_gwalk import GwalkConfig
from ke_plugin_gwalk.graph import EditGraph, HiddenEdges, unfit
from ke_plugin_gwalk.reading import WalkFailed
from ke_plugin_gwalk.retrieval import Thresholds
from ke_plugin_gwalk.threshold import Calibration, fixed, of_entities, of_relations, refuse_unit
from ke_plugin_gwalk.walk import PROFILES, GwalkProfile, GwalkPrompts, Walk, step


class GwalkModel:
    """A model with a graph of edits beside it."""

    def __init__(self, session: Session[Any], walk: Walk, record: Details, *, given: SubQuestionWalk | None) -> None:
        self.session = session
        self.walk = walk
        self.given = given
        self._record = record

    @property
    def details(self) -> Details:
        """What the graph holds, the threshold and where it comes from, and what prompts were used."""
        return {**self.walk.graph.size, "encoder": self.walk.graph.relations.encoder.id, **self._record}

    def answer(self, asks: Sequence[Ask]) -> list[Reply]:
        """One reply an ask, in order; all advance together."""
        return self.session.engine.answer(self.solve, asks)

    def solve(self, ask: Ask) -> Procedure[Reply]:
        """The walk, or the one over the benchmark's own sub-questions where it is asked for."""
        return (self.given or self.walk).solve(ask)

    def change(self, *, add: Sequence[Edit] = (), remove: Sequence[str] = ()) -> None:
        """Take edges out of the graph and put others in."""
        self.walk.graph.change(add=add, remove=remove)


@frozen(kw_only=True)
class Gwalk(MemoryEditor):
    """Gwalk(config).edit(session, edits) is a model that walks questions through a graph of those edits."""

    config: GwalkConfig
    _known: dict[str, tuple[Calibration, Calibration | None]] = field(factory=dict, init=False, repr=False, eq=False)

    def check(self, session: Session[Any], edits: Sequence[Edit]) -> Mapping[str, str]:
        """An edge has one subject, relation and object. Without edits: raises BadConfig as ``remembering``."""
        fixed(self.config)
        super().check(session, edits)
        return {edit.id: why for edit in edits if (why := unfit(edit))}

    @property
    def encoder(self) -> str:
        """Of relations and entities."""
        return self.config.encoder

    def remembering(self, session: Session[Any], edits: Sequence[Edit]) -> Edited:
        """The model beside a graph. Raises BadConfig, UnsupportedEdit."""
        config, profile = self.config, PROFILES[self.config.profile]
        encoder = session.encoder(config.encoder)
        least, record = self._least(encoder, profile)
        aliases: Mapping[str, Iterable[str]] | None = (
            session.material["aliases"].value if config.aliases == "oracle" else None
        )
        graph = EditGraph(encoder, bare=profile.bare, respell=profile.respell, aliases=aliases, near=profile.near)
        prompts = GwalkPrompts(**{name: self._text(name) for name in ("subject", "relations", "question", "walk")})
        walk = Walk(graph=graph, prompts=prompts, profile=profile, least=least, max_hops=config.max_hops)
        graph.change(add=edits)
        shown = hashlib.sha256("\0".join(astuple(prompts)).encode()).hexdigest()
        record |= {"examples_sha256": shown}
        given = _given(walk, session) if config.decomposition == "oracle" else None
        return GwalkModel(session, walk, record, given=given)

    def _least(self, encoder: Encoder, profile: GwalkProfile) -> tuple[Thresholds, dict[str, Any]]:
        """The thresholds, and what is on record of them. The paper has one for entities and relations."""
        given = fixed(self.config)
        if given is not None:
            refuse_unit(self.config, encoder)
            least, record = Thresholds(relation=given, entity=given), dict[str, Any]()
        else:
            relation, entity = self._calibrated(encoder, profile)
            least = Thresholds(relation=relation.threshold, entity=entity.threshold if entity else math.inf)
            record = {"calibration": relation.details} | ({"entity_calibration": entity.details} if entity else {})
        about = {"threshold": least.relation} | ({"entity_threshold": least.entity} if profile.near else {})
        return least, record | about

    def _calibrated(self, encoder: Encoder, profile: GwalkProfile) -> tuple[Calibration, Calibration | None]:
        """Of relations, and of entities where they are found by embedding. Once an encoder, not once a batch."""
        if encoder.id not in self._known:
            self._known[encoder.id] = (
                of_relations(encoder, self._text("pairs"), bare=profile.bare),
                of_entities(encoder, self._text("names")) if profile.near else None,
            )
        return self._known[encoder.id]

    def _text(self, name: str) -> str:
        return prompt_text("ke_plugin_gwalk", f"{name}.txt", self.config.prompts, option="gwalk.prompts")


def _given(walk: Walk, session: Session[Any]) -> SubQuestionWalk:
    return SubQuestionWalk(
        hops=dataset_sub_questions(session, editor="gwalk"), way=partial(way, walk), cap=walk.max_hops
    )


def way(walk: Walk, ask: Question) -> HopProcedure:
    """How the hops of ``ask`` are taken."""
    unseen = walk.unseen(ask.hidden)

    def hop(given: SubQuestion, said: str) -> Procedure[SubQuestionResult]:
        """The edge that the sub-question asks for, if the graph has it."""
        del said
        try:
            return SubQuestionResult(steps=((yield from _edge(walk, given, unseen)),))
        except WalkFailed as end:
            return SubQuestionResult(steps=(Step(kind=end.outcome, text=end.said),), text=end.said, outcome=end.outcome)

    return hop


def _edge(walk: Walk, given: SubQuestion, unseen: HiddenEdges) -> Procedure[Step]:
    named = yield from walk.start((given.question,))
    phrase = yield from walk.relation(given.question, named)
    found = yield from walk.retrieve(named, phrase, unseen)
    return step(given.question, found, given.answer if found.fact is None else found.fact.object)
