"""Editor ``serac``: a memory of edits, a scope classifier and a counterfactual model (Mitchell et al. 2022)."""

from __future__ import annotations

from attrs import frozen, validators

from ke_core.plugin import EditorSpec, TrainerSpec, hookimpl, option
from ke_memory import encoder_option

CITE = (
    "Mitchell, Lin, Bosselut, Manning, Finn: Memory-Based Model Editing at Scale. ICML 2022, "
    "https://arxiv.org/abs/2206.06520"
)


@frozen(kw_only=True)
class SeracConfig:
    """Options of editing, and of the training of both networks."""

    counterfactual: str = option(
        "small language model that answers questions in scope: a name or a folder", "smollm2-135m", file=True
    )
    encoder: str = encoder_option("sentence encoder under the scope classifier")
    checkpoint: str = option(
        "folder written by ke train serac; empty: the one in the cache for this encoder and counterfactual model",
        "",
        file=True,
    )
    blocks: int = option(
        "training: number of last blocks of the counterfactual model to train; 0: the whole model", 10, validators.ge(0)
    )
    lr: float = option(
        "training: Adam's learning rate of the counterfactual model; published: 1e-5", 5e-5, validators.gt(0)
    )
    scope_lr: float = option("training: Adam's learning rate of the scope classifier", 1e-2, validators.gt(0))
    batch: int = option("training: edits per step of the counterfactual model; published: 10", 10, validators.ge(1))
    scope_batch: int = option(
        "training: edits per step of the scope classifier, each a negative of the others", 32, validators.ge(2)
    )


@hookimpl
def ke_editors() -> list[EditorSpec]:
    """Register ``serac``."""
    return [
        EditorSpec(
            name="serac",
            summary="a trained small model answers questions that a trained classifier finds in scope of an edit",
            config=SeracConfig,
            build="ke_plugin_serac.editor:Serac",
            cite=CITE,
            masks=True,
            trainer=TrainerSpec(build="ke_plugin_serac.training:SeracTrainer", needs_model=False),
        )
    ]
