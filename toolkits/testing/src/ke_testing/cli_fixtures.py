"""pytest fixtures for commands: a toy plugin with one component of each kind, and ``ke`` run in this process with it.

Import them into a ``conftest.py``: ``from ke_testing.cli_fixtures import evaluated, ke, plugins``.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from attrs import frozen

from ke_core.app import Plugins, builtin, empty_manager, main
from ke_core.plugin import (
    Answer,
    CaseRecord,
    DatasetSpec,
    Details,
    Edit,
    Edited,
    EditorRequest,
    EditorSpec,
    Failure,
    Item,
    JudgeSpec,
    Judgment,
    KnownModel,
    MetricSpec,
    ModelSpec,
    PassthroughModel,
    Reply,
    Session,
    UnsupportedChange,
    Value,
    Verdict,
    hookimpl,
    option,
)
from ke_testing.fakes import EchoModel
from ke_testing.toy import toy_spec


@frozen(kw_only=True)
class WordConfig:
    """Options of the toy editors."""

    word: str = option("the answer", "Rome")
    loud: bool = option("write it in capitals", default=False)


@frozen(kw_only=True)
class NoToyOptions:
    """No options."""


class ToyModel:
    """Answers every request with one word, or fails."""

    def __init__(self, word: str) -> None:
        self.word = word
        self.details: Details = {}

    def answer(self, requests: Sequence[EditorRequest]) -> list[Reply]:
        """Return one reply for each request."""
        if self.word == "ctrl-c":
            raise KeyboardInterrupt
        if self.word == "boom":
            raise ZeroDivisionError("a bug")
        if self.word == "fail":
            return [
                Failure(error="ServerGone", message=f"no answer [red]at {n}[/red]")
                for n, _request in enumerate(requests)
            ]
        return [Answer(text=self.word, raw=self.word) for _request in requests]

    def change(self, *, add: Sequence[Edit] = (), remove: Sequence[str] = ()) -> None:
        """Raise: the word does not depend on edits."""
        raise UnsupportedChange("a word is said whatever the edits")


class ToyEditor:
    """An editor whose edited model answers with one word."""

    def __init__(self, config: Any) -> None:
        self.config = config

    def check(self, session: Session[Any], edits: Sequence[Edit]) -> Mapping[str, str]:
        """Accept every edit."""
        return {}

    @contextmanager
    def edit(self, session: Session[Any], edits: Sequence[Edit]) -> Iterator[Edited]:
        """Answer with the configured word, or pass requests to the model."""
        word = getattr(self.config, "word", "")
        yield ToyModel(word) if word else PassthroughModel(session)


class ExactJudge:
    """A judge that compares an answer with the names of the gold entity."""

    def judge(self, session: Session[Any] | None, items: Sequence[Item]) -> list[Judgment]:
        """Return right or wrong for each item."""
        return [
            Judgment(verdict=Verdict.RIGHT if item.answer.text in item.query.gold.entities[0].names else Verdict.WRONG)
            for item in items
        ]


class Accuracy:
    """A metric: the fraction of right answers, without the edit's own question."""

    def values(self, record: CaseRecord) -> Iterator[Value]:
        """Yield one value for each query."""
        for (phase, style, query), outcome in record.outcomes.items():
            aspect = "efficacy" if query == "hop-1" else "other"
            right = float(outcome.judgment.verdict is Verdict.RIGHT)
            yield Value(aspect=aspect, value=right, phase=phase, style=style, unit=record.case.id)


class ToyPlugin:
    """The plugin."""

    @hookimpl
    def ke_editors(self) -> list[EditorSpec]:
        """Register three editors."""
        return [
            EditorSpec(
                name="sayer", summary="answers one word", config=WordConfig, build=ToyEditor, cite="Nobody 2026"
            ),
            EditorSpec(name="other", summary="answers one word too", config=WordConfig, build=ToyEditor),
            EditorSpec(
                name="surgeon",
                summary="accesses the model's weights",
                config=NoToyOptions,
                build=ToyEditor,
                needs_weights=True,
            ),
        ]

    @hookimpl
    def ke_datasets(self) -> list[DatasetSpec]:
        """Register the toy benchmark."""
        return [toy_spec(metrics=("accuracy",), judge="exact")]

    @hookimpl
    def ke_judges(self) -> list[JudgeSpec]:
        """Register one judge."""
        return [JudgeSpec(name="exact", summary="the label", config=NoToyOptions, build=lambda _config: ExactJudge())]

    @hookimpl
    def ke_metrics(self) -> list[MetricSpec]:
        """Register one metric."""
        columns = {"efficacy": "edits made", "other": "the rest"}
        return [
            MetricSpec(
                name="accuracy", summary="right", config=NoToyOptions, build=lambda _config: Accuracy(), columns=columns
            )
        ]

    @hookimpl
    def ke_models(self) -> list[ModelSpec]:
        """Register a model source whose models echo."""
        known = (KnownModel(name="echo-1", summary="echoes", license="none", size_mb=0),)
        return [
            ModelSpec(
                name="echo",
                summary="echoes",
                config=NoToyOptions,
                build=lambda _request: EchoModel(),
                known=lambda: known,
            )
        ]


def plugins_of(*others: object) -> Plugins:
    """Return the core and ``others``: modules with hooks, and an object with hooks, which is called ``toys``."""
    plugins = empty_manager()
    for other in (builtin, *others):
        plugins.register(other, getattr(other, "__name__", "toys").split(".")[0].replace("_", "-"))
    return plugins


def toys(*others: ModuleType) -> Plugins:
    """Return the core, the toy plugin and ``others``: modules with hooks."""
    return plugins_of(ToyPlugin(), *others)


@pytest.fixture
def plugins() -> Plugins:
    """The core and the toy plugin."""
    return toys()


@pytest.fixture
def ke(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], plugins: Plugins
) -> Iterator[Callable[..., tuple[int, str, str]]]:
    """``ke("plugins")`` in an empty folder: returns exit status, standard output and standard error."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "100")
    handler = signal.getsignal(signal.SIGINT)

    def run(*arguments: str, plugins: Plugins = plugins) -> tuple[int, str, str]:
        capsys.readouterr()
        status = main(arguments, plugins=plugins)
        written = capsys.readouterr()
        return status, written.out, written.err

    yield run
    signal.signal(signal.SIGINT, handler)


RUN = ("eval", "--editor", "sayer", "--dataset", "toy", "--model", "echo:1")


@pytest.fixture
def evaluated(ke: Callable[..., tuple[int, str, str]], tmp_path: Path) -> Path:
    """A finished run, in the folder ``done``."""
    assert ke(*RUN, "--out", "done")[0] == 0
    return tmp_path / "done"
