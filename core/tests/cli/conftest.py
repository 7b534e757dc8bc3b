"""A toy plugin with one component of each kind, and ``ke`` run in this process on it."""

import signal
from contextlib import contextmanager

import pytest
from attrs import field, frozen

from ke_core import builtin
from ke_core.cli.main import main
from ke_core.engine.direct import Direct
from ke_core.plugin import (
    Answer,
    EditorSpec,
    Failure,
    Judgement,
    JudgeSpec,
    KnownModel,
    MetricSpec,
    ModelSpec,
    UnsupportedChange,
    Value,
    Verdict,
    hookimpl,
)
from ke_core.plugins.manager import bare
from ke_core.testing.fakes import EchoModel
from ke_core.testing.toy import toy_spec


@frozen(kw_only=True)
class Config:
    word: str = field(default="Rome", metadata={"help": "what is answered"})
    loud: bool = field(default=False, metadata={"help": "say it in capitals"})


@frozen(kw_only=True)
class NoConfig:
    pass


class Said:
    """Answers every ask with one word, or fails."""

    def __init__(self, word):
        self.word = word
        self.details = {}

    def answer(self, asks):
        if self.word == "ctrl-c":
            raise KeyboardInterrupt
        if self.word == "boom":
            raise ZeroDivisionError("a bug")
        if self.word == "fail":
            return [Failure(error="ServerGone", message=f"no answer [red]at {n}[/red]") for n, _ask in enumerate(asks)]
        return [Answer(text=self.word, raw=self.word) for _ask in asks]

    def change(self, *, add=(), remove=()):
        raise UnsupportedChange("a word is said whatever the edits")


class Sayer:
    def __init__(self, config):
        self.config = config

    def check(self, session, edits):
        return {}

    @contextmanager
    def edit(self, session, edits):
        yield Said(self.config.word) if self.config.word else Direct(session)


class Exact:
    def judge(self, session, items):
        return [
            Judgement(verdict=Verdict.RIGHT if item.reply.text in item.query.gold.entities[0].names else Verdict.WRONG)
            for item in items
        ]


class Accuracy:
    def values(self, record):
        for (phase, style, query), outcome in record.outcomes.items():
            aspect = "efficacy" if query == "hop-1" else "other"
            right = float(outcome.judgement.verdict is Verdict.RIGHT)
            yield Value(aspect=aspect, value=right, phase=phase, style=style, unit=record.case.id)


class Toys:
    """The plugin."""

    @hookimpl
    def ke_editors(self):
        return [
            EditorSpec(name="sayer", summary="says one word", config=Config, build=Sayer, cite="Nobody 2026"),
            EditorSpec(name="other", summary="says one word too", config=Config, build=Sayer),
            EditorSpec(name="surgeon", summary="opens the model", config=NoConfig, build=Sayer, needs_weights=True),
        ]

    @hookimpl
    def ke_datasets(self):
        return [toy_spec(metrics=("accuracy",), judge="exact")]

    @hookimpl
    def ke_judges(self):
        return [JudgeSpec(name="exact", summary="the label", config=NoConfig, build=lambda config: Exact())]

    @hookimpl
    def ke_metrics(self):
        columns = {"efficacy": "edits made", "other": "the rest"}
        return [
            MetricSpec(
                name="accuracy", summary="right", config=NoConfig, build=lambda config: Accuracy(), columns=columns
            )
        ]

    @hookimpl
    def ke_models(self):
        known = (KnownModel(name="echo-1", summary="echoes", licence="none", size_mb=0),)
        return [
            ModelSpec(
                name="echo", summary="echoes", config=NoConfig, build=lambda request: EchoModel(), known=lambda: known
            )
        ]


def toys():
    """The core and the toy plugin."""
    plugins = bare()
    plugins.register(builtin, "ke-core")
    plugins.register(Toys(), "toys")
    return plugins


@pytest.fixture
def plugins():
    return toys()


@pytest.fixture
def ke(tmp_path, monkeypatch, capsys, plugins):
    """``ke("plugins")`` in an empty folder: its exit status, standard output and standard error."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "100")
    handler = signal.getsignal(signal.SIGINT)

    def run(*arguments, plugins=plugins):
        capsys.readouterr()
        status = main(arguments, plugins=plugins)
        written = capsys.readouterr()
        return status, written.out, written.err

    yield run
    signal.signal(signal.SIGINT, handler)


RUN = ("eval", "--editor", "sayer", "--dataset", "toy", "--model", "echo:1")


@pytest.fixture
def evaluated(ke, tmp_path):
    """A finished run, in the folder ``done``."""
    assert ke(*RUN, "--out", "done")[0] == 0
    return tmp_path / "done"
