"""The contract of editors. Subclass it in your plugin's tests; pytest does the rest."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from ke_core.data.facts import Edit
from ke_core.data.results import Answer, Failure, Reply, Scored
from ke_core.errors import KEError
from ke_core.protocols import Edited, Editor, LanguageModel, Likelihood, Material, Session
from ke_core.specs import EditorSpec
from ke_core.testing.contract import ComponentContract
from ke_core.testing.examples import MOVE_GATE, MOVE_TOWER, QUESTIONS, TEXT_ONLY
from ke_core.testing.fakes import EchoModel, make_session

if TYPE_CHECKING:
    from ke_core.testing.tiny import Family


class EditorContract(ComponentContract):
    """Set ``name``; ``options`` for a tiny model; ``material`` if the method needs some of its dataset's."""

    kind: ClassVar[str] = "editor"
    material: ClassVar[Mapping[str, Material]] = {}

    def model(self, dtype: str = "float32") -> LanguageModel:
        """The model the contract edits: a tiny decoder for methods that open it, else an echo."""
        model: LanguageModel = self.tiny(dtype=dtype) if self.needs_weights else EchoModel()
        return model

    def tiny(self, family: Family = "llama", *, dtype: str = "float32", seed: int = 0) -> Any:
        """A tiny decoder; overridden by methods that need its weights in a form of their own."""
        from ke_core.testing.tiny import tiny_model

        return tiny_model(family, dtype=dtype, seed=seed)

    def on(self, model: LanguageModel, root: Path) -> Session[Any]:
        """A session on ``model`` with artifacts under ``root``; overridden by methods that need something there."""
        return make_session(model, material=self.material, root=root)

    @pytest.fixture(autouse=True)
    def _kind_of_editor(self, spec: EditorSpec) -> None:
        self.needs_weights = spec.needs_weights
        self.edits = [MOVE_TOWER] if spec.one_at_a_time else [MOVE_TOWER, MOVE_GATE]

    @pytest.fixture
    def editor(self, spec: EditorSpec, config: Any) -> Editor:
        return spec.build(config)

    @pytest.fixture
    def session(self, tmp_path: Path) -> Session[Any]:
        return self.on(self.model(), tmp_path)

    def test_answers_each_ask_once_in_order(self, editor: Editor, session: Session[Any]) -> None:
        with editor.edit(session, self.edits) as edited:
            assert isinstance(edited, Edited)
            replies = edited.answer(QUESTIONS)
        assert len(QUESTIONS) == len(replies)
        assert all(isinstance(reply, Answer | Scored | Failure) for reply in replies)

    def test_answers_do_not_depend_on_batch_composition(self, editor: Editor, session: Session[Any]) -> None:
        with editor.edit(session, self.edits) as edited:
            together = texts(edited.answer(QUESTIONS))
            reversed_ = texts(edited.answer(QUESTIONS[::-1]))[::-1]
            alone = [texts(edited.answer([ask]))[0] for ask in QUESTIONS]
        assert together == reversed_ == alone

    def test_a_likelihood_is_scored_or_declined(self, editor: Editor, session: Session[Any]) -> None:
        ask = Likelihood(id="l", case="1", query="l", prompt="The tower is in", continuations=(" Rome", " Paris"))
        with editor.edit(session, [MOVE_TOWER]) as edited:
            (reply,) = edited.answer([ask])
        if isinstance(reply, Scored):
            assert len(reply.logprobs) == len(reply.tokens) == len(ask.continuations)
        else:
            assert isinstance(reply, Failure)
            assert reply.unscored

    def test_no_asks_no_replies(self, editor: Editor, session: Session[Any]) -> None:
        with editor.edit(session, [MOVE_TOWER]) as edited:
            assert list(edited.answer([])) == []

    def test_no_edits_is_no_error(self, editor: Editor, session: Session[Any]) -> None:
        with editor.edit(session, []) as edited:
            assert len(QUESTIONS) == len(edited.answer(QUESTIONS))

    def test_same_seed_same_answers(self, editor: Editor, session: Session[Any]) -> None:
        def once() -> list[str]:
            with editor.edit(session, [MOVE_TOWER]) as edited:
                return texts(edited.answer(QUESTIONS))

        assert once() == once()

    def test_details_are_json(self, editor: Editor, session: Session[Any]) -> None:
        with editor.edit(session, [MOVE_TOWER]) as edited:
            assert json.loads(json.dumps(edited.details, allow_nan=False)) == edited.details

    def test_check_names_the_edits_it_refuses(self, editor: Editor, session: Session[Any]) -> None:
        refused = editor.check(session, [MOVE_TOWER, TEXT_ONLY])
        assert MOVE_TOWER.id not in refused
        assert all(reason for reason in refused.values())

    def test_an_edit_it_accepts_can_be_made(self, editor: Editor, session: Session[Any]) -> None:
        if TEXT_ONLY.id in editor.check(session, [TEXT_ONLY]):
            with pytest.raises(KEError), editor.edit(session, [TEXT_ONLY]):
                pass
        else:
            with editor.edit(session, [TEXT_ONLY]) as edited:
                assert len(QUESTIONS) == len(edited.answer(QUESTIONS))

    @pytest.mark.parametrize("fails", [False, True], ids=["clean-exit", "exception"])
    @pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
    def test_model_is_given_back_bit_for_bit(self, editor: Editor, tmp_path: Path, dtype: str, *, fails: bool) -> None:
        session = self.on(self.model(dtype), tmp_path)
        crash = pytest.raises(ZeroDivisionError) if fails else nullcontext()
        with crash, unchanged(session.model), editor.edit(session, self.edits) as edited:
            edited.answer(QUESTIONS[:1])
            if fails:
                raise ZeroDivisionError

    def test_model_is_given_back_when_edits_overlap(self, editor: Editor, session: Session[Any]) -> None:
        with unchanged(session.model), editor.edit(session, [MOVE_TOWER]), editor.edit(session, [MOVE_GATE]) as both:
            assert len(QUESTIONS) == len(both.answer(QUESTIONS))

    def test_an_edit_does_not_leak_into_the_next(self, editor: Editor, session: Session[Any]) -> None:
        def after(edits: Sequence[Edit]) -> list[str]:
            with editor.edit(session, edits) as edited:
                return texts(edited.answer(QUESTIONS))

        alone = after([MOVE_GATE])
        after([MOVE_TOWER])
        assert alone == after([MOVE_GATE])


def texts(replies: Sequence[Reply]) -> list[str]:
    """What was answered, for comparison; a failure by its error."""
    return [reply.text if isinstance(reply, Answer) else repr(reply) for reply in replies]


@contextmanager
def unchanged(model: LanguageModel) -> Iterator[None]:
    """Fail if the model differs at the end, however the block ended."""
    before, digest = dict(model.state()), model.digest
    try:
        yield
    finally:
        after = dict(model.state())
        differs = sorted(str(mark) for mark in before | after if before.get(mark) != after.get(mark))
        assert not differs, f"left changed: {differs[:3]}"
        assert digest == model.digest


@contextmanager
def one_clear_line(model: LanguageModel, error: type[KEError], why: str) -> Iterator[None]:
    """The block raises ``error``, in one line that says ``why``, with a hint, and leaves the model as it was."""
    with unchanged(model), pytest.raises(error, match=why) as caught:
        yield
    assert len(str(caught.value).splitlines()) == 1
    assert caught.value.hint
