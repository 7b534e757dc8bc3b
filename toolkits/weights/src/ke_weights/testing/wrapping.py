"""Contract of update wrappers, and helpers for comparing them with a reference implementation."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

import pytest
import torch
from attrs import fields_dict
from torch import Tensor

from ke_core.app import configure, installed_catalog
from ke_core.plugin import Editor
from ke_plugin_hf.testing import Family, tiny_model
from ke_testing.editor import unchanged
from ke_testing.examples import FOUR_MOVES, MOVE_GATE, MOVE_TOWER
from ke_testing.fakes import make_session
from ke_weights.testing.weights import changes, weights_of

SMALL: Mapping[str, str] = {
    "tokens": "1500", "document_length": "64", "steps": "5", "clamp": "0.75", "template_length": "6", "layers": "1,2",
    "lr": "0.5", "weight_decay": "0.5", "mom2_weight": "20",
}  # fmt: skip
"""Options of ``memit`` for a tiny model."""


def wrapped_editor(name: str, options: Mapping[str, str] = MappingProxyType({})) -> Any:
    """Return an installed editor with the options of ``SMALL`` and ``options``, such as ``{"rect.keep": "0.2"}``."""
    spec: Any = installed_catalog().spec("editor", name)
    small = {one: text for one, text in SMALL.items() if one in fields_dict(spec.config)}
    return spec.build(configure(spec, {**small, **options}))


class UpdateWrapperContract:
    """Contract of an update wrapper, on the editor ``memit``.

    ``name``: of the wrapper. ``options``: a setting that changes updates; ``neutral``: the one that changes nothing.
    """

    name: ClassVar[str]
    options: ClassVar[Mapping[str, str]] = {}
    neutral: ClassVar[Mapping[str, str]]

    def built(self, options: Mapping[str, str]) -> Editor:
        """Return ``memit`` with the wrapper."""
        named = {f"{self.name}.{one}": text for one, text in options.items()}
        editor: Editor = wrapped_editor(f"memit+{self.name}", named)
        return editor

    @pytest.mark.parametrize("family", ["gpt2", "llama"])
    def test_neutral_setting_is_the_editor_bit_for_bit(self, family: Family, tmp_path: Path) -> None:
        one, other = (
            sequence_of_changes(editor, family, tmp_path)
            for editor in (self.built(self.neutral), wrapped_editor("memit"))
        )
        assert len(one) == len(other) == 2
        for mine, plain in zip(one, other, strict=True):
            assert set(mine) == set(plain)
            assert all(torch.equal(mine[name], plain[name]) for name in plain)

    @pytest.mark.parametrize("family", ["gpt2", "llama"])
    def test_weights_and_state_end_with_the_edit(self, family: Family, tmp_path: Path) -> None:
        """A sequence after a reverted one, and after a failed edit, has the same result."""
        model, editor = tiny_model(family), self.built(self.options)
        session = make_session(model, root=tmp_path)
        before, found = weights_of(model), []
        for crash in (False, True, False):
            with unchanged(model), ExitStack() as open_edits:
                open_edits.enter_context(editor.edit(session, [MOVE_TOWER]))
                if crash:
                    with pytest.raises(ZeroDivisionError), editor.edit(session, FOUR_MOVES[2:]):
                        raise ZeroDivisionError
                open_edits.enter_context(editor.edit(session, [MOVE_GATE]))
                found.append(changes(model, before))
            assert not changes(model, before)
        for again in found[1:]:
            assert all(torch.equal(again[name], found[0][name]) for name in found[0])

    def test_order_of_edits_in_a_batch_does_not_matter(self, tmp_path: Path) -> None:
        model = tiny_model("gpt2", dtype="float64")
        before, made = weights_of(model), []
        for name, edits in (("forth", FOUR_MOVES), ("back", FOUR_MOVES[::-1])):
            with self.built(self.options).edit(make_session(model, root=tmp_path / name), edits):
                made.append(changes(model, before))
        for name, change in made[0].items():
            assert float((change - made[1][name]).norm() / change.norm()) < 1e-9

    def test_details_name_the_options_and_what_the_wrapper_did(self, tmp_path: Path) -> None:
        session = make_session(tiny_model("llama"), root=tmp_path)
        with self.built(self.options).edit(session, [MOVE_TOWER]) as edited:
            details: Any = edited.details
        assert set(details["wrappers"]) == {self.name}
        chosen = details["hyperparameters"]
        assert {one for one in chosen if "." in one} >= {f"{self.name}.{option}" for option in self.options}
        assert set(details["relative_update_norms"]) == {"1", "2"}


def sequence_of_changes(editor: Editor, family: Family, root: Path) -> list[dict[str, Tensor]]:
    """Return the changed parameters after a first edit and after a second one."""
    model = tiny_model(family)
    session, before, found = make_session(model, root=root), weights_of(model), []
    with editor.edit(session, [MOVE_TOWER]):
        found.append(changes(model, before))
        with editor.edit(session, [MOVE_GATE]):
            found.append(changes(model, before))
    return found
