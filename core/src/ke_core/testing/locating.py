"""Contracts of editors that locate and edit (ROME, MEMIT and their kin), on ``ke_core.whitebox.locate``."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest
from attrs import evolve, fields_dict

from ke_core.data.facts import Cloze, Edit, Entity
from ke_core.errors import BadConfig, BadData, EditFailed, KEError, UnsupportedEdit
from ke_core.plugins.options import configure
from ke_core.protocols import Editor, Session
from ke_core.specs import EditorSpec
from ke_core.testing.editor import unchanged
from ke_core.testing.examples import MADRID, MOVE_GATE, MOVE_TOWER, ROME, TEXT_ONLY, TOWER, city_edit
from ke_core.testing.tiny import tiny_model
from ke_core.testing.weights import WeightEditorContract, changes, weights_of

OVERWRITE = city_edit(TOWER, ROME, MADRID)
"""Contradicts MOVE_TOWER in one batch, and may follow it."""


def _to(*labels: str) -> Edit:
    assert MOVE_TOWER.after is not None
    return evolve(MOVE_TOWER, after=evolve(MOVE_TOWER.after, objects=tuple(Entity(label=label) for label in labels)))


BAD_EDITS: Mapping[str, tuple[Edit, str]] = {
    "no-cloze": (TEXT_ONLY, "it has no cloze"),
    "blank-subject": (evolve(MOVE_TOWER, cloze=Cloze(template="{} is in", subject=" ")), "its subject is blank"),
    "no-object": (evolve(MOVE_TOWER, after=None), "it names no new object"),
    "two-objects": (_to("Rome", "Bonn"), "it names 2 objects"),
    "blank-object": (_to(" "), "its new object is blank"),
    "two-lines": (_to("Rome\nBonn"), "its new object has more than one line"),
    "old-object": (_to("Paris"), "its new object 'Paris' is the old one"),
    "too-long": (
        evolve(MOVE_TOWER, cloze=Cloze(template="so " * 1100 + "{} is in", subject="Eiffel Tower")),
        "its prompt and target have .* tokens, and 10.. fit",
    ),
}


@contextmanager
def one_clear_line(model: Any, error: type[KEError], why: str) -> Iterator[None]:
    """The block raises ``error``, in one line that says ``why``, with a hint, and leaves the model as it was."""
    with unchanged(model), pytest.raises(error, match=why) as caught:
        yield
    assert len(str(caught.value).splitlines()) == 1
    assert caught.value.hint


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

    def test_a_later_edit_may_overwrite_an_earlier_one(self, editor: Editor, session: Session[Any]) -> None:
        with unchanged(session.model), editor.edit(session, [MOVE_TOWER]):
            before = weights_of(session.model)
            with editor.edit(session, [OVERWRITE]):
                assert changes(session.model, before)

    @pytest.mark.parametrize("which", BAD_EDITS)
    def test_a_bad_edit_is_refused_by_name_and_reason(self, editor: Editor, session: Session[Any], which: str) -> None:
        bad, why = BAD_EDITS[which]
        assert list(editor.check(session, [MOVE_GATE, bad])) == [bad.id]
        with (
            one_clear_line(session.model, UnsupportedEdit, f"edit '{bad.id}' cannot be written into weights: {why}"),
            editor.edit(session, [bad]),
        ):
            pass

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

    def test_x1_the_editor_names_no_device(self, editor: Editor) -> None:
        home = Path(inspect.getfile(type(editor))).parent
        assert not any("cuda" in path.read_text(encoding="utf-8") for path in home.glob("*.py"))


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

    def test_contradictory_edits_of_one_batch_are_named(self, editor: Editor, session: Session[Any]) -> None:
        batch = [*self.edits, OVERWRITE]
        why = f"it contradicts edit '{MOVE_TOWER.id}'"
        assert why in editor.check(session, batch)[OVERWRITE.id]
        with (
            one_clear_line(session.model, UnsupportedEdit, f"edit '{OVERWRITE.id}' .*{why}"),
            editor.edit(session, batch),
        ):
            pass

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
