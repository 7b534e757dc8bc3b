"""Update wrapper ``encore``: norm constraint and most-probable early stopping (ENCORE, Gupta et al. 2025).

The published values do not follow from a model's shape: lambda_n is 10 or 20 in the three published models. Another
model gets 10, and the number of hits of LLaMA-2-7B.
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

from ke_core.plugin import ModelFacts, Setting, hookimpl
from ke_weights import Published, UpdateWrapperSpec, derived, not_negative, resolve_hyperparameters

CITE = (
    "Gupta, Phan, Hsu, Anumanchipalli, et al.: Lifelong Sequential Knowledge Editing without Model Degradation. 2025, "
    "https://arxiv.org/abs/2502.01636"
)


@frozen(kw_only=True)
class EncoreConfig:
    """Options of ENCORE. ``norm=0`` and ``hits=0`` change nothing."""

    norm: float | None = derived("lambda_n: weight of |update|^2 in the solve; 0 = no constraint", not_negative)
    hits: int | None = derived(
        "stop optimizing a target after it was the most probable text in this many evaluations; 0 = never", not_negative
    )


PUBLISHED: Mapping[tuple[str, int, int, int], Published] = {
    ("gpt2", 48, 1600, 6400): Published("GPT-2 XL by ENCORE's authors", {"norm": 10.0, "hits": 4}),
    ("llama", 32, 4096, 11008): Published("LLaMA-2-7B by ENCORE's authors", {"norm": 10.0, "hits": 3}),
    ("llama", 32, 4096, 14336): Published("LLaMA-3-8B by ENCORE's authors", {"norm": 20.0, "hits": 2}),
}


def derive(config: EncoreConfig, facts: ModelFacts) -> Mapping[str, Setting]:
    """Return both options with the reason for their values."""
    otherwise = {
        "norm": Setting(10.0, "the smaller published value, not derived from this model"),
        "hits": Setting(3, "published for LLaMA-2-7B, not derived from this model"),
    }
    return resolve_hyperparameters(config, PUBLISHED.get(facts.shape.key), otherwise)


@hookimpl(optionalhook=True)
def ke_update_wrappers() -> list[UpdateWrapperSpec]:
    """Register ``encore``."""
    return [
        UpdateWrapperSpec(
            name="encore",
            summary="a norm constraint on updates, and targets that stop early",
            config=EncoreConfig,
            build="ke_plugin_encore.wrapper:Encore",
            settings=derive,
            cite=CITE,
        )
    ]
