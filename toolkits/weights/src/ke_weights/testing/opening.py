"""Contracts of weight editors and adaptors."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import wraps
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from ke_core.plugin import Cloze, Edit, Editor, EditorSpec, Entity, KEError, Session, UnsupportedEdit
from ke_testing.editor import EditorContract, one_clear_line, unchanged
from ke_testing.examples import MADRID, MOVE_GATE, MOVE_TOWER, ROME, TEXT_ONLY, TOWER, city_edit
from ke_testing.interrupts import Interrupter, ctrl_c, first_and_last
from ke_testing.kit import DIGEST_RULES, expect_other, expect_same
from ke_weights.modules import find_parts

KEPT = "templates"  # sampled contexts are kept: the engine that samples them handles failures itself
OURS = frozenset({"contextlib", "ke_core", "ke_plugin_hf", "ke_weights"})
"""Packages in whose code the contract interrupts, besides that of the editor."""
INTERRUPTED = 4
"""Number of points at which an edit is interrupted."""
OVERWRITE = city_edit(TOWER, ROME, MADRID)
"""Contradicts MOVE_TOWER in the same batch, and can be made after it."""


def _to(*labels: str) -> Edit:
    assert MOVE_TOWER.after is not None
    return evolve(MOVE_TOWER, after=evolve(MOVE_TOWER.after, objects=tuple(Entity(label=label) for label in labels)))


BAD_EDITS: Mapping[str, tuple[Edit, str]] = {
    "no-cloze": (TEXT_ONLY, "it has no cloze"),
    "blank-subject": (evolve(MOVE_TOWER, cloze=Cloze(template="{} is in", subject=" ")), "its subject is blank"),
    "no-object": (evolve(MOVE_TOWER, after=None), "it has no new object"),
    "one-of-two-blank": (_to("Rome", " "), "its new object is blank"),
    "blank-object": (_to(" "), "its new object is blank"),
    "old-object": (_to("Paris"), "its new object 'Paris' is the old one"),
    "too-long": (
        evolve(MOVE_TOWER, cloze=Cloze(template="so " * 1100 + "{} is in", subject="Eiffel Tower")),
        "its prompt and target have .* tokens, more than 10..",
    ),
}


@pytest.mark.usefixtures("one_thread")
class OpenModelContract(EditorContract):
    """Contract of editors that open the model: it is restored after every edit, also after errors and Ctrl-C."""

    def test_a_failed_forward_pass_leaves_the_model_unchanged(
        self, spec: EditorSpec, config: Any, tmp_path: Path
    ) -> None:
        """A block of the model raises at the first pass, in the middle, and at the last pass.

        The model is restored, and the next edit with the same editor gives the same model as without the failure.
        """
        model = self.tiny()
        with spec.build(config).edit(self.on(model, tmp_path), self.edits):
            expected = model.digest
        forget(tmp_path)
        session = self.on(model, tmp_path)
        with failing(model) as passes, spec.build(config).edit(session, self.edits):
            total = passes[0]
        for at in (0, total // 2, total - 1):
            forget(tmp_path)
            editor, session = spec.build(config), self.on(model, tmp_path)
            with (
                unchanged(model),
                failing(model, at) as passes,
                suppress(ZeroDivisionError, KEError),
                editor.edit(session, self.edits),
            ):
                pytest.fail(f"pass {at} of {total} failed, and the edit was made")
            assert at in passes
            with unchanged(model), editor.edit(session, self.edits):
                expect_same(model, expected, "after an edit that failed, the same edit gives another model")

    def test_ctrl_c_stops_the_edit_and_leaves_the_model_unchanged(
        self, spec: EditorSpec, config: Any, tmp_path: Path
    ) -> None:
        """Interrupted at every point of closing an edit, and at some of making it. A later edit is not affected."""
        model = self.tiny()
        editor, session = spec.build(config), self.on(model, tmp_path)
        with editor.edit(session, self.edits):
            expected = model.digest
        packages = OURS | {type(editor).__module__.partition(".")[0]}
        made: list[int] = []

        def interrupt(*, making: int = -1, closing: int = -1) -> tuple[bool, Interrupter]:
            """Edit, and interrupt at a point while the edit is made or closed."""
            interrupter = Interrupter(packages=packages, at=making)

            def edit() -> None:
                with editor.edit(session, self.edits):
                    made.append(len(interrupter.seen))
                    interrupter.restart(closing)

            with unchanged(model):
                return interrupter.interrupts(edit), interrupter

        with ctrl_c():
            interrupted, closed = interrupt()
            assert not interrupted
            for at in range(0, made[0], made[0] // INTERRUPTED):
                assert interrupt(making=at)[0]
            for at in first_and_last(closed.seen):
                assert interrupt(closing=at)[0], closed.seen[at]
        with editor.edit(session, self.edits):
            expect_same(model, expected, "after an edit that was interrupted, the same edit gives another model")

    @pytest.mark.parametrize("wanted", [False, True])
    def test_flags_types_and_configuration_are_restored(self, editor: Editor, tmp_path: Path, *, wanted: bool) -> None:
        """Parameters of the model may require gradients."""
        model = self.tiny()
        model.module.config.use_cache = wanted
        for parameter in model.module.parameters():
            parameter.requires_grad = wanted and parameter.is_floating_point()
        before = {parameter: (parameter.requires_grad, parameter.dtype) for parameter in model.module.parameters()}
        with unchanged(model), editor.edit(self.on(model, tmp_path), self.edits):
            assert model.module.config.use_cache is wanted
            assert not any(getattr(part, "gradient_checkpointing", False) for part in model.module.modules())
            assert before == {parameter: (parameter.requires_grad, parameter.dtype) for parameter in before}
        assert model.module.config.use_cache is wanted
        assert all(parameter.grad is None for parameter in model.module.parameters())

    def test_the_edit_is_active_while_the_model_answers(self, editor: Editor, session: Session[Any]) -> None:
        before = session.model.digest
        with editor.edit(session, self.edits):
            expect_other(session.model, before, "the edit does not change the model that answers")

    def test_edits_are_undone_in_order_after_an_exception(self, editor: Editor, session: Session[Any]) -> None:
        model = session.model
        with unchanged(model), editor.edit(session, [MOVE_TOWER]):
            with unchanged(model), pytest.raises(ZeroDivisionError), editor.edit(session, [MOVE_GATE]) as both:
                raise ZeroDivisionError
            with unchanged(model), editor.edit(session, [MOVE_GATE]) as again:
                assert both.details == again.details

    def test_a_later_edit_can_overwrite_an_earlier_one(self, editor: Editor, session: Session[Any]) -> None:
        with unchanged(session.model), editor.edit(session, [MOVE_TOWER]):
            before = session.model.digest
            with editor.edit(session, [OVERWRITE]):
                expect_other(session.model, before, "a later edit of the same fact does not change the model")

    def test_edit_does_not_depend_on_undone_edits(self, editor: Editor, session: Session[Any]) -> None:
        digests, details = [], []
        for edits in ([MOVE_TOWER], [MOVE_GATE], [MOVE_TOWER]):
            with editor.edit(session, edits) as edited:
                digests.append(session.model.digest)
                details.append(edited.details)
        expect_cycle(digests, "the same edit, made before and after another one,")
        assert details[0] == details[2]

    def test_one_editor_on_two_models_shares_nothing(self, editor: Editor, tmp_path: Path) -> None:
        digests, details = [], []
        for seed in (0, 1, 0):
            model = self.tiny(seed=seed)
            with editor.edit(self.on(model, tmp_path), self.edits) as edited:
                digests.append(model.digest)
                details.append(edited.details)
        expect_cycle(digests, "the same edit of one model, made before and after that of another,")
        assert details[0] == details[2]


class ClozeEditorContract(OpenModelContract):
    """Contract of editors that need a prompt with a subject, and one new object on one line."""

    @pytest.mark.parametrize("which", BAD_EDITS)
    def test_bad_edit_is_rejected_with_its_name_and_reason(
        self, editor: Editor, session: Session[Any], which: str
    ) -> None:
        bad, why = BAD_EDITS[which]
        assert list(editor.check(session, [MOVE_GATE, bad])) == [bad.id]
        why = f"edit '{bad.id}' cannot be written into weights: {why}"
        with one_clear_line(session.model, UnsupportedEdit, why), editor.edit(session, [bad]):
            pass

    def test_contradictory_edits_of_one_batch_are_named(
        self, spec: EditorSpec, editor: Editor, session: Session[Any]
    ) -> None:
        """Methods that make one edit at a time reject every batch."""
        batch = [*self.edits, OVERWRITE]
        why = f"it contradicts edit '{MOVE_TOWER.id}'"
        assert why in editor.check(session, batch)[OVERWRITE.id]
        why = "one edit at a time" if spec.one_at_a_time else f"edit '{OVERWRITE.id}' .*{why}"
        with one_clear_line(session.model, UnsupportedEdit, why), editor.edit(session, batch):
            pass


@contextmanager
def failing(model: Any, at: int = -1) -> Iterator[list[int]]:
    """Count the passes of the first and the last block. Pass number ``at`` raises ZeroDivisionError.

    Yield a list with the count, followed by ``at`` after the error.
    """
    layers, seen = find_parts(model.module).layers, [0]
    blocks = (layers[0].block, layers[-1].block)
    kind = type(blocks[0])  # a patched instance would change the model's digest
    real = kind.forward

    @wraps(real)
    def counting(block: Any, *args: Any, **kwargs: Any) -> Any:
        if block in blocks:
            seen[0] += 1
            if seen[0] == at + 1:
                seen.append(at)
                raise ZeroDivisionError
        return real(block, *args, **kwargs)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(kind, "forward", counting)
        yield seen


def expect_cycle(digests: Sequence[str], what: str) -> None:
    """Fail unless the first and third edited models are equal and the second differs."""
    first, second, third = (digest[:8] for digest in digests)
    if first != third:
        raise AssertionError(f"{what} gives two models, with the digests {first} and {third}. {DIGEST_RULES}")
    if first == second:
        raise AssertionError(f"{what} gives the digest {first} in between too. {DIGEST_RULES}")


def forget(root: Path) -> None:
    """Delete all artifacts except sampled contexts."""
    for folder in root.iterdir():
        if folder.name != KEPT:
            shutil.rmtree(folder)
