"""The first use of a component selects its contract and reports a failure once."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path

import pytest
from attrs import field, frozen

from ke_core.app import Installed, Registration
from ke_core.plugin import BadConfig, EditorSpec, JudgeSpec, MetricSpec, PassthroughModel, UnsupportedEdit
from ke_plugin_hf.spec import hf_spec
from ke_testing.trial import contract_of

HERE = Path(__file__).resolve().parent


@frozen(kw_only=True)
class Config:
    file: str = field(default="", metadata={"help": "what is read"})


class Edits:
    """Edits, unless it is told what to raise."""

    def __init__(self, error=None):
        self.error = error

    def check(self, session, edits):
        return {}

    @contextmanager
    def edit(self, session, edits):
        if self.error:
            raise self.error
        yield PassthroughModel(session)


class Wants(Edits):
    @contextmanager
    def edit(self, session, edits):
        if "answers" not in session.material:
            raise BadConfig("no answers")
        yield PassthroughModel(session)


class Judges:
    def judge(self, session, items):
        return []


class Whole:
    def model_values(self, record):
        return []


def find(kind, spec_class, build, **more):
    spec = spec_class(name="mine", summary="s", config=Config, build=build, **more)
    return contract_of(kind, Registration(spec=spec, plugin=Installed(name="ke-plugin-mine", module="m")), {}, HERE)


def failing(error):
    def build(_config):
        raise error

    return build


def test_usable_component_gets_its_full_contract():
    for build, more in ((lambda _config: Edits(), {}), (lambda _config: Wants(), {"oracle": lambda _c: ("answers",)})):
        found = find("editor", EditorSpec, build, **more)
        assert (found.base, found.first) == ("EditorContract", ())
    assert find("judge", JudgeSpec, lambda _config: Judges()).base == "JudgeContract"
    assert find("editor", EditorSpec, lambda _c: Wants(), oracle=lambda _c: ("answers",)).material == ("answers",)


@pytest.mark.parametrize(
    ("kind", "spec", "build", "more", "needed"),
    [
        ("judge", JudgeSpec, Judges, {"needs_model": True}, "a model (use JudgeContract"),
        ("judge", JudgeSpec, Judges, {"scored": True}, "log-probabilities"),
        ("metric", MetricSpec, Whole, {}, "the record of an edited model"),
        ("editor", EditorSpec, lambda: Edits(BadConfig("it needs training", hint="ke train")), {},
         "another setting: it needs training (ke train)"),
        ("dataset", EditorSpec, lambda: failing(BadConfig("which file?"))(None), {}, "another setting: which file?"),
    ],
)  # fmt: skip
def test_missing_requirement_is_reported_as_skipped(kind, spec, build, more, needed):
    found = find(kind, spec, lambda _config: build(), **more)
    (result,) = found.first
    assert (found.base, result.outcome) == ("ComponentContract", "skipped")
    assert f"its behavior, which needs {needed}" in result.found


@pytest.mark.parametrize(
    ("build", "found", "do"),
    [
        (
            failing(ZeroDivisionError("by zero")),
            "editor mine of ke-plugin-mine fails while it is built: ZeroDiv",
            "--trac",
        ),
        (lambda _config: object(), "is built as object, which lacks check, edit", "build must return an object"),
        (lambda _config: Edits(KeyError("layer")), "KeyError: 'layer'", "fix this first"),
        (lambda _config: Edits(UnsupportedEdit("no cloze", hint="give one")), "no cloze", "give one"),
    ],
)
def test_failure_is_reported_once_with_location_and_advice(build, found, do):
    contract = find("editor", EditorSpec, build)
    (result,) = contract.first
    assert (contract.base, result.outcome) == ("ComponentContract", "failed")
    assert found in result.found
    assert result.do.startswith(do)


def test_failure_names_the_line_in_the_plugin():
    (result,) = find("editor", EditorSpec, failing(ZeroDivisionError("by zero"))).first
    assert result.where.startswith("tests/test_trial.py:")


def test_model_source_is_not_built():
    found = contract_of("model", Registration(spec=hf_spec, plugin=Installed(name="ke-core", module="m")), {}, HERE)
    assert found.base == "RegisteredContract"
    assert found.first[0].outcome == "skipped"
