"""A plugin that fails while its component is built, or builds something else, is named with what to do."""

import pytest
from attrs import frozen

from ke_core.plugin import DatasetSpec, EditorSpec, JudgeSpec, MetricSpec
from ke_core.runner.resolve import build_component
from ke_core.spec.errors import BadConfig, PluginBroken


@frozen
class Config:
    pass


def make(build, kind=EditorSpec):
    return build_component(
        kind(name="swap", summary="s", config=Config, build=build), Config(), plugin="ke-plugin-swap"
    )


def failing(error):
    def build(_config):
        raise error

    return build


def test_failing_build_names_the_component_and_keeps_the_traceback():
    with pytest.raises(
        PluginBroken, match="editor swap of ke-plugin-swap fails while it is built: KeyError: 'x'"
    ) as told:
        make(failing(KeyError("x")))
    assert isinstance(told.value.__cause__, KeyError)
    assert "--traceback shows where; its author" in told.value.hint


@pytest.mark.parametrize("error", [BadConfig("no such layer"), FileNotFoundError("gone"), MemoryError()])
def test_errors_of_users_and_machines_pass_unchanged(error):
    with pytest.raises(type(error)) as told:
        make(failing(error))
    assert told.value is error


@pytest.mark.parametrize(
    ("kind", "lacks"),
    [
        (EditorSpec, "check, edit"),
        (DatasetSpec, "cases, hides, info, material, prompt, split"),
        (JudgeSpec, "judge"),
        (MetricSpec, "values"),
    ],
)
def test_build_must_return_the_interface_of_its_kind(kind, lacks):
    with pytest.raises(PluginBroken, match=f"is built as NoneType, which lacks {lacks}") as told:
        make(lambda _config: None, kind)
    assert "(ke_core.plugin)" in told.value.hint


def test_build_accepts_model_metrics():
    class Whole:
        def model_values(self, record):
            return []

    made = make(lambda _config: Whole(), MetricSpec)
    assert isinstance(made, Whole)
