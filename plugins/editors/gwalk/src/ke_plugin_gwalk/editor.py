"""GWalk as an editor: the model is unchanged, and the edits are edges of a graph."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from attrs import astuple, field, frozen

from ke_core.plugin import (
    Details,
    Edit,
    Edited,
    EditorRequest,
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
from ke_plugin_gwalk.graph import EditGraph, HiddenEdges, unsupported_reason
from ke_plugin_gwalk.reading import WalkFailed
from ke_plugin_gwalk.retrieval import Thresholds
from ke_plugin_gwalk.threshold import MeasuredThreshold, fixed, of_entities, of_relations, refuse_unit
from ke_plugin_gwalk.walk import PROFILES, GwalkProfile, GwalkPrompts, Walk, step


class GwalkModel:
    """A model with a graph of edits."""

    def __init__(
        self, session: Session[Any], walk: Walk, record: Details, *, dataset_walk: SubQuestionWalk | None
    ) -> None:
        self.session = session
        self.walk = walk
        self.dataset_walk = dataset_walk
        self._record = record

    @property
    def details(self) -> Details:
        """Size of the graph, the threshold with its source, and the digest of the prompts."""
        return {**self.walk.graph.size, "encoder": self.walk.graph.relations.encoder.id, **self._record}

    def answer(self, requests: Sequence[EditorRequest]) -> list[Reply]:
        """Return one reply per request, in order; all advance concurrently."""
        return self.session.engine.answer(self.solve, requests)

    def solve(self, request: EditorRequest) -> Procedure[Reply]:
        """Run the walk, or the walk over the benchmark's sub-questions."""
        return (self.dataset_walk or self.walk).solve(request)

    def change(self, *, add: Sequence[Edit] = (), remove: Sequence[str] = ()) -> None:
        """Remove edges and add others."""
        self.walk.graph.change(add=add, remove=remove)


@frozen
class Gwalk(MemoryEditor):
    """Editor whose edited model walks a graph of the edits."""

    config: GwalkConfig
    _known: dict[str, tuple[MeasuredThreshold, MeasuredThreshold | None]] = field(
        factory=dict, init=False, repr=False, eq=False
    )

    def check(self, session: Session[Any], edits: Sequence[Edit]) -> Mapping[str, str]:
        """Refuse edits without exactly one subject, relation and object. Without edits: raise BadConfig."""
        fixed(self.config)
        super().check(session, edits)
        return {edit.id: why for edit in edits if (why := unsupported_reason(edit))}

    def edited_model(self, session: Session[Any], edits: Sequence[Edit]) -> Edited:
        """Return the edited model. Raises BadConfig and UnsupportedEdit."""
        config, profile = self.config, PROFILES[self.config.profile]
        encoder = session.encoder(config.encoder)
        least, record = self._thresholds(encoder, profile)
        aliases: Mapping[str, Iterable[str]] | None = (
            session.material["aliases"].value if config.aliases == "oracle" else None
        )
        graph = EditGraph(encoder, released=profile.released, aliases=aliases, near=profile.near)
        prompts = GwalkPrompts(**{name: self._text(name) for name in ("subject", "relations", "question", "walk")})
        walk = Walk(graph=graph, prompts=prompts, profile=profile, least=least, max_hops=config.max_hops)
        graph.change(add=edits)
        digest = hashlib.sha256("\0".join(astuple(prompts)).encode()).hexdigest()
        record |= {"examples_sha256": digest}
        dataset_walk = None
        if config.decomposition == "oracle":
            hops = dataset_sub_questions(session, editor="gwalk")
            dataset_walk = SubQuestionWalk(hops=hops, hop_procedure=partial(hop_procedure, walk), cap=walk.max_hops)
        return GwalkModel(session, walk, record, dataset_walk=dataset_walk)

    def _thresholds(self, encoder: Encoder, profile: GwalkProfile) -> tuple[Thresholds, dict[str, Any]]:
        """Return the thresholds and their record. Profile ``algorithm-1`` has one for entities too."""
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

    def _calibrated(
        self, encoder: Encoder, profile: GwalkProfile
    ) -> tuple[MeasuredThreshold, MeasuredThreshold | None]:
        """Return the calibration of relations, and of entities if they are found by embedding. Cached by encoder."""
        if encoder.id not in self._known:
            self._known[encoder.id] = (
                of_relations(encoder, self._text("pairs"), released=profile.released),
                of_entities(encoder, self._text("names")) if profile.near else None,
            )
        return self._known[encoder.id]

    def _text(self, name: str) -> str:
        return prompt_text("ke_plugin_gwalk", f"{name}.txt", self.config.prompts, option="gwalk.prompts")


def hop_procedure(walk: Walk, request: Question) -> HopProcedure:
    """Return the procedure for the hops of ``request``."""
    unseen = walk.unseen(request.hidden)

    def hop(given: SubQuestion, earlier: str) -> Procedure[SubQuestionResult]:
        """Use the edge that answers the sub-question, if the graph has one."""
        del earlier  # each hop starts from its own sub-question
        try:
            return SubQuestionResult(steps=((yield from _edge(walk, given, unseen)),))
        except WalkFailed as end:
            return SubQuestionResult(steps=(Step(kind=end.outcome, text=end.text),), text=end.text, outcome=end.outcome)

    return hop


def _edge(walk: Walk, given: SubQuestion, unseen: HiddenEdges) -> Procedure[Step]:
    named = yield from walk.start((given.question,))
    phrase = yield from walk.relation(given.question, named)
    found = yield from walk.retrieve(named, phrase, unseen)
    return step(given.question, found, given.answer if found.fact is None else found.fact.object)
