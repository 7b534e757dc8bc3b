"""Editor ``memit``: Mass-Editing Memory in a Transformer (Meng et al., ICLR 2023)."""

from __future__ import annotations

from typing import Any

from attrs import field, frozen, validators

from ke_core.plugin import Editor, EditorSpec, hookimpl

CITE = (
    "Meng, Sen Sharma, Andonian, Belinkov, Bau: Mass-Editing Memory in a Transformer. ICLR 2023, "
    "https://arxiv.org/abs/2210.07229"
)
positive = validators.optional(validators.gt(0))
not_negative = validators.optional(validators.ge(0))


def _derived(text: str, check: Any = None) -> Any:
    """An option that, left alone, is set for the model at hand (``derive.py``)."""
    return field(default=None, validator=check or [], metadata={"help": text, "derived": True})


@frozen(kw_only=True)
class MemitConfig:
    """The paper's hyperparameters. None means: the published value for this model, else derived from its shape."""

    layers: tuple[int, ...] | None = _derived("layers whose MLP weights are edited, ascending; z is aimed at the last")
    steps: int | None = _derived("evaluations of the loss at most, one more than updates of z", positive)
    lr: float | None = _derived("learning rate of z", positive)
    weight_decay: float | None = _derived("weight of |delta| / |h|^2 in the loss of z", not_negative)
    clamp: float | None = _derived("largest |delta| / |h|", positive)
    mom2_weight: float | None = _derived("lambda: how much old keys weigh against new ones in the update", positive)
    kl: float = field(
        default=0.0625,
        validator=validators.ge(0),
        metadata={"help": "weight of KL(now || before) at the subject in the loss of z"},
    )
    stop_loss: float = field(
        default=0.05, validator=validators.ge(0), metadata={"help": "an edit's loss below which its z is done"}
    )
    corpus: str = field(
        default="wordnet",
        metadata={
            "help": "text of the second moments: wordnet (in the package), or a text file, one document a line",
            "file": True,
        },
    )
    tokens: int = field(
        default=100_000, validator=validators.gt(0), metadata={"help": "tokens of the corpus that are used"}
    )
    document_length: int = field(
        default=1024, validator=validators.gt(0), metadata={"help": "longest document of the corpus, in tokens"}
    )
    template_length: int = field(
        default=10, validator=validators.gt(0), metadata={"help": "tokens of each of the five sampled left contexts"}
    )
    templates: tuple[str, ...] | None = field(
        default=None, metadata={"help": "left contexts in place of sampled ones, each ending in {}"}
    )


def build(config: MemitConfig) -> Editor:
    """The editor; imports torch."""
    from ke_plugin_memit.editor import Memit  # noqa: PLC0415  built late

    return Memit(config)


@hookimpl
def ke_editors() -> list[EditorSpec]:
    """Offer ``memit``."""
    return [
        EditorSpec(
            name="memit",
            summary="writes many facts at once into the MLP weights of a few layers, by least squares",
            config=MemitConfig,
            build=build,
            cite=CITE,
            needs_weights=True,
            edited_form="cloze",
        )
    ]
