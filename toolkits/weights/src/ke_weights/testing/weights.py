"""Contract of weight editors. Subclass it in your plugin's tests instead of ``EditorContract``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

from ke_core.app import configure
from ke_core.plugin import Editor, Session
from ke_plugin_hf.guard import Delta, Dense, LowRank, Patch, map_orientation
from ke_plugin_hf.testing import Family
from ke_testing.editor import unchanged
from ke_weights.hooks import default_dtype
from ke_weights.testing.opening import ClozeEditorContract

DTYPES = ("float32", "bfloat16", "float16")


class WeightEditorContract(ClozeEditorContract):
    """Contract of weight editors. ``ranked``: the rank of an update is at most the number of edits."""

    ranked: ClassVar[bool] = True

    @pytest.mark.parametrize("dtype", DTYPES)
    @pytest.mark.parametrize("family", ["gpt2", "gptj", "llama", "qwen2"])
    def test_weights_are_restored_bit_for_bit(self, editor: Editor, tmp_path: Path, family: Family, dtype: str) -> None:
        """Flags are restored too: parameters may require gradients."""
        model = self.tiny(family, dtype=dtype)
        model.module.requires_grad_(requires_grad=True)
        before = weights_of(model)
        with unchanged(model), editor.edit(self.on(model, tmp_path), self.edits):
            assert changes(model, before)
        assert not changes(model, before)

    @pytest.mark.parametrize("family", ["gpt2", "llama"])
    def test_only_the_added_updates_change_the_model(self, editor: Editor, tmp_path: Path, family: Family) -> None:
        model = self.tiny(family)
        before = weights_of(model)
        with model.recording() as recorded, editor.edit(self.on(model, tmp_path), self.edits):
            made, found = recorded.deltas(), changes(model, before)
        assert set(made) == set(found)
        for name, updates in made.items():
            whole = torch.stack([whole_of(update) for update in updates]).sum(0)
            owner = model.module.get_submodule(name.rpartition(".")[0])
            assert torch.allclose(map_orientation(owner, found[name]), whole, rtol=1e-5, atol=1e-6)
            if self.ranked:
                assert rank_of(updates) <= len(self.edits)

    @pytest.mark.parametrize("family", ["gpt2", "llama"])
    def test_the_default_dtype_does_not_change_the_update(self, spec: Any, tmp_path: Path, family: Family) -> None:
        """A float32 model gets the same update if torch's default dtype is float64."""
        found = []
        for default in (torch.float32, torch.float64):
            model = self.tiny(family)
            before = weights_of(model)
            session = self.on(model, tmp_path / str(default))
            with default_dtype(default), spec.build(configure(spec, self.options)).edit(session, self.edits):
                found.append(changes(model, before))
        single, double = found
        assert set(single) == set(double)
        for name, change in single.items():
            torch.testing.assert_close(double[name], change, rtol=1e-5, atol=1e-7)

    def test_a_failure_between_two_updates_leaves_the_model_unchanged(
        self, editor: Editor, session: Session[Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        real = Patch.add

        def fails(patch: Patch, name: str, delta: Delta) -> None:
            real(patch, name, delta)
            raise ZeroDivisionError

        monkeypatch.setattr(Patch, "add", fails)
        crash = pytest.raises(ZeroDivisionError)
        with unchanged(session.model), crash, editor.edit(session, self.edits):
            pass


def weights_of(model: Any) -> dict[str, Tensor]:
    """Return a copy of every parameter, as stored."""
    return {name: parameter.detach().clone() for name, parameter in model.module.named_parameters()}


def changes(model: Any, before: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the differences of changed parameters to ``before``, as stored."""
    return {
        name: now.detach() - before[name]
        for name, now in model.module.named_parameters()
        if not torch.equal(now, before[name])
    }


def whole_of(update: Delta) -> Tensor:
    """Return an update as one tensor, [out, in]."""
    return update.delta if isinstance(update, Dense) else update.left @ update.right


def rank_of(updates: list[Delta]) -> int:
    """Return the sum of the ranks of low-rank updates. Fail for a dense one."""
    assert all(isinstance(update, LowRank) for update in updates), "an update is dense, not low-rank"
    return sum(update.left.shape[1] for update in updates if isinstance(update, LowRank))
