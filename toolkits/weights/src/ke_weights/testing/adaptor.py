"""Contract of adaptors. Subclass it in your plugin's tests instead of ``EditorContract``."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch

from ke_core.plugin import (
    Edited,
    Editor,
    EditorSpec,
    Generate,
    KEError,
    Score,
    Session,
    SupportsSave,
    UnsupportedChange,
)
from ke_plugin_hf.testing import Family
from ke_testing.examples import MADRID, MOVE_GATE, MOVE_TOWER, QUESTIONS, ROME, TOWER, city_edit
from ke_testing.kit import expect_other, expect_same, texts, unchanged
from ke_weights.testing.opening import OpenModelContract
from ke_weights.testing.weights import changes, weights_of

PROMPTS = ("Eiffel Tower is located in", "Who", "Brandenburg Gate is located in the city of", "The capital of Peru is")
CONTINUATIONS = (" Rome", " the city of Paris", " a")
CLOSE = 1e-3
"""Maximum difference of log-probabilities between a batch and a single row, in float32."""


class AdaptorContract(OpenModelContract):
    """Contract of adaptors, which change no parameter: their state determines the answers.

    ``families``: decoder families of the tiny models in the tests.
    """

    families: ClassVar[tuple[Family, ...]] = ("llama", "gpt2")

    def test_specification_declares_an_adaptor(self, spec: EditorSpec) -> None:
        assert spec.adaptor, f"set adaptor=True in the EditorSpec of {spec.name}: `ke edit` and `ke show` rely on it"

    def test_no_parameter_changes_while_the_model_is_edited(self, editor: Editor, tmp_path: Path) -> None:
        for family in self.families:
            model = self.tiny(family)
            before = weights_of(model)
            with unchanged(model), editor.edit(self.on(model, tmp_path / family), self.edits):
                changed = sorted(changes(model, before))
            assert not changed, f"an adaptor leaves parameters unchanged, and {changed[0]} was changed"

    def test_every_tensor_of_its_state_is_in_the_digest(self, editor: Editor, session: Session[Any]) -> None:
        model = session.model
        with editor.edit(session, self.edits):
            if not model.adaptors:
                raise AssertionError("the edit opened no adaptor: call session.model.adapt(layer, forward, state)")
            for adaptor in model.adaptors:
                for name, tensor in adaptor.state.items():
                    edited, kept = model.digest, dict(adaptor.state)
                    other = tensor.clone()
                    other.view(-1)[:1] += 1
                    adaptor.replace_state(kept | {name: other})
                    expect_other(model, edited, f"another {name!r} in the state of {adaptor.layer} is the same model")
                    adaptor.replace_state(kept)

    def test_the_same_edits_give_the_same_digest(self, spec: EditorSpec, config: Any, tmp_path: Path) -> None:
        """Otherwise cached completions are never found again. Hooks of your own have this effect."""
        found = []
        for _ in range(2):
            model = self.tiny()
            with spec.build(config).edit(self.on(model, tmp_path), self.edits):
                found.append(model.digest)
        if found[0] != found[1]:
            raise AssertionError(
                f"the same edits on two equal models have the digests {found[0][:8]} and {found[1][:8]}: something "
                "besides session.model.adapt() changes the forward pass, or the edit is random (docs/digests.md)"
            )

    def test_different_edits_have_different_digests(self, editor: Editor, session: Session[Any]) -> None:
        with editor.edit(session, [MOVE_TOWER]):
            one = session.model.digest
        with editor.edit(session, [MOVE_GATE]):
            expect_other(session.model, one, "another edit gives the same model, which shares its cached completions")

    def test_batch_equals_single_rows(self, editor: Editor, tmp_path: Path) -> None:
        """Rows of different lengths are padded. Neither the padding nor other rows may change an answer."""
        asked = [Generate(prompt=prompt, max_tokens=6) for prompt in (*PROMPTS, *self.prompts())]
        scored = [Score(prompt=one.prompt, continuations=CONTINUATIONS) for one in asked]
        for family in self.families:
            model = self.tiny(family)
            with editor.edit(self.on(model, tmp_path / family), self.edits):
                together = [one.text for one in model.generate(asked)]
                alone = [model.generate([one])[0].text for one in asked]
                rows = [one.logprobs for one in model.score(scored)]
                single = [model.score([one])[0].logprobs for one in scored]
            for one, text, by_itself in zip(asked, together, alone, strict=True):
                what = f"{family}: {one.prompt!r} is answered {text!r} in a batch and {by_itself!r} alone"
                assert text == by_itself, f"{what}; use the roles of positions that the forward function gets"
            torch.testing.assert_close(
                torch.tensor(rows, dtype=torch.float64), torch.tensor(single, dtype=torch.float64), rtol=0, atol=CLOSE
            )

    def test_a_loaded_model_gives_the_same_answers(
        self, spec: EditorSpec, editor: Editor, session: Session[Any], config: Any, tmp_path: Path
    ) -> None:
        path = tmp_path / "saved"
        with editor.edit(session, self.edits) as edited:
            self.save(spec, edited, path)
            digest, answers = session.model.digest, texts(edited.answer(QUESTIONS))
        fresh = self.on(self.tiny(), tmp_path)
        assert spec.load is not None
        with unchanged(fresh.model), spec.load(spec.build(config), fresh, path) as loaded:
            expect_same(fresh.model, digest, "the loaded model is not the one that was saved")
            assert texts(loaded.answer(QUESTIONS)) == answers

    def test_resumed_sequence_equals_uninterrupted_one(
        self, spec: EditorSpec, editor: Editor, session: Session[Any], config: Any, tmp_path: Path
    ) -> None:
        path = tmp_path / "saved"
        with editor.edit(session, [MOVE_TOWER]) as edited:
            self.save(spec, edited, path)
            edited.change(add=[MOVE_GATE])
            digest, answers = session.model.digest, texts(edited.answer(QUESTIONS))
        fresh = self.on(self.tiny(), tmp_path)
        assert spec.load is not None
        with unchanged(fresh.model), spec.load(spec.build(config), fresh, path) as loaded:
            loaded.change(add=[MOVE_GATE])
            expect_same(fresh.model, digest, "a sequence that was saved, loaded and continued gives another model")
            assert texts(loaded.answer(QUESTIONS)) == answers

    def test_an_edit_in_effect_is_not_made_again(self, editor: Editor, session: Session[Any]) -> None:
        """Cases of a sequence may share an edit."""
        with editor.edit(session, [MOVE_TOWER]) as edited:
            edited.change(add=[MOVE_GATE])
            digest = session.model.digest
            edited.change(add=[MOVE_TOWER])
            expect_same(session.model, digest, "an edit that is in effect was made again")

    def test_removal_equals_a_sequence_without_the_edit(self, editor: Editor, session: Session[Any]) -> None:
        """The edits that stay are of one prompt: the later one replaced the other, and both may be made again."""
        to_madrid = city_edit(TOWER, ROME, MADRID)
        with editor.edit(session, [MOVE_TOWER]) as edited:
            edited.change(add=[to_madrid])
            digest = session.model.digest
        with editor.edit(session, [MOVE_GATE]) as edited:
            edited.change(add=[MOVE_TOWER])
            edited.change(add=[to_madrid])
            with suppress(UnsupportedChange):
                edited.change(remove=[MOVE_GATE.id])
                expect_same(session.model, digest, "the model without an edit differs from one that never had it")

    def test_damaged_file_is_rejected_in_one_line(
        self, spec: EditorSpec, editor: Editor, session: Session[Any], tmp_path: Path
    ) -> None:
        path = tmp_path / "saved"
        with editor.edit(session, self.edits) as edited:
            self.save(spec, edited, path)
        content = bytearray(path.read_bytes())
        content[-1] ^= 1
        path.write_bytes(content)
        assert spec.load is not None
        with unchanged(session.model), pytest.raises(KEError) as caught, spec.load(editor, session, path):
            pass
        assert len(str(caught.value).splitlines()) == 1

    def prompts(self) -> list[str]:
        """Return the prompts of the edits."""
        return [edit.cloze.prompt.rstrip() for edit in self.edits if edit.cloze is not None]

    @staticmethod
    def save(spec: EditorSpec, edited: Edited, path: Path) -> None:
        """Save the edited model, or fail with advice if the editor cannot."""
        if spec.load is None or not isinstance(edited, SupportsSave):
            raise AssertionError(
                f"{spec.name} cannot be saved, which `ke edit --out` and a resumed run need: give its edited model "
                "save(path), and its EditorSpec load=lambda editor, session, path: ..."
            )
        edited.save(path)


__all__ = ["AdaptorContract"]
