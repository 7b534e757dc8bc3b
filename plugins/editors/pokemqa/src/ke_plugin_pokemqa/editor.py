"""PokeMQA as an editor: the model is unchanged, and a scope detector selects edits from a memory."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ke_core.plugin import (
    QUESTION_ENTITIES,
    BadConfig,
    Details,
    Edit,
    Edited,
    EditorRequest,
    Procedure,
    Reply,
    Session,
    prompt_text,
)
from ke_memory.plugin import FactMemory, MemoryEditedModel, MemoryEditor
from ke_plugin_pokemqa import PokemqaConfig
from ke_plugin_pokemqa.loop import PokemqaLoop
from ke_plugin_pokemqa.profiles import recipe_of
from ke_plugin_pokemqa.scope import NearestMemory, ScopeMemory
from ke_plugin_pokemqa.turns import LOOPS
from ke_weights import checkpoint_digest

if TYPE_CHECKING:
    from ke_plugin_pokemqa.trained import TrainedDetector

EXAMPLES = "scoped-decompositions"
"""Name of the material with worked examples in this loop's format."""
THRESHOLDS = {"minilm-l6": 0.67}
"""For detector=nearest, by encoder: the best value on half of CF-3k's hops (benchmarks/scope.py)."""


class PokemqaModel(MemoryEditedModel):
    """A model with a memory of edits and a scope detector."""

    def __init__(
        self,
        config: PokemqaConfig,
        session: Session[Any],
        edits: Sequence[Edit],
        *,
        memory: FactMemory,
        detector: Details,
    ) -> None:
        super().__init__(session, edits, memory=memory)
        self.detector = detector
        known = _entities(session) if config.knowledge == "dataset" else {}
        self.loop = PokemqaLoop(
            memory=memory,
            examples=_examples("plain.txt", config, session),
            knowledge_examples=_examples("knowledge.txt", config, session) if known else "",
            entities=known,
            profile=LOOPS[config.loop],
            calls=config.max_calls,
            max_tokens=config.max_tokens,
        )
        self.dataset_walk = self.loop.dataset_walk(session) if config.decomposition == "oracle" else None

    def solve(self, request: EditorRequest) -> Procedure[Reply]:
        """Run the paper's loop, or the walk over the dataset's sub-questions."""
        return (self.dataset_walk or self.loop).solve(request)

    @property
    def details(self) -> Details:
        """Size of the memory, the detector, and the digest of the worked examples."""
        digest = hashlib.sha256(f"{self.loop.examples}\0{self.loop.knowledge_examples}".encode()).hexdigest()
        return {**super().details, "detector": dict(self.detector), "examples_sha256": digest}


class Pokemqa(MemoryEditor):
    """Editor whose edited model uses a memory of the edits."""

    def __init__(self, config: PokemqaConfig) -> None:
        self.config = config
        self._loaded: tuple[object, TrainedDetector] | None = None

    @property
    def encoder(self) -> str:
        """The encoder of the memory and the detector."""
        return recipe_of(self.config).encoder

    def edited_model(self, session: Session[Any], edits: Sequence[Edit]) -> Edited:
        """Return the edited model. Raises BadConfig without a detector or for an unsuitable option."""
        memory, detector = self._memory(session)
        return PokemqaModel(self.config, session, edits, memory=memory, detector=detector)

    def dependencies(self, session: Session[Any]) -> Mapping[str, str]:
        """Return the digests of the encoder and of the trained detector."""
        if self.config.detector == "nearest":
            return super().dependencies(session)
        from ke_plugin_pokemqa.trained import folder_of  # noqa: PLC0415  imports torch, which detector=nearest does not need

        return {**super().dependencies(session), "detector": checkpoint_digest(folder_of(session, self.config))}

    def _memory(self, session: Session[Any]) -> tuple[FactMemory, Details]:
        """Return an empty memory, and the record of its detector."""
        if self.config.detector == "nearest":
            if self.config.checkpoint:
                raise BadConfig(
                    f"pokemqa.checkpoint={self.config.checkpoint} has no effect with pokemqa.detector=nearest",
                    hint="remove one of the two options",
                )
            threshold = self.config.threshold if self.config.threshold is not None else THRESHOLDS.get(self.encoder)
            if threshold is None:
                raise BadConfig(
                    f"pokemqa.detector=nearest has no threshold for the encoder {self.encoder}",
                    hint="set -o pokemqa.threshold to a score of that encoder; benchmarks/scope.py computes one",
                )
            return NearestMemory(session.encoder(self.encoder), threshold), {"kind": "nearest", "threshold": threshold}
        if self.config.threshold is not None:
            raise BadConfig(
                f"pokemqa.threshold={self.config.threshold} has no effect with pokemqa.detector=trained",
                hint="remove it, or set pokemqa.detector=nearest",
            )
        found = self._trained(session)
        return ScopeMemory(found.detector), {"kind": "trained", "trained": found.record}

    def _trained(self, session: Session[Any]) -> TrainedDetector:
        """Return the detector, loaded once for all concurrent groups of edits, and again after more training."""
        from ke_plugin_pokemqa.trained import stamp_of, trained  # noqa: PLC0415  imports torch, which detector=nearest does not need

        stamp = stamp_of(session, self.config)
        if self._loaded is None or self._loaded[0] != stamp:
            self._loaded = None  # free the old one first
            self._loaded = stamp, trained(session, self.config)
        return self._loaded[1]


def _examples(file: str, config: PokemqaConfig, session: Session[Any]) -> str:
    material = EXAMPLES if file == "plain.txt" else ""
    return prompt_text(
        "ke_plugin_pokemqa", file, config.prompts, session=session, material=material, option="pokemqa.prompts"
    )


def _entities(session: Session[Any]) -> Mapping[str, str]:
    if QUESTION_ENTITIES not in session.material:
        raise BadConfig(
            f"pokemqa.knowledge=dataset: this dataset has no {QUESTION_ENTITIES}",
            hint="remove -o pokemqa.knowledge=dataset",
        )
    found: Mapping[str, str] = session.material[QUESTION_ENTITIES].value
    return found
