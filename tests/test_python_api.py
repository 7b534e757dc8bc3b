"""``import ke_core as ke``: load, edit and evaluate from Python, with a tiny model and installed plugins."""

from __future__ import annotations

from pathlib import Path

import pytest

import ke_core as ke
from ke_core.api import Model
from ke_core.spec.errors import UnknownComponent, UnsupportedEdit
from ke_plugin_hf.testing import saved, tiny_model

PROMPT, SUBJECT, TARGET = "The capital of {} is", "Peru", "Cusco"
FEW_STEPS = {"steps": 3}


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Model:
    monkeypatch.setenv("KE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    saved(tiny_model("llama"), tmp_path / "tiny")
    return ke.load("./tiny")


def test_an_edit_raises_the_probability_of_its_target_and_is_undone(model: Model) -> None:
    before = model.model.state()
    with ke.edit(model, "Peru is", subject=SUBJECT, target=TARGET, editor="none") as unedited:
        first = unedited.logprob("Peru is", TARGET)
    with ke.edit(model, "Peru is", subject=SUBJECT, target=TARGET, editor="ft", options=FEW_STEPS) as edited:
        assert edited.logprob("Peru is", TARGET) > first
        assert isinstance(edited.generate("Peru is", max_tokens=2), str)
        assert model.model.state() != before
    assert model.model.state() == before


def test_several_edits_are_applied_together(model: Model) -> None:
    edits = [
        {"prompt": PROMPT, "subject": "Peru", "target_new": "Cusco"},
        {"prompt": PROMPT, "subject": "Chile", "target_new": "Arica"},
    ]
    with ke.edit(model, edits=edits, editor="ice") as edited:
        assert isinstance(edited.generate("The capital of Chile is"), str)


def test_a_refused_edit_raises_an_error_with_the_reason(model: Model) -> None:
    with (
        pytest.raises(UnsupportedEdit, match="1 of 1") as caught,
        ke.edit(model, edits=[{"prompt": "Peru's capital is", "target_new": "Cusco"}], editor="rome"),
    ):
        pass
    assert "names no subject" in caught.value.details[0]


def test_an_unknown_editor_raises_an_error(model: Model) -> None:
    with (
        pytest.raises(UnknownComponent, match="nosuch"),
        ke.edit(model, PROMPT, subject="A", target="B", editor="nosuch"),
    ):
        pass


def test_evaluate_resumes_finished_runs_and_reads_their_scores(model: Model) -> None:
    first = ke.evaluate(model, editors=["none", "parrot"], dataset="atlas", limit=2)
    again = ke.evaluate(model, editors=["none", "parrot"], dataset="atlas", limit=2)
    assert [run.path for run in first] == [run.path for run in again]
    assert [run.scores for run in first] == [ke.read_run(run.path).scores for run in again]
    assert {score.metric for score in first[0].scores} >= {"multi-hop"}


def test_options_have_the_types_of_python(model: Model) -> None:
    (run,) = ke.evaluate(
        model,
        editors=["ft"],
        dataset="atlas",
        limit=1,
        options={"ft": {"steps": 1, "layers": (0, 1)}},
        metrics=["cost"],
    )
    assert '"layers":[0,1]' in (run.path / "run.json").read_text(encoding="utf-8").replace(" ", "")


def test_unknown_names_raise_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nosuch"):
        _ = ke.nosuch


def test_options_of_one_editor_are_accepted_with_other_editors(model: Model) -> None:
    runs = ke.evaluate(model, editors=["none", "ft"], dataset="atlas", limit=1, options={"ft": {"steps": 1}})
    assert [run.path.name.partition("-")[0] for run in runs] == ["none", "ft"]
