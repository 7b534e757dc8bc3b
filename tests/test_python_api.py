"""``import ke_core as ke``: load, edit and evaluate from Python, with a tiny model and installed plugins."""

from __future__ import annotations

import json
import os
import runpy
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from peft import PeftModel

import ke_core as ke
from ke_core.api import Model, Table
from ke_core.api.editing import edits_of
from ke_core.api.models import installed_catalog, likelihood
from ke_core.spec.errors import (
    BadConfig,
    BadData,
    EditFailed,
    KEError,
    UnknownComponent,
    UnsupportedChange,
    UnsupportedEdit,
)
from ke_plugin_hf import fingerprint
from ke_plugin_hf.testing import INNER, saved, tiny_model
from ke_weights import EditInputs
from ke_weights.saved_edits import opened_edit, read_saved_edit
from ke_weights.saving import apply_patch

PROMPT, SUBJECT, TARGET = "The capital of {} is", "Peru", "Cusco"
FEW_EPOCHS = {"epochs": 3}
QUICK_ROME = {"steps": 3, "tokens": 4000}


@dataclass
class OneEdit:
    prompt: str
    subject: str
    target_new: str


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
    with ke.edit(model, "Peru is", subject=SUBJECT, target=TARGET, editor="ft", options=FEW_EPOCHS) as edited:
        assert edited.logprob("Peru is", TARGET) > first
        assert isinstance(edited.generate("Peru is", max_tokens=2), str)
        assert model.model.state() != before
    assert model.model.state() == before


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"editors": "memit"}, "editors is 'memit'"),
        ({"editors": []}, "editors is empty"),
        ({"editors": ["none"], "metrics": "cost"}, "metrics is 'cost', not a list"),
        ({"editors": ["none"], "edits_per_batch": "all"}, "edits_per_batch is 'all', not a whole number"),
        ({"editors": ["none"], "seed": -1}, "seed is -1, not a whole number from 0"),
        ({"editors": ["none"], "options": {"k": 3}}, "options..k.. is 3, not the options of a component"),
        ({"editors": ["none"], "eval_every": 2}, "do not fit together: eval_every"),
        ({"editors": ["none"], "num_edited": 2, "sequential": True}, "do not fit together: sequential"),
    ],
)
def test_arguments_that_have_no_effect_are_refused(model: Model, given: dict[str, Any], reason: str) -> None:
    with pytest.raises(BadConfig, match=reason):
        ke.evaluate(model, dataset="atlas", **given)


@pytest.mark.parametrize(
    ("given", "reason", "hint"),
    [
        ({"model": "tiny"}, "model is 'tiny', not a model in memory", "load it: ke.load('tiny')"),
        ({"options": {"ft": {"epochs": 2}}}, "the options of ft are not nested", "such as options="),
        ({"target": ""}, "target is missing", "the new object of the fact"),
        ({"editor": "ftt"}, "no editor called 'ftt'", "did you mean 'ft'?"),
    ],
)
def test_a_traceback_of_a_wrong_argument_contains_the_hint(
    model: Model, given: dict[str, Any], reason: str, hint: str
) -> None:
    words: dict[str, Any] = {"model": model, "prompt": PROMPT, "subject": "A", "target": "B", "editor": "ft", **given}
    with pytest.raises(KEError, match=reason) as caught, ke.edit(**words):
        pass
    assert caught.value.__notes__[0].startswith(f"hint: {hint}")


def test_a_continuation_in_a_script_without_spaces_gets_no_space() -> None:
    assert likelihood("法国的首都是", ["巴黎"]).continuations == ("巴黎",)
    assert likelihood("Peru is", ["Cusco"]).continuations == (" Cusco",)


def test_details_follow_the_batches(model: Model) -> None:
    with ke.edit(model, edits=[{"statement": "Peru is big"}], editor="ice") as edited:
        edited.add(edits=[{"statement": "Chile is long"}])
        edited.undo()
        assert len(edited.details) == 1


def test_unedited_calls_read_no_weight_again(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    monkeypatch.setattr(fingerprint, "checksum", lambda tensor: read.append(tensor.numel()) or (0, 0))
    first = model.logprob("Peru is", TARGET)
    assert read
    read.clear()
    assert model.logprob("Peru is", TARGET) == first
    assert read == []


def test_weights_changed_by_the_caller_give_new_answers(model: Model) -> None:
    first = model.logprob("Peru is", TARGET)
    model.module.get_parameter("model.layers.1.mlp.down_proj.weight").data *= 2
    assert model.logprob("Peru is", TARGET) != first


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


def test_a_model_answers_in_several_threads(model: Model) -> None:
    with ThreadPoolExecutor(1) as other:
        answers = [model.generate("a", max_tokens=1), other.submit(model.generate, "a", max_tokens=1).result()]
    assert answers[0] == answers[1]


def test_an_unknown_editor_raises_an_error(model: Model) -> None:
    with (
        pytest.raises(UnknownComponent, match="nosuch"),
        ke.edit(model, PROMPT, subject="A", target="B", editor="nosuch"),
    ):
        pass


def test_evaluate_resumes_finished_runs_and_reads_their_scores(model: Model) -> None:
    first = ke.evaluate(model, editors=["none", "parrot"], dataset="atlas", limit=2)
    again = ke.evaluate(model, editors=["none", "parrot"], dataset="atlas", limit=2)
    assert first.paths == again.paths
    assert first.scores == again.scores == ke.read_run("runs").scores
    assert {row["metric"] for row in first.scores} >= {"multi-hop"}
    assert {row["editor"] for row in first.answers} == {"none", "parrot"}
    assert {row["verdict"] for row in first.answers} >= {"right", "wrong"}
    assert sum(row["edits"] for row in first.edits) >= 4
    assert "parrot" in repr(first)
    assert "<td>parrot</td>" in first.scores._repr_html_()
    compared = [row for row in ke.compare(first) if (row["aspect"], row["metric"]) == ("multi-hop", "multi-hop")]
    assert {(row["first"], row["second"], row["n"]) for row in compared} == {("none", "parrot", 2)}
    assert "…" not in repr(ke.compare(first))


def test_options_have_the_types_of_python(model: Model) -> None:
    run = ke.evaluate(
        model,
        editors=["ft"],
        dataset="atlas",
        limit=1,
        options={"ft": {"epochs": 1, "layers": (0, 1)}},
        metrics=["cost"],
    )
    assert '"layers":[0,1]' in (run.paths[0] / "run.json").read_text(encoding="utf-8").replace(" ", "")


def test_unknown_names_raise_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nosuch"):
        _ = ke.nosuch


def test_options_of_one_editor_are_no_error_for_another(model: Model) -> None:
    run = ke.evaluate(model, editors=["none", "ft"], dataset="atlas", limit=1, options={"ft": {"epochs": 1}})
    assert [path.name.partition("-")[0] for path in run.paths] == ["none", "ft"]


def test_edits_are_added_removed_and_undone(model: Model) -> None:
    with ke.edit(model, PROMPT, subject=SUBJECT, target=TARGET, editor="ft", options=FEW_EPOCHS) as edited:
        one = model.model.digest
        edited.add(PROMPT, subject="Chile", target="Arica")
        two = model.model.digest
        edited.undo()
        assert [found.edit.target for found in edited.edits] == [TARGET]
        assert (model.model.digest == one) == (one != two)
        edited.remove(edited.edits[0].edit.id)
        assert edited.edits == ()
        assert edited.generate("Peru is") == model.generate("Peru is")


def test_memory_edits_are_removed_by_id(model: Model) -> None:
    edits = [{"prompt": PROMPT, "subject": name, "target_new": "Cusco"} for name in ("Peru", "Chile")]
    with ke.edit(model, edits=edits, editor="ice") as edited:
        edited.remove(edited.edits[1].edit.id)
        assert [one.edit.cloze.subject for one in edited.edits] == ["Peru"]
        with pytest.raises(BadData, match="no active edit has the id 'x'"):
            edited.remove("x")
        with pytest.raises(UnsupportedChange, match="ice is no weight editor"):
            edited.keep()


def test_an_edit_outside_of_its_block_answers_nothing_and_changes_nothing(model: Model) -> None:
    before = model.model.state()
    edited = ke.edit(model, PROMPT, subject=SUBJECT, target=TARGET, editor="ft", options=FEW_EPOCHS)
    with pytest.raises(EditFailed, match="the edit is not active"):
        edited.generate("Peru is")
    assert model.model.state() == before
    states = []
    for _time in range(2):
        with edited:
            states.append(model.model.state())
        assert model.model.state() == before
    assert states[0] == states[1] != before


def test_kept_weights_stay_after_the_context(model: Model) -> None:
    before = model.model.state()
    with ke.edit(model, PROMPT, subject=SUBJECT, target=TARGET, editor="ft", options=FEW_EPOCHS) as edited:
        during = model.model.state()
        edited.keep()
    assert model.model.state() == during != before
    with pytest.raises(EditFailed, match="the edit is not active"):
        edited.generate("Peru is")


def test_report_shows_answers_and_probabilities_before_and_after(model: Model) -> None:
    with ke.edit(model, PROMPT, subject=SUBJECT, target=TARGET, editor="ft", options=FEW_EPOCHS) as edited:
        during = model.model.state()
        (row,) = edited.report()
        assert row["log p(target) after"] == edited.logprob("The capital of Peru is", TARGET)
        assert model.model.state() == during
    assert row["log p(target) before"] == model.logprob("The capital of Peru is", TARGET)
    assert row["log p(target) after"] > row["log p(target) before"]


def test_a_model_is_edited_once_at_a_time(model: Model, tmp_path: Path) -> None:
    other = ke.load(str(tmp_path / "tiny"))
    with ke.edit(model, PROMPT, subject=SUBJECT, target=TARGET, editor="ice"):
        with pytest.raises(EditFailed, match="being edited already"), ke.edit(model, PROMPT, subject="A", target="B"):
            pass
        with pytest.raises(EditFailed, match="being edited already"):
            ke.evaluate(model, editors=["none"], dataset="atlas", limit=1)
        with ke.edit(other, PROMPT, subject=SUBJECT, target=TARGET, editor="ft", options=FEW_EPOCHS) as edited:
            assert edited.generate("Peru is", max_tokens=2) is not None
    with ke.edit(model, PROMPT, subject=SUBJECT, target=TARGET, editor="ice"):
        pass


def test_an_edit_in_another_thread_or_of_the_same_module_is_refused(model: Model) -> None:
    again = ke.wrap(model.module, model.model.tokenizer, name="again")

    def edit_again(other: Model) -> str:
        try:
            with ke.edit(other, PROMPT, subject="A", target="B", editor="ice"):
                return "edited"
        except EditFailed as error:
            return error.message

    with ThreadPoolExecutor(1) as thread, ke.edit(model, PROMPT, subject=SUBJECT, target=TARGET, editor="ice"):
        for other in (model, again):
            assert "being edited already" in thread.submit(edit_again, other).result()
    assert edit_again(again) == "edited"


def test_a_forked_process_leaves_the_weights_of_its_parent(model: Model) -> None:
    before = model.model.state()
    with ke.edit(model, PROMPT, subject=SUBJECT, target=TARGET, editor="ft", options=FEW_EPOCHS) as edited:
        during = model.model.state()
        child = os.fork()
        if not child:  # in the child: exit without running the test's clean-up
            try:
                edited.undo()
            except EditFailed as error:
                os._exit(0 if "belongs to process" in str(error) else 1)
            os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert model.model.state() == during
    assert model.model.state() == before


def test_a_forked_process_cannot_use_the_edited_model(model: Model) -> None:
    with ke.edit(model, PROMPT, subject=SUBJECT, target=TARGET, editor="ice") as edited:
        child = os.fork()
        if not child:  # in the child: exit without running the test's clean-up
            try:
                edited.generate("Peru is")
            except EditFailed as error:
                os._exit(0 if "belongs to process" in str(error) else 1)
            os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_wrapped_model_is_edited_in_place_and_restored(model: Model) -> None:
    wrapped = ke.wrap(model.module, model.model.tokenizer, name="mine")
    before = {name: value.clone() for name, value in model.module.state_dict().items()}
    with ke.edit(wrapped, PROMPT, subject=SUBJECT, target=TARGET, editor="ft", options=FEW_EPOCHS):
        assert any(not value.equal(before[name]) for name, value in wrapped.module.state_dict().items())
    assert all(value.equal(before[name]) for name, value in wrapped.module.state_dict().items())
    run = ke.evaluate(wrapped, editors=["none"], dataset="atlas", limit=1)
    assert '"id":"mine"' in (run.paths[0] / "run.json").read_text(encoding="utf-8")


@pytest.mark.parametrize("form", ["dicts", "dataclasses", "file", "frame"])
def test_edits_come_in_several_forms(form: str, tmp_path: Path) -> None:
    rows = [{"prompt": PROMPT, "subject": name, "target_new": TARGET} for name in ("Peru", "Chile")]
    if form == "dataclasses":
        found = edits_of(edits=[OneEdit(**row) for row in rows])
    elif form == "file":
        (tmp_path / "edits.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
        found = edits_of(edits=tmp_path / "edits.jsonl")
    elif form == "frame":
        pandas = pytest.importorskip("pandas")
        found = edits_of(edits=pandas.DataFrame([{**rows[0], "question": "Which?"}, rows[1]]))
        assert [one.edit.question for one in found] == ["Which?", None]
    else:
        found = edits_of(edits=rows)
    assert [(one.edit.cloze.subject, one.target) for one in found] == [("Peru", TARGET), ("Chile", TARGET)]


@pytest.mark.integration
@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")  # of peft, in transformers
@pytest.mark.parametrize("kind", ["patch", "adapter", "pretrained"])
def test_saved_edits_give_the_probabilities_of_the_edited_model(model: Model, tmp_path: Path, kind: str) -> None:
    place = tmp_path / "saved.safetensors"
    with ke.edit(model, PROMPT, subject=SUBJECT, target=TARGET, editor="rome", options=QUICK_ROME) as edited:
        during, asked = model.model.state(), ("The capital of Peru is", TARGET)
        expected = edited.logprob(*asked)
        getattr(edited, f"save_{kind}")(place)
        assert model.model.state() == during
        with pytest.raises(BadConfig, match="exists"):
            getattr(edited, f"save_{kind}")(place)
    if kind == "patch":
        apply_patch(place, model.choice, tmp_path / "whole", installed_catalog(), model.progress, force=False)
        found = ke.load(str(tmp_path / "whole")).logprob(*asked)
    elif kind == "pretrained":
        found = ke.load(str(place)).logprob(*asked)
    else:
        module = PeftModel.from_pretrained(model.module, place)
        found = ke.wrap(module, model.model.tokenizer).logprob(*asked)
    assert found == pytest.approx(expected, abs=1e-4)


@pytest.mark.integration
def test_a_saved_adaptor_gives_the_probabilities_of_the_edited_model(model: Model, tmp_path: Path) -> None:
    options = {"steps": 20, "eps": 1e-3}
    with ke.edit(model, PROMPT, subject=SUBJECT, target=TARGET, editor="grace", options=options) as edited:
        expected = edited.logprob("The capital of Peru is", TARGET)
        with pytest.raises(BadConfig, match="grace changes no weights") as refused:
            edited.save_patch(tmp_path / "peru.safetensors")
        assert "save_pretrained" in refused.value.hint
        folder = edited.save_pretrained(tmp_path / "saved")
    saved, session = read_saved_edit(folder), model.session()
    with opened_edit(folder, saved, session, saved.editor_in(installed_catalog())):
        assert model.logprob("The capital of Peru is", TARGET) == expected


def test_what_is_installed_is_listed(model: Model) -> None:
    assert "memit" in [row["name"] for row in ke.editors()]
    assert [row for row in ke.datasets() if row["name"] == "atlas"]
    assert [row for row in ke.models() if row["name"] == "smollm2-135m"]
    assert len(ke.metrics()) > 10
    assert len(ke.judges()) > 3
    assert "more rows" in repr(Table(tuple({"n": n} for n in range(30))))
    assert model.session(seed=3).seed == 3


INPUTS_OPTIONS = {"layers": (1, 2), "mom2_weight": 50.0, "steps": 3, "templates": ["So it is. {}"]}


def given_covariance() -> dict[int, Any]:
    keys = np.random.default_rng(0).normal(size=(INNER, 3 * INNER))
    return dict.fromkeys((1, 2), keys @ keys.T / (3 * INNER))


def test_a_trace_has_one_entry_per_batch_of_a_kept_edit(model: Model) -> None:
    inputs = EditInputs(covariance=given_covariance())
    how: Any = {"editor": "memit", "options": INPUTS_OPTIONS, "inputs": inputs, "trace": True}
    with ke.edit(model, PROMPT, subject=SUBJECT, target=TARGET, **how) as edited:
        edited.add(PROMPT, subject="Chile", target="Arica")
        edited.add(PROMPT, subject="Spain", target="Bilbao")
        edited.undo()
        edited.add(PROMPT, subject="Italy", target="Bologna")
        edited.keep()
    trace = edited.trace
    assert [batch.edits for batch in trace.batches] == [(one.edit.id,) for one in edited.edits]
    assert len(trace.batches) == 3
    assert [row["batch"] for row in trace.losses] == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert trace.losses.columns == ["batch", "edit", "step", "nll", "kl", "decay", "total"]


def test_given_targets_belong_to_their_edits_only(model: Model) -> None:
    inputs = EditInputs(covariance=given_covariance(), targets=np.ones((64, 1)))
    how: Any = {"editor": "memit", "options": INPUTS_OPTIONS, "trace": True}
    one = {"subject": SUBJECT, "target": TARGET}
    with ke.edit(model, PROMPT, **one, inputs=inputs, **how) as edited:
        edited.add(PROMPT, subject="Chile", target="Arica")
        edited.remove(edited.edits[1].edit.id)
        assert [batch.targets.tolist() for batch in edited.trace.batches] == [np.ones((64, 1)).tolist()]
        edited.undo()
        edited.add(PROMPT, **one)
        assert edited.details[0]["inputs"].keys() == {"covariance"}
        assert len(edited.trace.losses) == 3
    other = EditInputs(covariance={layer: 2 * found for layer, found in given_covariance().items()})
    with ke.edit(model, PROMPT, **one, inputs=other, **how) as second:
        assert second.trace.batches[0].targets.tolist() == edited.trace.batches[0].targets.tolist()
        assert second.trace.batches[0].layers[2].update.tolist() != edited.trace.batches[0].layers[2].update.tolist()


@pytest.mark.parametrize("editor", ["memit", "rome", "r-rome", "emmet", "alphaedit"])
def test_every_locate_and_edit_method_uses_inputs_and_records_a_trace(model: Model, editor: str) -> None:
    several = editor in {"memit", "alphaedit"}
    options = {"layers": (1, 2)} if several else {"layer": 2}
    inputs = EditInputs(
        covariance=given_covariance(), targets=np.random.default_rng(1).normal(size=(64, 1)), contexts=["So, well. {}"]
    )
    how: Any = {"editor": editor, "options": options, "inputs": inputs, "trace": True}
    with ke.edit(model, PROMPT, subject=SUBJECT, target=TARGET, **how) as edited:
        (batch,) = edited.trace.batches
        assert list(batch.layers) == ([1, 2] if several else [2])
        details: Any = edited.details[0]
        given = (details if "inputs" in details else details["edits"][edited.edits[0].edit.id])["inputs"]
        assert given.keys() == {"covariance", "targets", "contexts"}
        changed = model.module.get_parameter("model.layers.2.mlp.down_proj.weight").detach().clone()
    change = changed - model.module.get_parameter("model.layers.2.mlp.down_proj.weight")
    assert np.allclose(batch.layers[2].update, change.numpy(), atol=1e-5)
    assert not list(Path("cache").rglob("*.safetensors"))


def test_editors_without_a_trace_refuse_inputs(model: Model) -> None:
    for more in ({"inputs": EditInputs()}, {"trace": True}):
        how: Any = {"editor": "ft", "options": FEW_EPOCHS, **more}
        with (
            pytest.raises(BadConfig, match="ft uses no inputs and records no trace"),
            ke.edit(model, PROMPT, subject=SUBJECT, target=TARGET, **how),
        ):
            pass
    with (
        ke.edit(model, PROMPT, subject=SUBJECT, target=TARGET, editor="ft", options=FEW_EPOCHS) as edited,
        pytest.raises(EditFailed, match="no trace was recorded"),
    ):
        _ = edited.trace


def test_documented_example_saves_edits_as_text(model: Model, tmp_path: Path) -> None:
    path = Path(__file__).parents[1] / "docs/examples/python_api.py"
    names = runpy.run_path(str(path))
    with ke.edit(model, PROMPT, subject=SUBJECT, target=TARGET, editor="ice") as edited:
        assert names["ke_save_edit"](edited, "patch", tmp_path / "edits.txt", force=False)
        assert names["ke_save_edit"](edited, "adapter", tmp_path / "folder", force=False) is None
    assert (tmp_path / "edits.txt").read_text(encoding="utf-8") == "The capital of Peru is -> Cusco\n"
    run = ke.evaluate(model, editors=["none"], dataset="atlas", limit=1)
    (row,) = names["ke_compare_runs"](run.folders, installed_catalog())
    assert row["known"] is True
