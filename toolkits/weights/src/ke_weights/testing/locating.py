"""Contracts of editors that locate and edit (ROME, MEMIT and their kin), on ``ke_weights.locate``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest
from attrs import fields_dict

from ke_core.app import configure
from ke_core.plugin import BadConfig, BadData, EditFailed, Editor, EditorSpec, KEError, Session
from ke_plugin_hf.decoding.passes import COUNTER
from ke_plugin_hf.testing import INNER, tiny_model
from ke_testing.editor import one_clear_line, unchanged
from ke_testing.examples import FOUR_MOVES, MOVE_GATE, MOVE_TOWER
from ke_weights import targets
from ke_weights.testing.apart import without_float64
from ke_weights.testing.weights import WeightEditorContract, changes, weights_of

FEW = 2  # short ones: where its parts are, and the scale of its states


class LocateEditorContract(WeightEditorContract):
    """``contexts``: how many contexts a key is averaged over, the bare prompt among them.

    ``inverts``: a singular second moment is of no use to it.
    """

    contexts: ClassVar[int] = 6
    inverts: ClassVar[bool] = True

    def built(self, spec: EditorSpec, **more: str) -> Editor:
        """The editor with other options."""
        return spec.build(configure(spec, {**self.options, **more}))

    def layer_option(self, spec: EditorSpec) -> str:
        """What says where it edits."""
        return "layers" if "layers" in fields_dict(spec.config) else "layer"

    def test_details_hold_what_made_the_edit(self, editor: Editor, session: Session[Any]) -> None:
        with editor.edit(session, self.edits) as edited:
            details: Any = edited.details
        chosen = details["hyperparameters"]
        assert set(chosen["reasons"]) == set(chosen) - {"reasons"}
        assert chosen["reasons"]["steps"] == "given"
        assert len(details["templates"]) == self.contexts
        assert details["corpus"]["tokens"] == int(self.options["tokens"])
        assert details["corpus"]["tokens_per_dimension"] == pytest.approx(int(self.options["tokens"]) / INNER, abs=0.05)
        assert ("warning" in details["corpus"]) == (int(self.options["tokens"]) < 20 * INNER)
        assert all(0 < norm < 1 for norm in details["relative_update_norms"].values())
        assert [edit.id for edit in self.edits] == list(details["edits"])
        assert set(details["edits"][MOVE_TOWER.id]) == {"steps", "loss", "nll", "kl", "change", "missed"}

    def test_sequential_edits_keep_what_belongs_to_the_unedited_model(
        self, editor: Editor, session: Session[Any], tmp_path: Path
    ) -> None:
        """Contexts, second moments and hyperparameters are not taken anew; targets are of the model as it is."""
        with editor.edit(session, [MOVE_TOWER]) as first:
            known, targets = kept(tmp_path), len(kept(tmp_path, targets=True))
            with editor.edit(session, [MOVE_GATE]) as second:
                assert known == kept(tmp_path)
                assert len(kept(tmp_path, targets=True)) > targets
        with editor.edit(session, [MOVE_GATE]) as alone:
            assert known == kept(tmp_path)
        for shared in ("templates", "hyperparameters", "corpus"):
            assert first.details[shared] == second.details[shared] == alone.details[shared]
        assert second.details["edits"] != alone.details["edits"]

    def test_x1_a_device_without_float64_can_be_edited_on(
        self, spec: EditorSpec, config: Any, session: Session[Any]
    ) -> None:
        """Second moments, contexts and targets are there already: what is added up in float64 is another's."""
        with spec.build(config).edit(session, self.edits):
            pass
        with without_float64(), spec.build(config).edit(session, self.edits) as edited:
            assert edited.details["edits"]

    def test_long_templates_leave_less_room(self, spec: EditorSpec, session: Session[Any]) -> None:
        editor = self.built(spec, templates="so " * 1020 + ". {}")
        assert "more than -" in editor.check(session, [MOVE_TOWER])[MOVE_TOWER.id]

    def refuses(self, editor: Editor, session: Session[Any], error: type[KEError], why: str) -> None:
        """By ``check`` without edits, which runs ask before anything else and so must be cheap, and by ``edit``."""
        with one_clear_line(session.model, error, why), few_passes():
            editor.check(session, ())
        with one_clear_line(session.model, error, why), editor.edit(session, self.edits):
            pass

    def test_a_model_that_it_can_edit_is_found_so_in_few_passes(self, editor: Editor, session: Session[Any]) -> None:
        with unchanged(session.model), few_passes():
            assert editor.check(session, ()) == {}

    def test_a_model_that_cannot_be_edited_is_refused_before_anything_is_asked(
        self, editor: Editor, tmp_path: Path
    ) -> None:
        session = self.on(self.tiny("gemma2"), tmp_path)
        self.refuses(editor, session, KEError, "cannot locate and edit in Gemma2")

    def test_a_model_that_is_edited_is_not_looked_at_again(self, editor: Editor, session: Session[Any]) -> None:
        with editor.edit(session, [MOVE_TOWER]), few_passes(0):
            assert editor.check(session, ()) == {}

    def test_no_corpus_is_one_clear_error(self, spec: EditorSpec, session: Session[Any], tmp_path: Path) -> None:
        editor = self.built(spec, corpus=str(tmp_path / "none.txt"))
        self.refuses(editor, session, BadData, "cannot read corpus .*none.txt")

    def test_too_few_tokens_are_one_clear_error(self, spec: EditorSpec, session: Session[Any]) -> None:
        editor = self.built(spec, tokens="200")
        self.refuses(editor, session, EditFailed, f"{INNER} dimensions from 200 tokens are singular")

    def test_a_singular_statistic_is_one_clear_error(
        self, spec: EditorSpec, session: Session[Any], tmp_path: Path
    ) -> None:
        editor = self.built(spec, corpus=str(monotonous(tmp_path)))
        if self.inverts:
            why = "the second moment is singular"
            with one_clear_line(session.model, EditFailed, why), editor.edit(session, self.edits):
                pass
        else:
            with editor.edit(session, self.edits) as edited:
                assert edited.details["corpus"]

    def test_a_target_that_runs_to_infinity_names_its_edit(self, spec: EditorSpec, session: Session[Any]) -> None:
        """The step overflows float32."""
        editor = self.built(spec, lr="1e39")
        why = f"the loss of edit '{MOVE_TOWER.id}' is not finite at step 1"
        with one_clear_line(session.model, EditFailed, why), editor.edit(session, [MOVE_TOWER]):
            pass

    def test_e13_layers_of_another_size_are_refused(self, spec: EditorSpec, session: Session[Any]) -> None:
        editor = self.built(spec, **{self.layer_option(spec): "13"})
        self.refuses(editor, session, KEError, "13 do not fit a model of 4")

    def test_a_trace_that_was_never_made_is_asked_for(self, spec: EditorSpec, session: Session[Any]) -> None:
        editor = self.built(spec, **{self.layer_option(spec): "trace"})
        self.refuses(editor, session, BadConfig, "no causal trace")

    def test_templates_given_by_hand_are_used(self, spec: EditorSpec, session: Session[Any]) -> None:
        with self.built(spec, templates="So it is. {}").edit(session, self.edits) as edited:
            assert edited.details["templates"] == ["{}", "So it is. {}"]
        self.refuses(self.built(spec, templates="So."), session, BadConfig, "template 'So.'")


class MassEditorContract(LocateEditorContract):
    """Of those that make many edits at once."""

    def test_order_of_edits_does_not_matter(self, spec: EditorSpec, config: Any, tmp_path: Path) -> None:
        """Numerics 25."""
        model = tiny_model("gpt2", dtype="float64")
        before, made = weights_of(model), []
        for name, edits in (("forth", self.edits), ("back", self.edits[::-1])):
            with spec.build(config).edit(self.on(model, tmp_path / name), edits):
                made.append(changes(model, before))
        assert set(made[0]) == set(made[1])
        for name, change in made[0].items():
            assert float((change - made[1][name]).norm() / change.norm()) < 1e-9

    def test_e14_more_edits_than_fit_one_group_are_all_made(
        self, editor: Editor, session: Session[Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Targets are optimized in groups; every edit is on record, and nearer to its target than it was.

        With c = |z - h| / |h| of the unedited model, |z - h| / |z| was c / (1 + c) or more.
        """
        monkeypatch.setattr(targets, "TOGETHER", 1)
        with editor.edit(session, FOUR_MOVES) as edited:
            found: Any = edited.details["edits"]
        assert list(found) == [edit.id for edit in FOUR_MOVES]
        assert [name for name, one in found.items() if one["missed"] >= one["change"] / (1 + one["change"])] == []

    def test_the_same_edit_twice_is_one_wish(self, editor: Editor, session: Session[Any]) -> None:
        assert editor.check(session, [MOVE_TOWER, MOVE_TOWER]) == {}
        with editor.edit(session, [MOVE_TOWER, MOVE_TOWER]) as edited:
            assert list(edited.details["edits"]) == [MOVE_TOWER.id]


@contextmanager
def few_passes(most: int = FEW) -> Iterator[None]:
    """Fail if the model is run more often than it takes to see what it is, also where the block raises."""
    before = COUNTER.now().passes
    try:
        yield
    finally:
        assert COUNTER.now().passes - before <= most


def kept(root: Path, *, targets: bool = False) -> set[Path]:
    """Files of artifacts: the targets, or all others."""
    return {path for path in root.rglob("*") if path.is_file() and ("targets" in path.parts) == targets}


def monotonous(folder: Path) -> Path:
    """A corpus of 400 times the same line: its second moments have a handful of directions."""
    path = folder / "monotonous.txt"
    path.write_text("Paris is the capital of France.\n" * 400, encoding="utf-8")
    return path
