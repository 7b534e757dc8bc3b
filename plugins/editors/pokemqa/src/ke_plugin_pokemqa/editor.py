"""PokeMQA as an editor: the model is unchanged, and the edits are stored in a memory behind the scope detector."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ke_core.plugin import (
    QUESTION_ENTITIES,
    Ask,
    BadConfig,
    Details,
    Edit,
    Edited,
    Procedure,
    Reply,
    Session,
    prompt_text,
)
from ke_memory.plugin import FactMemory, MemoryEditedModel, MemoryEditor
from ke_plugin_pokemqa import PokemqaConfig
from ke_plugin_pokemqa.loop import PokemqaLoop
from ke_plugin_pokemqa.profiles import PROFILES
from ke_plugin_pokemqa.scope import NearestMemory, ScopeMemory
from ke_plugin_pokemqa.turns import WAYS
from ke_weights import checkpoint_digest

if TYPE_CHECKING:
    from ke_plugin_pokemqa.trained import TrainedDetector

EXAMPLES = "scoped-decompositions"
"""The name of the material with worked examples in this loop's lines."""
THRESHOLDS = {"minilm-l6": 0.67}
"""Of detector=nearest: the best on half of CF-3k's hops (benchmarks/scope.py). It says nothing about other encoders."""


class PokemqaModel(MemoryEditedModel):
    """A model with a memory of edits, and a detector before the memory."""

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
            knowing=_examples("knowledge.txt", config, session) if known else "",
            entities=known,
            way=WAYS[config.loop],
            calls=config.max_calls,
            max_tokens=config.max_tokens,
        )
        self.given = self.loop.over_given(session) if config.decomposition == "oracle" else None

    def solve(self, ask: Ask) -> Procedure[Reply]:
        """Run the paper's loop, or the walk over the dataset's own sub-questions."""
        return (self.given or self.loop).solve(ask)

    @property
    def details(self) -> Details:
        """What the memory holds, what stands before it, and which worked examples are shown."""
        shown = hashlib.sha256(f"{self.loop.examples}\0{self.loop.knowing}".encode()).hexdigest()
        return {**super().details, "detector": dict(self.detector), "examples_sha256": shown}


class Pokemqa(MemoryEditor):
    """Pokemqa(config).edit(session, edits) is a model that consults a memory of those edits."""

    def __init__(self, config: PokemqaConfig) -> None:
        self.config = config
        self._loaded: tuple[object, TrainedDetector] | None = None

    @property
    def encoder(self) -> str:
        """Of the memory, and under the detector."""
        return self.config.encoder or PROFILES[self.config.profile].encoder

    def remembering(self, session: Session[Any], edits: Sequence[Edit]) -> Edited:
        """The model beside a memory. Raises BadConfig without a detector, or where an option does not fit."""
        memory, detector = self._memory(session)
        return PokemqaModel(self.config, session, edits, memory=memory, detector=detector)

    def dependencies(self, session: Session[Any]) -> Mapping[str, str]:
        """The encoder, and the detector as it is trained now."""
        if self.config.detector == "nearest":
            return super().dependencies(session)
        from ke_plugin_pokemqa.trained import folder_of  # noqa: PLC0415  torch, which nearest does not need

        return {**super().dependencies(session), "detector": checkpoint_digest(folder_of(session, self.config))}

    def _memory(self, session: Session[Any]) -> tuple[FactMemory, Details]:
        """An empty memory, and what is said of its detector."""
        if self.config.detector == "nearest":
            if self.config.checkpoint:
                raise BadConfig(
                    f"pokemqa.checkpoint={self.config.checkpoint} is a trained detector, and pokemqa.detector=nearest "
                    "takes none",
                    hint="leave one of them out",
                )
            name = self.config.encoder or PROFILES[self.config.profile].encoder
            threshold = self.config.threshold if self.config.threshold is not None else THRESHOLDS.get(name)
            if threshold is None:
                raise BadConfig(
                    f"pokemqa.detector=nearest has no threshold for the encoder {name}",
                    hint="set -o pokemqa.threshold to a score of that encoder; benchmarks/scope.py finds one",
                )
            return NearestMemory(session.encoder(name), threshold), {"kind": "nearest", "threshold": threshold}
        found = self._trained(session)
        return ScopeMemory(found.detector), {"kind": "trained", "trained": found.record}

    def _trained(self, session: Session[Any]) -> TrainedDetector:
        """The detector, loaded once for all groups of edits that stand side by side; a retrained one is noticed."""
        from ke_plugin_pokemqa.trained import stamp_of, trained  # noqa: PLC0415  torch, which nearest does not need

        stamp = stamp_of(session, self.config)
        if self._loaded is None or self._loaded[0] != stamp:
            self._loaded = None  # the old one is not kept beside the new
            self._loaded = stamp, trained(session, self.config)
        return self._loaded[1]


def _examples(file: str, config: PokemqaConfig, session: Session[Any]) -> str:
    brought = EXAMPLES if file == "plain.txt" else ""
    return prompt_text(
        "ke_plugin_pokemqa", file, config.prompts, session=session, material=brought, option="pokemqa.prompts"
    )


def _entities(session: Session[Any]) -> Mapping[str, str]:
    if QUESTION_ENTITIES not in session.material:
        raise BadConfig(
            f"pokemqa.knowledge=dataset: this dataset brings no {QUESTION_ENTITIES}",
            hint="leave pokemqa.knowledge at none",
        )
    found: Mapping[str, str] = session.material[QUESTION_ENTITIES].value
    return found
