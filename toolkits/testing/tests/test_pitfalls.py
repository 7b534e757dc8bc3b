"""Each check of editors detects the mistake that it is named after."""

from __future__ import annotations

import os
import random
from contextlib import contextmanager

import pytest
from attrs import evolve, field, frozen, validators

from ke_core.plugin import Answer, EditorSpec, PassthroughModel, UnsupportedEdit
from ke_plugin_hf.testing import tiny_model
from ke_testing.editor import EditorContract
from ke_testing.examples import MOVE_GATE, MOVE_TOWER, TEXT_ONLY
from ke_testing.fakes import EchoModel, make_session
from ke_testing.pitfalls import SECRETS


@frozen(kw_only=True)
class Config:
    width: int = field(default=1, metadata={"help": "what something is divided by"})


@frozen(kw_only=True)
class CheckedConfig:
    width: int = field(default=1, validator=validators.gt(0), metadata={"help": "what something is divided by"})


class Edited(PassthroughModel):
    """Answers with the statements it knows; subclasses do it wrongly."""

    def __init__(self, session, edits):
        super().__init__(session)
        self.session = session
        self.known = {edit.id: edit.statement for edit in edits}

    def answer(self, asks):
        seen = [[text for name, text in self.known.items() if name not in ask.hidden] for ask in asks]
        return [Answer(text=" ".join(texts)) for texts in seen]


class Right:
    """An editor without a mistake."""

    edited = Edited

    def __init__(self, config=None):
        self.config = config or Config()

    def check(self, session, edits):
        return {}

    @contextmanager
    def edit(self, session, edits):
        yield self.edited(session, edits)


class LooksAtHidden(Right):
    class edited(Edited):  # noqa: N801  the class attribute of Right
        def answer(self, asks):
            return super().answer([evolve(ask, hidden=frozenset()) for ask in asks])


class SwallowsErrors(Right):
    class edited(Edited):  # noqa: N801
        def answer(self, asks):
            replies = PassthroughModel.answer(self, asks)
            return [reply if isinstance(reply, Answer) else Answer(text="Paris") for reply in replies]


class SharesMemory(Right):
    known: dict[str, str] = {}  # noqa: RUF012  that is the mistake

    @contextmanager
    def edit(self, session, edits):
        made = Edited(session, edits)
        self.known.update(made.known)
        made.known = self.known
        yield made


class TakesOver(Right):
    """Has one edited model, of the edits that it was given last."""

    @contextmanager
    def edit(self, session, edits):
        self.made = getattr(self, "made", None) or Edited(session, edits)
        self.made.known = Edited(session, edits).known
        yield self.made


class TellsSecrets(Right):
    @contextmanager
    def edit(self, session, edits):
        made = Edited(session, edits)
        made._details = {"settings": {name: os.environ.get(name) for name in SECRETS}}
        yield made


class LeavesTheFolder(Right):
    @contextmanager
    def edit(self, session, edits):
        os.chdir(os.sep)
        yield Edited(session, edits)


class SeedsTheProcess(Right):
    @contextmanager
    def edit(self, session, edits):
        random.seed(42)
        random.random()
        yield Edited(session, edits)


class LeavesAHook(Right):
    @contextmanager
    def edit(self, session, edits):
        session.model.module.register_forward_hook(lambda *_: None)
        yield Edited(session, edits)


class ChecksWithItsHands(Right):
    def check(self, session, edits):
        session.model.module.train()
        return {}


class Divides(Right):
    @contextmanager
    def edit(self, session, edits):
        _ = 1 / (self.config.width + 1)
        yield Edited(session, edits)


class Crashes(Right):
    @contextmanager
    def edit(self, session, edits):
        assert all(edit.cloze for edit in edits), "no cloze"
        yield Edited(session, edits)


def spec(editor, *, config=Config, masks=True):
    return EditorSpec(name="swap", summary="s", config=config, build=editor, masks=masks)


def contract():
    made = EditorContract()
    made.needs_weights, made.edits = False, [MOVE_TOWER, MOVE_GATE]
    return made


@pytest.fixture
def tries(tmp_path, monkeypatch):
    """Call one promise of the contract on an editor, as pytest does."""
    monkeypatch.chdir(tmp_path)
    kept = random.getstate()

    def call(promise, editor, **more):
        given = {
            "editor": editor(),
            "session": make_session(more.pop("model", EchoModel()), root=tmp_path),
            "spec": spec(editor, config=more.pop("config", Config)),
            "config": Config(),
            "tmp_path": tmp_path,
            "monkeypatch": monkeypatch,
            **more,
        }
        test = getattr(EditorContract, promise)
        wanted = test.__code__.co_varnames[1 : test.__code__.co_argcount]
        test(contract(), **{name: given[name] for name in wanted})

    yield call
    random.setstate(kept)


MISTAKES = {
    "test_hidden_edits_are_not_used": LooksAtHidden,
    "test_model_failure_is_not_an_answer": SwallowsErrors,
    "test_two_edited_models_share_nothing": SharesMemory,
    "test_edited_models_with_solve_are_independent": TakesOver,
    "test_details_contain_no_secret": TellsSecrets,
    "test_decoder_is_unchanged": LeavesAHook,
}


@pytest.mark.parametrize("promise", MISTAKES)
def test_mistake_fails_its_check_and_correct_code_passes(tries, promise):
    tries(promise, Right)
    with pytest.raises(AssertionError):
        tries(promise, MISTAKES[promise])


@pytest.mark.parametrize(
    ("editor", "named"), [(LeavesTheFolder, "the working directory"), (SeedsTheProcess, "of random")]
)
def test_changed_process_state_is_named(tries, editor, named):
    tries("test_process_state_is_restored", Right)
    with pytest.raises(AssertionError, match=named):
        tries("test_process_state_is_restored", editor)


def test_check_that_changes_the_model_is_detected(tries):
    tries("test_check_changes_nothing", Right, model=tiny_model())
    with pytest.raises(AssertionError, match="the model is not restored"):
        tries("test_check_changes_nothing", ChecksWithItsHands, model=tiny_model())


def test_crash_on_an_invalid_number_fails_and_a_validator_passes(tries):
    promise = "test_invalid_number_is_rejected_or_harmless"
    tries(promise, Divides, config=CheckedConfig)
    with pytest.raises(ZeroDivisionError):
        tries(promise, Divides)


def test_crash_on_an_unusual_edit_fails(tries):
    tries("test_unusual_edit_is_rejected_or_applied", Right, which=TEXT_ONLY.id)
    with pytest.raises(AssertionError, match="no cloze"):
        tries("test_unusual_edit_is_rejected_or_applied", Crashes, which=TEXT_ONLY.id)


def test_edit_rejected_by_check_must_be_rejected_by_edit(tries):
    class SaysNo(Right):
        def check(self, session, edits):
            return {edit.id: "no" for edit in edits}

    class MeansNo(SaysNo):
        @contextmanager
        def edit(self, session, edits):
            raise UnsupportedEdit("no")
            yield

    tries("test_unusual_edit_is_rejected_or_applied", MeansNo, which=TEXT_ONLY.id)
    with pytest.raises(pytest.fail.Exception):
        tries("test_unusual_edit_is_rejected_or_applied", SaysNo, which=TEXT_ONLY.id)
