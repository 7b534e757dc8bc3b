"""Gates: which of the retrieved edits are shown with a question.

================== ====================================================================================
gate               shown
================== ====================================================================================
``AllHits``        every retrieved edit (plain retrieval)
``SimilarHits``    those whose score reaches a threshold
``SelectedHit``    the one that the model itself selects, or none (He et al. 2025: step 2 of SCR)
================== ====================================================================================

A gate is a procedure, because the third one calls the model.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Protocol

from attrs import frozen

from ke_core.plugin import Generate, Generated, Hit, Procedure, Step
from ke_memory.plugin import sentence

NONE = "none"
LABEL = "Fact:"


@frozen(kw_only=True)
class GateResult:
    """The edits to show, and the steps that record how they were chosen."""

    hits: tuple[Hit, ...]
    steps: tuple[Step, ...] = ()


class RetrievalGate(Protocol):
    """Chooses among the edits retrieved for ``text``."""

    def choose(self, text: str, hits: Sequence[Hit]) -> Procedure[GateResult]:
        """Return the edits to show."""
        ...


class AllHits:
    """Shows every retrieved edit."""

    def choose(self, _text: str, hits: Sequence[Hit]) -> Procedure[GateResult]:
        """Return all edits."""
        yield from ()
        return GateResult(hits=tuple(hits))


@frozen(kw_only=True)
class SimilarHits:
    """Shows the edits whose score is at least ``threshold``."""

    threshold: float

    def choose(self, _text: str, hits: Sequence[Hit]) -> Procedure[GateResult]:
        """Return the similar edits."""
        yield from ()
        return GateResult(hits=tuple(hit for hit in hits if hit.score >= self.threshold))


@frozen(kw_only=True)
class SelectedHit:
    """Shows the edit that the model selects. ``examples``: instruction and worked examples."""

    examples: str
    max_tokens: int

    def choose(self, text: str, hits: Sequence[Hit]) -> Procedure[GateResult]:
        """Ask the model for the one relevant edit, greedily. Without edits there is nothing to ask."""
        if not hits:
            return GateResult(hits=())
        facts = "\n".join(f"- {' '.join(sentence(hit.text).split())}" for hit in hits)
        prompt = f"{self.examples}\n\nFacts:\n{facts}\nQuestion: {text}\n{LABEL}"
        written: Generated = yield Generate(prompt=prompt, max_tokens=self.max_tokens, stop=("\n",))
        found = selected(written.text, hits, cut_off=written.finish == "length")
        return GateResult(hits=found, steps=(Step(kind="selection", text=written.text.strip()),))


def selected(reply: str, hits: Sequence[Hit], *, cut_off: bool = False) -> tuple[Hit, ...]:
    """Return the edit that ``reply`` repeats; none if it says none or repeats no retrieved edit.

    The reply may add words around the edit ("The fact is: ..."). If ``cut_off``, it may be the start of the edit.
    """
    said = _plain(reply.strip().removeprefix(LABEL))
    if not said or re.match(rf"{NONE}\b(?!\s*\w)", said):
        return ()
    facts = [(hit, _plain(hit.text)) for hit in hits]
    repeated = [(hit, fact) for hit, fact in facts if re.search(rf"(?<!\w){re.escape(fact)}(?!\w)", said)]
    if repeated:  # of "... is Guinea" and "... is Guinea-Bissau", the reply repeats the longer one
        return (max(repeated, key=lambda one: len(one[1]))[0],)
    return tuple(hit for hit, fact in facts if cut_off and fact.startswith(said))[:1]


def _plain(text: str) -> str:
    return " ".join(text.casefold().split()).strip("-\"'. ")
