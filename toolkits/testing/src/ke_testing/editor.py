"""The contract of editors. Subclass it in your plugin's tests; pytest runs the checks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from ke_core.plugin import (
    NO_SUBJECT,
    Answer,
    Edit,
    Edited,
    Editor,
    EditorSpec,
    Failure,
    Likelihood,
    Scored,
    Session,
    SupportsConcurrentSolve,
    UnsupportedChange,
    UnsupportedEdit,
)
from ke_testing.examples import FREE_FORM, MOVE_GATE, MOVE_TOWER, ODD_EDITS, QUESTIONS, TEXT_ONLY
from ke_testing.kit import expect_other, expect_same, one_clear_line, texts, unchanged
from ke_testing.pitfalls import EditorPitfalls


class EditorContract(EditorPitfalls):
    """Set ``name``; ``options`` for a tiny model; ``material`` if the method needs material of its dataset."""

    def test_answers_each_request_once_in_order(self, editor: Editor, session: Session[Any]) -> None:
        with editor.edit(session, self.edits) as edited:
            assert isinstance(edited, Edited)
            replies = edited.answer(QUESTIONS)
        assert len(QUESTIONS) == len(replies)
        assert all(isinstance(reply, Answer | Scored | Failure) for reply in replies)

    def test_answers_do_not_depend_on_batch_composition(self, editor: Editor, session: Session[Any]) -> None:
        with editor.edit(session, self.edits) as edited:
            together = texts(edited.answer(QUESTIONS))
            reversed_ = texts(edited.answer(QUESTIONS[::-1]))[::-1]
            alone = [texts(edited.answer([request]))[0] for request in QUESTIONS]
        assert together == reversed_ == alone

    def test_a_likelihood_is_scored_or_declined(self, editor: Editor, session: Session[Any]) -> None:
        request = Likelihood(id="l", case="1", query="l", prompt="The tower is in", continuations=(" Rome", " Paris"))
        with editor.edit(session, [MOVE_TOWER]) as edited:
            (reply,) = edited.answer([request])
        if isinstance(reply, Scored):
            assert len(reply.logprobs) == len(reply.tokens) == len(request.continuations)
        else:
            assert isinstance(reply, Failure)
            assert reply.unscored

    def test_own_edits_are_read_only_if_declared(
        self, spec: EditorSpec, config: Any, editor: Editor, session: Session[Any]
    ) -> None:
        """A run leaves ``own`` empty unless the spec sets ``uses_own_edits``."""
        if spec.given_own_edits(config):
            pytest.skip("its spec sets uses_own_edits, so each question names its case's own edits")
        with editor.edit(session, self.edits) as edited:
            assert texts(edited.answer(QUESTIONS)) == texts(
                edited.answer([evolve(request, own=()) for request in QUESTIONS])
            )

    def test_no_requests_no_replies(self, editor: Editor, session: Session[Any]) -> None:
        with editor.edit(session, [MOVE_TOWER]) as edited:
            assert list(edited.answer([])) == []

    def test_no_edits_change_nothing(self, editor: Editor, session: Session[Any]) -> None:
        before = session.model.digest
        with editor.edit(session, []) as edited:
            assert len(QUESTIONS) == len(edited.answer(QUESTIONS))
            expect_same(session.model, before, "an edit without edits changes the model")

    def test_adding_and_removing_an_edit_restores_the_edited_model(self, editor: Editor, session: Session[Any]) -> None:
        """``ke serve`` and sequential runs need it. Raising UnsupportedChange without any change is allowed."""

        def seen(edited: Edited) -> tuple[list[str], str]:
            return texts(edited.answer(QUESTIONS)), session.model.digest

        def expect(edited: Edited, before: tuple[list[str], str], what: str) -> None:
            expect_same(session.model, before[1], what)
            assert texts(edited.answer(QUESTIONS)) == before[0], what

        def changed(edited: Edited, **what: Any) -> bool:
            before = seen(edited)
            try:
                edited.change(**what)
            except UnsupportedChange:
                expect(edited, before, "a rejected change has changed the edited model")
                return False
            return True

        with unchanged(session.model), editor.edit(session, [MOVE_TOWER]) as edited:
            alone = seen(edited)
            if changed(edited, add=[MOVE_GATE]):
                if self.needs_weights:
                    expect_other(session.model, alone[1], "adding an edit does not change the model")
                else:
                    with editor.edit(session, [MOVE_TOWER, MOVE_GATE]) as both:
                        assert texts(both.answer(QUESTIONS)) == texts(edited.answer(QUESTIONS))
                if changed(edited, remove=[MOVE_GATE.id]):
                    expect(edited, alone, "removing the added edit does not restore the edited model")

    def test_same_seed_same_answers(self, editor: Editor, session: Session[Any]) -> None:
        def once() -> list[str]:
            with editor.edit(session, [MOVE_TOWER]) as edited:
                return texts(edited.answer(QUESTIONS))

        assert once() == once()

    def test_details_are_json(self, editor: Editor, session: Session[Any]) -> None:
        with editor.edit(session, [MOVE_TOWER]) as edited:
            assert json.loads(json.dumps(edited.details, allow_nan=False)) == edited.details

    def test_check_names_the_edits_it_rejects(self, editor: Editor, session: Session[Any]) -> None:
        refused = editor.check(session, [MOVE_TOWER, TEXT_ONLY])
        assert MOVE_TOWER.id not in refused
        assert all(reason for reason in refused.values())

    def test_edit_without_a_subject_is_rejected_only_if_the_editor_needs_one(
        self, spec: EditorSpec, editor: Editor, session: Session[Any]
    ) -> None:
        refused = spec.refused(editor, session, [MOVE_TOWER, FREE_FORM])
        assert MOVE_TOWER.id not in refused
        assert spec.needs_subject == (refused.get(FREE_FORM.id) == NO_SUBJECT)

    @pytest.mark.parametrize("which", ODD_EDITS)
    def test_unusual_edit_is_rejected_or_applied(self, editor: Editor, session: Session[Any], which: str) -> None:
        """If ``check`` returns a reason for the edit, ``edit`` must raise UnsupportedEdit."""
        edit = ODD_EDITS[which]
        if edit.id in editor.check(session, [edit]):
            with pytest.raises(UnsupportedEdit), editor.edit(session, [edit]):
                pass
        else:
            with editor.edit(session, [edit]) as edited:
                assert len(QUESTIONS) == len(edited.answer(QUESTIONS))

    @pytest.mark.parametrize("fails", [False, True], ids=["clean-exit", "exception"])
    @pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
    def test_model_is_restored_bit_for_bit(self, editor: Editor, tmp_path: Path, dtype: str, *, fails: bool) -> None:
        session = self.on(self.model(dtype), tmp_path)
        crash = pytest.raises(ZeroDivisionError) if fails else nullcontext()
        with crash, unchanged(session.model), editor.edit(session, self.edits) as edited:
            edited.answer(QUESTIONS[:1])
            if fails:
                raise ZeroDivisionError

    def test_model_is_restored_after_nested_edits(self, editor: Editor, session: Session[Any]) -> None:
        with unchanged(session.model), editor.edit(session, [MOVE_TOWER]), editor.edit(session, [MOVE_GATE]) as both:
            assert len(QUESTIONS) == len(both.answer(QUESTIONS))

    def test_an_edit_does_not_leak_into_the_next(self, editor: Editor, session: Session[Any]) -> None:
        def after(edits: Sequence[Edit]) -> list[str]:
            with editor.edit(session, edits) as edited:
                return texts(edited.answer(QUESTIONS))

        alone = after([MOVE_GATE])
        after([MOVE_TOWER])
        assert alone == after([MOVE_GATE])

    def test_edited_models_with_solve_are_independent(
        self, spec: EditorSpec, editor: Editor, session: Session[Any]
    ) -> None:
        """Edited models with ``solve`` answer concurrently, so one must not use the edits of another."""
        with editor.edit(session, [MOVE_TOWER]) as one:
            if spec.needs_weights or not isinstance(one, SupportsConcurrentSolve):
                pytest.skip("the editor has one active edited model at a time")
            alone = texts(one.answer(QUESTIONS))
            with editor.edit(session, [MOVE_GATE]) as other:
                assert one is not other
                assert texts(one.answer(QUESTIONS)) == alone


__all__ = ["EditorContract", "one_clear_line", "texts", "unchanged"]
