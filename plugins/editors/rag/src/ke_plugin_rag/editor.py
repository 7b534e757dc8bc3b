"""Retrieval over the edits, with a gate (Thede et al. 2025; He et al. 2025).

::

    retrieve    the k edits nearest to the question
    gate        all of them; the similar ones; or the one that the model selects, or none
    answer      Fact: The capital of France is Lima.        the edits that passed
                ...                                         the benchmark's own prompt, unchanged

If no edit passes, the prompt is the benchmark's own one, so the answer is exactly that of the unedited model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import field, frozen

from ke_core.plugin import (
    BadConfig,
    Details,
    Edit,
    Edited,
    EditorRequest,
    Hit,
    Nearest,
    Procedure,
    Reply,
    Session,
    prompt_text,
    put,
)
from ke_memory.plugin import (
    MemoryEditedModel,
    MemoryEditor,
    QuestionContext,
    before_prompt,
    lookup_step,
    one_line,
    wording,
)
from ke_plugin_rag import RagConfig, ScrConfig
from ke_plugin_rag.gates import AllHits, RetrievalGate, SelectedHit, SimilarHits

PACKAGE = "ke_plugin_rag"
THRESHOLDS: Mapping[str, float] = {"minilm-l6": 0.66}
"""Best balanced accuracy on 1,000 statements with one question each, which belong to no benchmark (see the README)."""


class RagModel(MemoryEditedModel):
    """A model that reads the edits that pass the gate before each question."""

    def __init__(
        self, session: Session[Any], edits: Sequence[Edit], *, encoder: str, k: int, opening: str, gate: RetrievalGate
    ) -> None:
        super().__init__(session, edits, encoder=encoder)
        self.k, self.opening, self.gate = k, opening, gate

    def solve(self, request: EditorRequest) -> Procedure[Reply]:
        """Send the prompt with the edits before it, or the prompt only if no edit passes."""
        text = wording(request)
        hits: tuple[Hit, ...] = yield Nearest(memory=self.memory, text=text, k=self.k, hidden=request.hidden)
        passed = yield from self.gate.choose(text, hits)
        steps = (lookup_step(text, passed.hits, kind="retrieved"), *passed.steps)
        shown = QuestionContext(facts=tuple(hit.text for hit in passed.hits), steps=steps)
        prefix = f"{self.opening} {shown.sentences}\n" if shown.facts else ""
        reply: Reply = yield from put(before_prompt(request, prefix))
        return shown.with_steps(reply)

    @property
    def details(self) -> Details:
        """The memory, the number of retrieved edits, and the text before the facts."""
        return {**super().details, "k": self.k, "opening": self.opening}


@frozen
class Rag(MemoryEditor):
    """Editor whose edited model reads the nearest edits, all of them or the similar ones."""

    config: RagConfig
    gate: RetrievalGate = field(init=False)

    @gate.default
    def _gate(self) -> RetrievalGate:
        if self.config.gate == "none":
            if self.config.threshold is not None:
                raise BadConfig(
                    f"rag.threshold={self.config.threshold} has no effect with gate=none",
                    hint="add -o rag.gate=threshold",
                )
            return AllHits()
        threshold = self.config.threshold
        if threshold is None and self.config.encoder not in THRESHOLDS:
            raise BadConfig(
                f"rag.gate=threshold has no threshold for the encoder {self.config.encoder}",
                hint="set -o rag.threshold to a similarity of that encoder",
            )
        return SimilarHits(threshold=THRESHOLDS[self.config.encoder] if threshold is None else threshold)

    def edited_model(self, session: Session[Any], edits: Sequence[Edit]) -> Edited:
        """Return the edited model. Raises BadConfig if ``prompts`` has no usable file."""
        config = self.config
        opening = one_line(PACKAGE, "opening.txt", config.prompts, option="rag.prompts")
        return RagModel(session, edits, encoder=config.encoder, k=config.k, opening=opening, gate=self.gate)


@frozen
class Scr(MemoryEditor):
    """Editor whose edited model reads the edit that the model itself selects."""

    config: ScrConfig

    def edited_model(self, session: Session[Any], edits: Sequence[Edit]) -> Edited:
        """Return the edited model. Raises BadConfig if ``prompts`` lacks a usable file."""
        config, option = self.config, "scr.prompts"
        gate = SelectedHit(
            examples=prompt_text(PACKAGE, "select.txt", config.prompts, option=option), max_tokens=config.max_tokens
        )
        opening = one_line(PACKAGE, "opening.txt", config.prompts, option=option)
        return RagModel(session, edits, encoder=config.encoder, k=config.k, opening=opening, gate=gate)
