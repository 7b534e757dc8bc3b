"""Training of the scope classifier and the counterfactual model."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from attrs import evolve

from ke_core.plugin import BadData, EditFailed, Score
from ke_plugin_serac.training import row_losses, scope_examples, scope_loss, trained_parameters
from ke_testing.examples import TEXT_ONLY
from ke_weights.plugin import encode, scored_tokens, target_ids


def test_training_lowers_both_losses(kit: Any, tmp_path: Path) -> None:
    training = kit.begin(tmp_path)
    steps = [training.advance() for _ in range(24)]
    for name, drop in (("scope", 0.02), ("counterfactual", 1.0)):
        first, last = (np.mean([step.numbers[name] for step in part]) for part in (steps[:8], steps[-8:]))
        assert last < first - drop


def test_resumed_training_is_bit_identical(kit: Any, tmp_path: Path) -> None:
    through, parts = kit.begin(tmp_path), kit.begin(tmp_path)
    for _ in range(4):
        through.advance()
    for _ in range(2):
        parts.advance()
    resumed = kit.begin(tmp_path, parts.tensors())
    assert [resumed.advance().step for _ in range(2)] == [3, 4]
    one, other = through.tensors(), resumed.tensors()
    assert set(one) == set(other)
    assert all(np.array_equal(one[name], other[name]) for name in one)


def test_only_the_last_blocks_are_trained(kit: Any, tmp_path: Path) -> None:
    training = kit.begin(tmp_path)
    before = {name: one.detach().clone() for name, one in training.model.module.named_parameters()}
    training.advance()
    changed = {name for name, one in training.model.module.named_parameters() if not torch.equal(one, before[name])}
    assert changed == {name for name in before if name.startswith(("model.layers.2.", "model.layers.3."))}
    assert set(trained_parameters(training.model, 0)) == set(before)


def test_scope_loss_is_that_of_the_nearest_wrong_edit() -> None:
    rng = torch.Generator().manual_seed(0)
    keys, queries = torch.randn(3, 4, generator=rng), torch.randn(4, 4, generator=rng)
    weights = torch.tensor([0.1, 0.2, 0.3, 0.4])
    mine = torch.eye(3, dtype=torch.bool)
    mine[0, 1] = True  # the question of edit 0 is in scope of edit 1 too
    s = [[math.exp(-float((weights * (q - k) ** 2).sum())) for k in keys] for q in queries]
    wrong = [max(s[row][at] for at in range(3) if row == 3 or not mine[row, at]) for row in range(4)]
    plain = -sum(math.log(s[at][at]) for at in range(3)) / 3 - sum(math.log(1 - one) for one in wrong) / 4
    loss, numbers = scope_loss(keys, queries, mine, weights)
    assert float(loss) == pytest.approx(plain, abs=1e-5)
    assert numbers["out_of_scope"] == pytest.approx(sum(wrong) / 4, abs=1e-5)


def test_rows_of_a_padded_batch_have_the_loss_of_single_rows(kit: Any, tmp_path: Path) -> None:
    model = kit.begin(tmp_path).model
    texts = (("The tower is in", "New York City"), ("Where is it?", "Rome"), ("A, B and C are", "D"))
    rows = [(encode(model.tokenizer, one)[0], target_ids(model.tokenizer, one, other)) for one, other in texts]
    together = row_losses(model, scored_tokens(rows, model.device)).detach()
    alone = [row_losses(model, scored_tokens([row], model.device)).detach() for row in rows]
    assert together.tolist() == pytest.approx(torch.cat(alone).tolist(), abs=1e-5)
    scores = model.score([Score(prompt=one, continuations=(f" {other}",)) for one, other in texts])
    assert together.tolist() == pytest.approx([-one.logprobs[0] / one.tokens[0] for one in scores], abs=1e-4)


def test_statements_without_a_prompt_are_left_out(kit: Any) -> None:
    statement = evolve(kit.examples[0], edit=TEXT_ONLY)
    assert len(scope_examples([*kit.examples, statement])) == len(kit.examples)
    with pytest.raises(BadData, match="1 of 2 examples have a prompt and a target"):
        scope_examples([kit.examples[0], statement])


def test_too_long_examples_are_refused_at_the_start(kit: Any, tmp_path: Path) -> None:
    long = evolve(kit.examples[0], paraphrases=("so " * 2000,))
    with pytest.raises(BadData, match=r"1 of 5 training examples have more than 1024 tokens.*: the first, '.*', has"):
        kit.begin(tmp_path, examples=[*kit.examples, long])


def test_loss_that_is_not_finite_ends_the_training(kit: Any, tmp_path: Path) -> None:
    training = kit.begin(tmp_path)
    with torch.no_grad():
        training.log_weights.fill_(math.nan)
    with pytest.raises(EditFailed, match="a loss of serac is not finite at step 1"):
        training.advance()
