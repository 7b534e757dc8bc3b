"""Contracts of editors that locate and edit (ROME, MEMIT and their kin), on ``ke_core.whitebox.locate``."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from attrs import fields_dict

from ke_core.errors import BadConfig, BadData, EditFailed, KEError
from ke_core.plugins.options import configure
from ke_core.protocols import Editor, Session
from ke_core.specs import EditorSpec
from ke_core.testing.editor import one_clear_line
from ke_core.testing.examples import MOVE_GATE, MOVE_TOWER
from ke_core.testing.tiny import tiny_model
from ke_core.testing.weights import WeightEditorContract, changes, weights_of


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

    def test_long_templates_leave_less_room(self, spec: EditorSpec, session: Session[Any]) -> None:
        editor = self.built(spec, templates="so " * 1020 + ". {}")
        assert "and -" in editor.check(session, [MOVE_TOWER])[MOVE_TOWER.id]

    def test_no_corpus_is_one_clear_error(self, spec: EditorSpec, session: Session[Any], tmp_path: Path) -> None:
        editor = self.built(spec, corpus=str(tmp_path / "none.txt"))
        with one_clear_line(session.model, BadData, "cannot read corpus .*none.txt"), editor.edit(session, self.edits):
            pass

    def test_too_few_tokens_are_one_clear_error(self, spec: EditorSpec, session: Session[Any]) -> None:
        editor = self.built(spec, tokens="200")
        why = "176 dimensions from 200 tokens are singular"
        with one_clear_line(session.model, EditFailed, why), editor.edit(session, self.edits):
            pass

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
        with one_clear_line(session.model, KEError, "13 do not fit a model of 4"), editor.edit(session, self.edits):
            pass

    def test_a_trace_that_was_never_made_is_asked_for(self, spec: EditorSpec, session: Session[Any]) -> None:
        editor = self.built(spec, **{self.layer_option(spec): "trace"})
        with one_clear_line(session.model, BadConfig, "no causal trace"), editor.edit(session, self.edits):
            pass

    def test_templates_given_by_hand_are_used(self, spec: EditorSpec, session: Session[Any]) -> None:
        with self.built(spec, templates="So it is. {}").edit(session, self.edits) as edited:
            assert edited.details["templates"] == ["{}", "So it is. {}"]
        bad = self.built(spec, templates="So.")
        with one_clear_line(session.model, BadConfig, "template 'So.'"), bad.edit(session, self.edits):
            pass


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

    def test_the_same_edit_twice_is_one_wish(self, editor: Editor, session: Session[Any]) -> None:
        assert editor.check(session, [MOVE_TOWER, MOVE_TOWER]) == {}
        with editor.edit(session, [MOVE_TOWER, MOVE_TOWER]) as edited:
            assert list(edited.details["edits"]) == [MOVE_TOWER.id]


def kept(root: Path, *, targets: bool = False) -> set[Path]:
    """Files of artifacts: the targets, or all others."""
    return {path for path in root.rglob("*") if path.is_file() and ("targets" in path.parts) == targets}


def monotonous(folder: Path) -> Path:
    """A corpus of 400 times the same line: its second moments have a handful of directions."""
    path = folder / "monotonous.txt"
    path.write_text("Paris is the capital of France.\n" * 400, encoding="utf-8")
    return path
