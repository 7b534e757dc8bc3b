"""The contract of editors that change weights. Subclass it in your plugin's tests, in place of ``EditorContract``."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

from ke_core.errors import KEError
from ke_core.models.guard import Delta, Dense, LowRank, Patch, map_orientation
from ke_core.protocols import Editor, Session
from ke_core.specs import EditorSpec
from ke_core.testing.editor import EditorContract, unchanged
from ke_core.testing.examples import MOVE_GATE, MOVE_TOWER
from ke_core.testing.fakes import make_session
from ke_core.testing.tiny import Family, tiny_model
from ke_core.whitebox.modules import find_parts

DTYPES = ("float32", "bfloat16", "float16")
KEPT = "templates"  # sampled contexts: the engine, which samples them, has ways of its own around a failure


class WeightEditorContract(EditorContract):
    """``ranked``: updates are given by factors, of no higher rank than there are edits."""

    ranked: ClassVar[bool] = True

    @pytest.fixture(autouse=True)
    def _one_thread(self) -> Iterator[None]:
        before = torch.get_num_threads()
        torch.set_num_threads(1)
        yield
        torch.set_num_threads(before)

    def on(self, model: Any, root: Path) -> Session[Any]:
        """A session on ``model`` with the contract's material."""
        return make_session(model, material=self.material, root=root)

    @pytest.mark.parametrize("dtype", DTYPES)
    @pytest.mark.parametrize("family", ["gpt2", "gptj", "llama", "qwen2"])
    def test_weights_come_back_bit_for_bit(self, editor: Editor, tmp_path: Path, family: Family, dtype: str) -> None:
        """Numerics 14. Flags too: a model may be lent with its gradients on."""
        model = tiny_model(family, dtype=dtype)
        model.module.requires_grad_(requires_grad=True)
        before = weights_of(model)
        with unchanged(model), editor.edit(self.on(model, tmp_path), self.edits):
            assert changes(model, before)
        assert not changes(model, before)

    @pytest.mark.parametrize("family", ["gpt2", "llama"])
    def test_the_updates_it_hands_over_are_all_that_changes(
        self, editor: Editor, tmp_path: Path, family: Family
    ) -> None:
        model = tiny_model(family)
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

    def test_a_failure_between_two_writes_leaves_nothing(
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

    def test_a_failure_at_any_stage_leaves_nothing(self, spec: EditorSpec, config: Any, tmp_path: Path) -> None:
        """A block of the model fails at its first pass, half way, and at the last of all: nothing is left behind.

        What follows with the same editor is what would have been.
        """
        model = tiny_model("llama")
        with spec.build(config).edit(self.on(model, tmp_path), self.edits):
            expected = model.digest
        forget(tmp_path)
        with failing(model) as passes, spec.build(config).edit(self.on(model, tmp_path), self.edits):
            total = passes[0]
        for at in (0, total // 2, total - 1):
            forget(tmp_path)
            editor = spec.build(config)
            with (
                unchanged(model),
                failing(model, at) as passes,
                suppress(ZeroDivisionError, KEError),
                editor.edit(self.on(model, tmp_path), self.edits),
            ):
                pytest.fail(f"pass {at} of {total} failed, and the edit was made")
            assert at in passes
            with unchanged(model), editor.edit(self.on(model, tmp_path), self.edits):
                assert expected == model.digest

    def test_s7_the_edited_model_is_the_one_that_answers(self, editor: Editor, session: Session[Any]) -> None:
        before = session.model.digest
        with editor.edit(session, self.edits):
            assert before != session.model.digest

    def test_edits_are_taken_back_in_order_after_an_exception(self, editor: Editor, session: Session[Any]) -> None:
        model = session.model
        with unchanged(model), editor.edit(session, [MOVE_TOWER]):
            with unchanged(model), pytest.raises(ZeroDivisionError), editor.edit(session, [MOVE_GATE]) as both:
                raise ZeroDivisionError
            with unchanged(model), editor.edit(session, [MOVE_GATE]) as again:
                assert both.details == again.details

    def test_s1_an_edit_does_not_depend_on_edits_long_undone(self, editor: Editor, session: Session[Any]) -> None:
        details = []
        for edits in ([MOVE_TOWER], [MOVE_GATE], [MOVE_TOWER]):
            with editor.edit(session, edits) as edited:
                details.append(edited.details)
        assert details[0] == details[2] != details[1]

    def test_s2_one_editor_on_two_models_mixes_nothing(self, editor: Editor, tmp_path: Path) -> None:
        details = []
        for seed in (0, 1, 0):
            with editor.edit(self.on(tiny_model("llama", seed=seed), tmp_path), self.edits) as edited:
                details.append(edited.details)
        assert details[0] == details[2] != details[1]


def weights_of(model: Any) -> dict[str, Tensor]:
    """A copy of every parameter, as stored."""
    return {name: parameter.detach().clone() for name, parameter in model.module.named_parameters()}


def changes(model: Any, before: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """By how much parameters differ from ``before``, as stored; those that do not are left out."""
    return {
        name: now.detach() - before[name]
        for name, now in model.module.named_parameters()
        if not torch.equal(now, before[name])
    }


def whole_of(update: Delta) -> Tensor:
    """An update as one tensor, [out, in]."""
    return update.delta if isinstance(update, Dense) else update.left @ update.right


def rank_of(updates: list[Delta]) -> int:
    """The rank that updates promise by their factors. Fails for one that is given whole."""
    assert all(isinstance(update, LowRank) for update in updates), "an update is not given by its factors"
    return sum(update.left.shape[1] for update in updates if isinstance(update, LowRank))


@contextmanager
def failing(model: Any, at: int = -1) -> Iterator[list[int]]:
    """Count the passes of the first and the last block; the one numbered ``at`` raises ZeroDivisionError.

    Gives a list of the count and, once it has come to that, ``at``.
    """
    layers, seen = find_parts(model.module).layers, [0]
    blocks = [layers[0].block, layers[-1].block]

    def counting(real: Any) -> Any:
        def run(*args: Any, **kwargs: Any) -> Any:
            seen[0] += 1
            if seen[0] == at + 1:
                seen.append(at)
                raise ZeroDivisionError
            return real(*args, **kwargs)

        return run

    for block in blocks:
        block.forward = counting(block.forward)  # the instance's own, for a while
    try:
        yield seen
    finally:
        for block in blocks:
            vars(block).pop("forward")  # the class's shows again


def forget(root: Path) -> None:
    """Remove what was kept on disk, but for sampled contexts."""
    for folder in root.iterdir():
        if folder.name != KEPT:
            shutil.rmtree(folder)
