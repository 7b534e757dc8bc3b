"""Map the models of a paper to the given models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import evolve, field, frozen

from ke_core.app import ModelChoice
from ke_plugin_reproduce.table import PaperModel


@frozen(kw_only=True)
class MappedModel:
    """The model that is used for a model of the paper, with notes about the difference, or ``why`` there is none.

    ``options``: the paper's options for this model.
    """

    choice: ModelChoice | None = None
    options: Mapping[str, str] = field(factory=dict)
    note: str = ""
    why: str = ""


def map_models(models: Mapping[str, PaperModel], given: Sequence[ModelChoice]) -> dict[str, MappedModel]:
    """Return a model for every label. A model of the paper is used for itself.

    One other model replaces all remaining ones. Several others replace one each, in the order of the file, so that a
    figure over sizes uses small, medium and large models.
    """
    own = {label: choice for label, model in models.items() for choice in given if choice.reference in model.ids}
    others = [choice for choice in given if choice not in own.values()]
    free = [label for label, model in models.items() if label not in own and not model.gone]
    pairs = dict.fromkeys(free, others[0]) if len(others) == 1 else dict(zip(free, others, strict=False))
    return {label: _seat(label, model, own.get(label), pairs.get(label)) for label, model in models.items()}


def _seat(label: str, model: PaperModel, own: ModelChoice | None, other: ModelChoice | None) -> MappedModel:
    if own is not None:
        dtype = own.how.dtype
        changed = f"{label} in {dtype}, not {model.dtype}" if model.dtype and model.dtype != dtype else ""
        asked = evolve(own, how=evolve(own.how, chat=model.chat))
        return MappedModel(choice=asked, options=model.options, note=changed)
    if model.gone:
        return MappedModel(why=f"{label}: {model.gone}")
    if other is None:
        return MappedModel(why=f"no --model for {label}" + (f" ({model.ids[0]})" if model.ids else ""))
    return MappedModel(choice=other, note=f"{other.reference} in place of {label}")
