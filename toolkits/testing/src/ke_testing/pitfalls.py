"""Mistakes of published implementations, tested on every editor. Each test is named after the requirement."""

from __future__ import annotations

import importlib.util
import inspect
import json
import os
import subprocess
import sys
import types
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, get_args, get_type_hints

import pytest
from attrs import evolve

from ke_core.app import configure, installed_catalog, naming_files
from ke_core.plugin import (
    BadConfig,
    Editor,
    EditorSpec,
    Encoder,
    Failure,
    Generate,
    Generated,
    HasDependencies,
    KEError,
    Score,
    Scored,
    ServerFailed,
    Session,
    loads,
)
from ke_testing.examples import MOVE_GATE, MOVE_TOWER, QUESTIONS
from ke_testing.fakes import EchoModel
from ke_testing.kit import EditorKit, texts, unchanged
from ke_testing.process import disturb, process_marks

SECRETS = ("HF_TOKEN", "OPENAI_API_KEY")
SECRET = "a-secret-that-nobody-may-see"  # noqa: S105  not a real secret
PRINT_ANSWERS = "from ke_testing.pitfalls import print_answers; print_answers(*__import__('sys').argv[1:])"


class FailingModel(EchoModel):
    """A server that is down: every request fails, and is counted."""

    id = "fake:dead"

    def __init__(self) -> None:
        self.requests = 0

    def generate(self, requests: Sequence[Generate]) -> list[Generated | Exception]:
        self.requests += len(requests)
        return [ServerFailed("the server is down", hint="start it") for _ in requests]

    def score(self, requests: Sequence[Score]) -> list[Scored | Exception]:
        self.requests += len(requests)
        return [ServerFailed("the server is down", hint="start it") for _ in requests]


class EditorPitfalls(EditorKit):
    """Mistakes of published implementations that any editor can make."""

    def test_check_changes_nothing(self, editor: Editor, session: Session[Any]) -> None:
        with unchanged(session.model):
            assert editor.check(session, self.edits) == editor.check(session, self.edits) == {}

    def test_decoder_is_unchanged(self, editor: Editor, spec: EditorSpec, tmp_path: Path) -> None:
        """Methods that only send prompts are tested on a real decoder: its weights, hooks and flags must not change."""
        if spec.needs_weights:
            pytest.skip("it accesses the model's weights: other checks cover that")
        if not spec.needs_model:
            pytest.skip("it uses no model")
        session = self.on(self.tiny(), tmp_path)
        with unchanged(session.model), editor.edit(session, [MOVE_TOWER]) as edited, unchanged(session.model):
            edited.answer(QUESTIONS[:1])

    def test_process_state_is_restored(
        self, editor: Editor, session: Session[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Working directory, environment, random state and torch settings. Imports may change them the first time."""
        found = dict(os.environ)
        for _ in range(2):
            monkeypatch.chdir(tmp_path)
            disturb(found)
            before = process_marks()
            with editor.edit(session, [MOVE_TOWER]) as edited:
                edited.answer(QUESTIONS)
            after = process_marks()
        assert [name for name in before if before[name] != after[name]] == []

    def test_hidden_edits_are_not_used(self, editor: Editor, spec: EditorSpec, session: Session[Any]) -> None:
        if not spec.masks:
            pytest.skip("its spec sets masks=False, so no edit is hidden from it")
        requests = [evolve(request, hidden=frozenset({MOVE_TOWER.id})) for request in QUESTIONS]
        for others in ([], [MOVE_GATE]):
            with editor.edit(session, [MOVE_TOWER, *others]) as edited:
                hidden = texts(edited.answer(requests))
            with editor.edit(session, others) as edited:
                assert texts(edited.answer(requests)) == hidden

    def test_model_failure_is_not_an_answer(self, editor: Editor, spec: EditorSpec, tmp_path: Path) -> None:
        if spec.needs_weights:
            pytest.skip("the model that it accesses does not fail")
        for request in QUESTIONS:
            model = FailingModel()
            with editor.edit(self.on(model, tmp_path), [MOVE_TOWER]) as edited:
                (reply,) = edited.answer([request])
            assert isinstance(reply, Failure) or not model.requests

    def test_another_process_gives_the_same_answers(
        self, editor: Editor, spec: EditorSpec, session: Session[Any]
    ) -> None:
        """With another PYTHONHASHSEED: results must not depend on the order of a set."""
        if spec.needs_weights or spec.trainer is not None:
            pytest.skip("only tested for methods that send prompts and need no training")
        own = type(self)
        environment = {**os.environ, "PYTHONHASHSEED": "7" if os.environ.get("PYTHONHASHSEED") != "7" else "8"}
        command = [sys.executable, "-c", PRINT_ANSWERS, inspect.getfile(own), own.__qualname__]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert loads(done.stdout.splitlines()[-1]) == _answers(editor, session)

    def test_two_edited_models_share_nothing(self, spec: EditorSpec, config: Any, tmp_path: Path) -> None:
        first, second = (self.on(self.model(), tmp_path) for _ in range(2))
        with spec.build(config).edit(first, [MOVE_TOWER]) as one:
            alone = texts(one.answer(QUESTIONS))
            with spec.build(config).edit(second, [MOVE_GATE]) as other:
                other.answer(QUESTIONS)
                assert texts(one.answer(QUESTIONS)) == alone
            assert texts(one.answer(QUESTIONS)) == alone

    def test_details_contain_no_secret(
        self, editor: Editor, session: Session[Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in SECRETS:
            monkeypatch.setenv(name, SECRET)
        with editor.edit(session, [MOVE_TOWER]) as edited:
            assert SECRET not in json.dumps(edited.details)

    def test_missing_file_is_reported_before_the_first_request(
        self, spec: EditorSpec, config: Any, tmp_path: Path
    ) -> None:
        """By ``check`` without edits, or when the options are read: before any cost for the unedited model."""
        if spec.needs_weights:
            pytest.skip("its files are read with its first edit")
        model, missing = FailingModel(), str(tmp_path / "missing")
        for option in naming_files(spec.config):
            if option == "encoder":  # a test's session has its own encoder, whatever the option
                continue
            with pytest.raises(KEError, match="missing"):
                spec.build(evolve(config, **{option: missing})).check(self.on(model, tmp_path), ())
        assert not model.requests

    def test_encoder_is_in_the_specification(self, editor: Editor, session: Session[Any]) -> None:
        used = []

        def encoder(name: str) -> Encoder:
            used.append(session.encoder(name).id)
            return session.encoder(name)

        with editor.edit(evolve(session, encoder=encoder), self.edits) as edited:
            edited.answer(QUESTIONS)
        found = editor.dependencies(session) if isinstance(editor, HasDependencies) else {}
        assert set(used) <= set(found.values())

    def test_invalid_number_is_rejected_or_harmless(self, spec: EditorSpec, tmp_path: Path) -> None:
        """Set each numeric option to -1 and NaN: it is rejected, or the edit is applied or rejected in one line."""
        for option, value in invalid_numbers(spec.config):
            try:
                config = configure(spec, {**self.options, option: value})
            except BadConfig as error:
                assert option in str(error)  # noqa: PT017  the error is optional
                continue
            model = self.model()
            with unchanged(model):
                try:
                    with spec.build(config).edit(self.on(model, tmp_path), [MOVE_TOWER]) as edited:
                        edited.answer(QUESTIONS[:1])
                except KEError as error:
                    assert len(str(error).splitlines()) == 1  # noqa: PT017  as above


def invalid_numbers(config: type[Any]) -> list[tuple[str, str]]:
    """Return (option, invalid value) pairs for every numeric option."""
    found: list[tuple[str, str]] = []
    for name, hint in get_type_hints(config).items():
        kinds = {part for part in (get_args(hint) or (hint,)) if part is not types.NoneType}
        if kinds in ({int}, {float}):
            found += [(name, value) for value in (("-1",) if kinds == {int} else ("-1", "nan"))]
    return found


def print_answers(file: str, contract: str) -> None:
    """Print the answers of the editor of the contract class ``contract`` in ``file``, as JSON."""
    source = importlib.util.spec_from_file_location("contract_in_subprocess", file)
    assert source is not None
    assert source.loader is not None
    module = importlib.util.module_from_spec(source)
    source.loader.exec_module(module)
    own: Any = getattr(module, contract)()
    spec: Any = installed_catalog().spec(own.kind, own.name)
    own.needs_weights = spec.needs_weights
    with TemporaryDirectory() as folder:
        session = own.on(own.model(), Path(folder))
        print(json.dumps(_answers(spec.build(configure(spec, own.options)), session)))  # noqa: T201  read by the test


def _answers(editor: Editor, session: Session[Any]) -> list[str]:
    with editor.edit(session, [MOVE_TOWER, MOVE_GATE]) as edited:
        return texts(edited.answer(QUESTIONS))
