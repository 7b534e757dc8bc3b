"""Contracts of locate-and-edit methods (ROME, MEMIT and similar) that use ``ke_weights.locate``."""

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

FEW = 2  # short passes: to find the parts, and the scale of the states


class LocateEditorContract(WeightEditorContract):
    """Contract of locate-and-edit methods.

    ``contexts``: number of contexts that a key is averaged over, including the bare prompt. ``inverts``: the method
    inverts the key covariance.
    """

    contexts: ClassVar[int] = 6
    inverts: ClassVar[bool] = True

    def built(self, spec: EditorSpec, **more: str) -> Editor:
        """Return the editor with other options."""
        return spec.build(configure(spec, {**self.options, **more}))

    def layer_option(self, spec: EditorSpec) -> str:
        """Return the name of the option that selects the edited layers."""
        return "layers" if "layers" in fields_dict(spec.config) else "layer"

    def test_details_contain_hyperparameters_templates_corpus_and_losses(
        self, editor: Editor, session: Session[Any]
    ) -> None:
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

    def test_sequential_edits_reuse_the_statistics_of_the_unedited_model(
        self, editor: Editor, session: Session[Any], tmp_path: Path
    ) -> None:
        """Templates, covariances and hyperparameters are reused. Targets are optimized on the current model."""
        with editor.edit(session, [MOVE_TOWER]) as first:
            known, targets = artifact_files(tmp_path), len(artifact_files(tmp_path, targets=True))
            with editor.edit(session, [MOVE_GATE]) as second:
                assert known == artifact_files(tmp_path)
                assert len(artifact_files(tmp_path, targets=True)) > targets
        with editor.edit(session, [MOVE_GATE]) as alone:
            assert known == artifact_files(tmp_path)
        for shared in ("templates", "hyperparameters", "corpus"):
            assert first.details[shared] == second.details[shared] == alone.details[shared]
        assert second.details["edits"] != alone.details["edits"]

    def test_device_without_float64_is_supported(self, spec: EditorSpec, config: Any, session: Session[Any]) -> None:
        """Covariances, templates and targets are cached before, because computing them uses float64 elsewhere."""
        with spec.build(config).edit(session, self.edits):
            pass
        with without_float64(), spec.build(config).edit(session, self.edits) as edited:
            assert edited.details["edits"]

    def test_long_templates_count_against_the_context_length(self, spec: EditorSpec, session: Session[Any]) -> None:
        editor = self.built(spec, templates="so " * 1020 + ". {}")
        assert "fills the model's context" in editor.check(session, [MOVE_TOWER])[MOVE_TOWER.id]

    def expect_rejection(self, editor: Editor, session: Session[Any], error: type[KEError], why: str) -> None:
        """Check that both ``check`` without edits, which must be fast, and ``edit`` raise the error."""
        with one_clear_line(session.model, error, why), few_passes():
            editor.check(session, ())
        with one_clear_line(session.model, error, why), editor.edit(session, self.edits):
            pass

    def test_supported_model_is_accepted_in_few_passes(self, editor: Editor, session: Session[Any]) -> None:
        with unchanged(session.model), few_passes():
            assert editor.check(session, ()) == {}

    def test_unsupported_model_is_rejected_before_the_first_request(self, editor: Editor, tmp_path: Path) -> None:
        session = self.on(self.tiny("gemma2"), tmp_path)
        self.expect_rejection(editor, session, KEError, "cannot locate and edit in Gemma2")

    def test_edited_model_is_not_inspected_again(self, editor: Editor, session: Session[Any]) -> None:
        with editor.edit(session, [MOVE_TOWER]), few_passes(0):
            assert editor.check(session, ()) == {}

    def test_a_missing_corpus_gives_a_clear_error(
        self, spec: EditorSpec, session: Session[Any], tmp_path: Path
    ) -> None:
        editor = self.built(spec, corpus=str(tmp_path / "none.txt"))
        self.expect_rejection(editor, session, BadData, "cannot read corpus .*none.txt")

    def test_too_few_tokens_give_a_clear_error(self, spec: EditorSpec, session: Session[Any]) -> None:
        editor = self.built(spec, tokens="200")
        self.expect_rejection(editor, session, EditFailed, f"{INNER} dimensions from 200 tokens is singular")

    def test_a_singular_covariance_gives_a_clear_error(
        self, spec: EditorSpec, session: Session[Any], tmp_path: Path
    ) -> None:
        editor = self.built(spec, corpus=str(repetitive(tmp_path)))
        if self.inverts:
            why = "the key covariance is singular"
            with one_clear_line(session.model, EditFailed, why), editor.edit(session, self.edits):
                pass
        else:
            with editor.edit(session, self.edits) as edited:
                assert edited.details["corpus"]

    def test_diverging_target_names_its_edit(self, spec: EditorSpec, session: Session[Any]) -> None:
        """With this learning rate, the step overflows float32."""
        editor = self.built(spec, lr="1e39")
        why = f"the loss of edit '{MOVE_TOWER.id}' is not finite at step 1"
        with one_clear_line(session.model, EditFailed, why), editor.edit(session, [MOVE_TOWER]):
            pass

    def test_layers_of_another_size_are_rejected(self, spec: EditorSpec, session: Session[Any]) -> None:
        editor = self.built(spec, **{self.layer_option(spec): "13"})
        self.expect_rejection(editor, session, KEError, "13 do not fit a model of 4")

    def test_missing_trace_is_reported(self, spec: EditorSpec, session: Session[Any]) -> None:
        editor = self.built(spec, **{self.layer_option(spec): "trace"})
        self.expect_rejection(editor, session, BadConfig, "no causal trace")

    def test_given_templates_are_used(self, spec: EditorSpec, session: Session[Any]) -> None:
        with self.built(spec, templates="So it is. {}").edit(session, self.edits) as edited:
            assert edited.details["templates"] == ["{}", "So it is. {}"]
        self.expect_rejection(self.built(spec, templates="So."), session, BadConfig, "template 'So.'")


class MassEditorContract(LocateEditorContract):
    """Contract of locate-and-edit methods that make many edits at once."""

    def test_order_of_edits_does_not_matter(self, spec: EditorSpec, config: Any, tmp_path: Path) -> None:
        model = tiny_model("gpt2", dtype="float64")
        before, made = weights_of(model), []
        for name, edits in (("forth", self.edits), ("back", self.edits[::-1])):
            with spec.build(config).edit(self.on(model, tmp_path / name), edits):
                made.append(changes(model, before))
        assert set(made[0]) == set(made[1])
        for name, change in made[0].items():
            assert float((change - made[1][name]).norm() / change.norm()) < 1e-9

    def test_edits_of_several_groups_are_all_applied(
        self, editor: Editor, session: Session[Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Targets are optimized in groups. Every edit is recorded, and moves the state closer to its target.

        With c = |z - h| / |h| of the unedited model, |z - h| / |z| is at least c / (1 + c) before the edit.
        """
        monkeypatch.setitem(targets.TOGETHER, "cpu", 1)
        with editor.edit(session, FOUR_MOVES) as edited:
            found: Any = edited.details["edits"]
        assert list(found) == [edit.id for edit in FOUR_MOVES]
        assert [name for name, one in found.items() if one["missed"] >= one["change"] / (1 + one["change"])] == []

    def test_repeated_edit_counts_once(self, editor: Editor, session: Session[Any]) -> None:
        assert editor.check(session, [MOVE_TOWER, MOVE_TOWER]) == {}
        with editor.edit(session, [MOVE_TOWER, MOVE_TOWER]) as edited:
            assert list(edited.details["edits"]) == [MOVE_TOWER.id]


@contextmanager
def few_passes(limit: int = FEW) -> Iterator[None]:
    """Fail if the block runs more than ``limit`` forward passes, also if it raises."""
    before = COUNTER.now().passes
    try:
        yield
    finally:
        assert COUNTER.now().passes - before <= limit


def artifact_files(root: Path, *, targets: bool = False) -> set[Path]:
    """Return the artifact files: the targets, or all others."""
    return {path for path in root.rglob("*") if path.is_file() and ("targets" in path.parts) == targets}


def repetitive(folder: Path) -> Path:
    """Write a corpus that repeats one line 400 times, so that its key covariance is singular."""
    path = folder / "repetitive.txt"
    path.write_text("Paris is the capital of France.\n" * 400, encoding="utf-8")
    return path
