"""Editors ``rag`` and ``scr``: the edits nearest to a question in its prompt, with a gate that may reject them.

One implementation with three gates: none (``rag``), a similarity threshold (``rag`` with ``gate=threshold``), and a
selection by the model itself (``scr``).
"""

from __future__ import annotations

from typing import Literal

from attrs import field, frozen, validators

from ke_core.plugin import EditorSpec, hookimpl, option
from ke_memory import encoder_option, prompts_option

PROMPTS = "text before the facts: own, or a folder with an opening.txt"


@frozen(kw_only=True)
class RagConfig:
    """Options of ``rag``. The default is the published baseline: the nearest edit, whatever its similarity."""

    gate: Literal["none", "threshold"] = option(
        "none = always show the nearest edits, as published; threshold = only those that are similar enough", "none"
    )
    k: int = option("number of edits to retrieve; published: 1", 1, validators.ge(1))
    threshold: float | None = field(
        default=None,
        metadata={
            "help": "gate=threshold: minimum similarity of an edit; derived: 0.66 for minilm-l6 (see the README)",
            "derived": True,
        },
    )
    encoder: str = encoder_option()
    prompts: str = prompts_option(PROMPTS)


@frozen(kw_only=True)
class ScrConfig:
    """Options of ``scr``. The numbers are published."""

    k: int = option("number of edits that the model selects from", 5, validators.ge(1))
    max_tokens: int = option("maximum tokens of the model's selection", 50, validators.ge(1))
    encoder: str = encoder_option()
    prompts: str = prompts_option(f"{PROMPTS} and a select.txt, the worked examples of the selection")


@hookimpl
def ke_editors() -> list[EditorSpec]:
    """Register ``rag`` and ``scr``."""
    return [
        EditorSpec(
            name="rag",
            summary="retrieval: puts the edits nearest to a question into its prompt",
            config=RagConfig,
            build="ke_plugin_rag.editor:Rag",
            cite="Thede et al. 2025, Understanding the Limits of Lifelong Knowledge Editing in LLMs, arXiv:2503.05683",
            masks=True,
        ),
        EditorSpec(
            name="scr",
            summary="selective contextual reasoning: the model selects one of the nearest edits, or none",
            config=ScrConfig,
            build="ke_plugin_rag.editor:Scr",
            cite="He et al. 2025, Knowledge Updating? No More Model Editing! Just Selective Contextual Reasoning, "
            "arXiv:2503.05212",
            masks=True,
        ),
    ]
