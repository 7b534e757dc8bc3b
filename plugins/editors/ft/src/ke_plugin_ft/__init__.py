"""Editor ``ft``: fine-tuning of one layer's MLP output projection, bounded (FT-L) or unbounded (FT)."""

from __future__ import annotations

from ke_core.plugin import EditorSpec, hookimpl
from ke_plugin_ft.values import FtConfig, settings

CITE = (
    "Zhu, Rawat, Zaheer, Bhojanapalli, Li, Yu, Kumar: Modifying Memories in Transformer Models. 2020, "
    "https://arxiv.org/abs/2012.00363; as a baseline with settings for GPT in Meng, Bau, Andonian, Belinkov: Locating "
    "and Editing Factual Associations in GPT. NeurIPS 2022, https://arxiv.org/abs/2202.05262; profile locft-bf: Yang "
    "et al. 2025, https://arxiv.org/abs/2509.22072"
)


@hookimpl
def ke_editors() -> list[EditorSpec]:
    """Register ``ft``."""
    return [
        EditorSpec(
            name="ft",
            summary="fine-tunes one layer's MLP projection on the edits, with a bound on each weight",
            config=FtConfig,
            build="ke_plugin_ft.editor:Ft",
            cite=CITE,
            needs_weights=True,
            edited_form="cloze",
            settings=settings,
        )
    ]
