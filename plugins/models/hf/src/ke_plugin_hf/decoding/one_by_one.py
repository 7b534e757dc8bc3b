"""One row at a time with transformers' own loop, for models that no backend supports (recurrent ones, for example)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import torch
from torch import Tensor
from transformers import GenerationConfig, LogitsProcessorList, StoppingCriteriaList

from ke_core.plugin import NotFinite, uninterruptible_context
from ke_plugin_hf.decoding.decoding import DecodingRow
from ke_plugin_hf.decoding.forward import input_device
from ke_plugin_hf.decoding.memory import free_after_failure, retry_smaller
from ke_plugin_hf.decoding.passes import COUNTER
from ke_plugin_hf.decoding.sampling import choose
from ke_plugin_hf.decoding.scoring import ScoringRow, take_scores
from ke_plugin_hf.layer_calls import prompt_lengths

OneRow = TypeVar("OneRow", DecodingRow, ScoringRow)


def generate_each(rows: Iterable[OneRow], run: Callable[[OneRow], None]) -> None:
    """Run the rows one after another. A row without sufficient memory gets an ``error``."""
    for row in rows:
        try:
            run(row)
        except Exception as error:
            if not retry_smaller(error):
                raise
            free_after_failure(error)
            row.error = error


def generate_single(module: Any, row: DecodingRow) -> None:
    """Generate ``row``, or set its ``error`` if the logits are not finite."""
    device = input_device(module)

    def chosen(ids: Tensor, scores: Tensor) -> Tensor:
        COUNTER.add(len(row.ids) if ids.shape[1] == len(row.ids) else 1)
        (token,) = choose([row.chooser], scores)
        if isinstance(token, NotFinite):
            row.error = token
            return scores
        only = torch.full_like(scores, float("-inf"))
        only[0, token] = 0.0
        return only

    def ended(ids: Tensor, _scores: Tensor, **_extra: Any) -> Tensor:
        over = row.error is not None or row.written.add(int(ids[0, -1]))
        return torch.tensor([over], device=ids.device)

    fed = torch.tensor([list(row.ids)], device=device)
    with _without_generation_defaults(module), prompt_lengths([len(row.ids)]):
        module.generate(
            input_ids=fed,
            attention_mask=torch.ones_like(fed),
            # The loop's own limit is out of reach: ``Continuation`` decides where rows end.
            generation_config=GenerationConfig(
                max_new_tokens=row.written.request.max_tokens + 1, do_sample=False, pad_token_id=0
            ),
            logits_processor=LogitsProcessorList([chosen]),
            stopping_criteria=StoppingCriteriaList([ended]),
        )


@uninterruptible_context
def _without_generation_defaults(module: Any) -> Iterator[None]:
    """Disable the model's own penalties, suppressed tokens and other generation defaults."""
    own, module.generation_config = module.generation_config, GenerationConfig()
    try:
        yield
    finally:
        module.generation_config = own


def score_single(module: Any, row: ScoringRow) -> None:
    """Score ``row``."""
    device = input_device(module)
    COUNTER.add(len(row.ids) - 1)
    with torch.no_grad(), prompt_lengths([row.prompt]):
        take_scores([row], module(input_ids=torch.tensor([list(row.ids[:-1])], device=device)).logits)
