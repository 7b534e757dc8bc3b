"""Training of a block on states to output, in half precision."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from attrs import evolve

from ke_core.plugin import EditFailed
from ke_plugin_hf.testing import tiny_model
from ke_testing.fakes import make_session
from ke_weights.answer_states import AnswerStates
from ke_weights.block_training import BlockSettings, _rows, train_block
from ke_weights.hooks import frozen_module
from ke_weights.modules import module_map
from ke_weights.optimize import OptimizedTarget

IDS, KEEP = (5, 6, 7), [[11, 12, 13, 14], [20, 21, 22]]
SETTINGS = BlockSettings(layer=1, steps=1, lr=1e-3, weight_decay=0.0, padding=False)


def test_a_small_offset_has_a_gradient_in_float16(tmp_path: Path) -> None:
    """The gradient at the block's output is about 3e-8, which float16 rounds to zero without a scale."""
    session = make_session(tiny_model("llama", dtype="float16"), root=tmp_path)
    modules = module_map(session.model.module)
    with frozen_module(modules.module), torch.no_grad():
        output = _rows(modules, SETTINGS, [IDS], ()).wanted[0, -1]
    target = OptimizedTarget(z=output + 2e-6, losses=torch.zeros(1, 4), change=0.0)
    edit = AnswerStates(id="a", ids=IDS, positions=(len(IDS) - 1,), targets=(target,))
    made = train_block(modules, [edit], KEEP, SETTINGS, session.progress)
    projection = next(update for name, update in made.updates.items() if name.endswith("down_proj.weight"))
    assert float((projection != 0).double().mean()) > 0.5


def test_error_of_a_loss_that_is_not_finite_names_the_edits(tmp_path: Path) -> None:
    session = make_session(tiny_model("llama"), root=tmp_path)
    modules = module_map(session.model.module)
    with frozen_module(modules.module), torch.no_grad():
        output = _rows(modules, SETTINGS, [IDS], ()).wanted[0, -1]
    target = OptimizedTarget(z=output * torch.nan, losses=torch.zeros(1, 4), change=0.0)
    edit = AnswerStates(id="a", ids=IDS, positions=(len(IDS) - 1,), targets=(target,))
    edits = [evolve(edit, id=name) for name in "abcde"]
    with pytest.raises(EditFailed, match="while training a block for edits 'a', 'b', 'c' and 2 more"):
        train_block(modules, edits, KEEP, SETTINGS, session.progress)
