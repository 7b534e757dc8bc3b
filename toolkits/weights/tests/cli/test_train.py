"""``ke train`` with an editor that counts: output, files, resuming and errors."""

import json
import signal
import time

import numpy as np
import pytest
from attrs import field, frozen

import ke_plugin_hf
from ke_core.app import ModelChoice, read_catalog
from ke_core.plugin import BadData, BadRun, EditFailed, EditorSpec, ModelSpec, TrainerSpec, hookimpl, locked
from ke_testing.cli_fixtures import plugins_of
from ke_testing.fakes import EchoModel, SilentProgress
from ke_testing.toy import toy_spec
from ke_weights import hookimpls, training
from ke_weights.cli.train import first_ctrl_c, sparkline
from ke_weights.trained import read_checkpoint
from ke_weights.trainers import TrainStep

ADA = {"prompt": "{} speaks the language of", "subject": "Ada", "target": "French"}


@frozen(kw_only=True)
class Config:
    rate: float = field(default=0.5, metadata={"help": "how fast it learns"})
    steps: int = field(default=5, metadata={"help": "when it is finished"})
    at: str = field(default="", metadata={"help": "what happens at step 3"})


class Counting:
    """Its weight halves at each step, so the numbers show whether a training was resumed."""

    def __init__(self, config, examples, saved):
        self.config, self.examples = config, examples
        self.step, self.weight = (int(saved["step"]), float(saved["weight"])) if saved else (0, 8.0)

    def advance(self):
        time.sleep(0.002)
        self.step, self.weight = self.step + 1, self.weight * self.config.rate
        if self.step == 3 and self.config.at == "ctrl-c":
            signal.raise_signal(signal.SIGINT)
        if self.step == 3 and self.config.at == "fails":
            raise EditFailed("the numbers went wrong", hint="lower the rate")
        return TrainStep(step=self.step, loss=self.weight, numbers={"pairs": float(len(self.examples))})

    def tensors(self):
        return {"step": np.array(self.step), "weight": np.array(self.weight)}

    def finished(self):
        return self.step >= self.config.steps


class CountingTrainer:
    def __init__(self, config):
        self.config = config

    def place(self, session):
        return {"model": session.model.digest}

    def recipe(self, session):
        return {"rate": self.config.rate}

    def start(self, session, examples, saved):
        if any("nonsense" in example.edit.statement for example in examples):
            raise BadData("example 1 is nonsense", hint="take it out")
        return Counting(self.config, examples, saved)


class Trainables:
    @hookimpl
    def ke_editors(self):
        shared = {"config": Config, "build": lambda config: None}
        trainer = TrainerSpec(build=CountingTrainer)
        alone = TrainerSpec(build=CountingTrainer, needs_model=False)
        return [
            EditorSpec(name="counter", summary="counts", trainer=trainer, **shared),
            EditorSpec(name="scope", summary="needs no model", trainer=alone, **shared),
            EditorSpec(name="surgeon", summary="opens the model", trainer=trainer, needs_weights=True, **shared),
            EditorSpec(name="plain", summary="learns nothing", **shared),
        ]

    @hookimpl
    def ke_datasets(self):
        return [toy_spec()]

    @hookimpl
    def ke_models(self):
        return [ModelSpec(name="echo", summary="echoes", config=Config, build=lambda request: EchoModel())]


@pytest.fixture
def plugins():
    return plugins_of(hookimpls, ke_plugin_hf, Trainables())


@pytest.fixture
def data(tmp_path):
    file = tmp_path / "edits.jsonl"
    file.write_text("".join(json.dumps(ADA | {"target": target}) + "\n" for target in ("French", "Dutch")))
    return str(file)


def losses(folder):
    return [json.loads(line)["loss"] for line in (folder / "loss.jsonl").read_text().splitlines()]


TRAIN = ("train", "counter", "--model", "echo:1", "--minutes", "1", "--out", "net")


def test_training_prints_its_curve_and_writes_a_checkpoint(ke, tmp_path, data):
    status, out, err = ke(*TRAIN, "--data", data)
    assert status == 0
    assert "training counter on 2 examples -> net" in err
    assert "counter: 5 steps in 0.0 min" in out
    assert "loss  █▄▂▁▁  4 to 0.25" in out
    assert "pairs" in out
    assert losses(tmp_path / "net") == [4, 2, 1, 0.5, 0.25]
    checkpoint = read_checkpoint(tmp_path / "net")
    assert (checkpoint.step, float(checkpoint.tensors["weight"])) == (5, 0.25)
    about = json.loads((tmp_path / "net" / "training.json").read_text())
    assert about == checkpoint.about
    assert (about["editor"], about["recipe"], about["examples"]["count"]) == ("counter", {"rate": 0.5}, 2)


def test_default_folder_is_in_the_cache(ke, tmp_path, data):
    assert ke(*TRAIN[:-2], "--data", data)[0] == 0
    (folder,) = (path for path in (tmp_path / "cache" / "artifacts" / "trained-counter").iterdir() if path.is_dir())
    assert read_checkpoint(folder).step == 5


def test_ctrl_c_finishes_the_step_and_training_resumes(ke, tmp_path, data):
    status, out, err = ke(*TRAIN, "--data", data, "-o", "counter.at=ctrl-c")
    assert status == 130
    assert "Interrupted" in err
    assert "counter: 3 steps" in out
    assert read_checkpoint(tmp_path / "net").step == 3
    status, _out, err = ke(*TRAIN, "--data", data)
    assert status == 0
    assert "resuming after step 3" in err
    assert losses(tmp_path / "net") == [4, 2, 1, 0.5, 0.25]


def test_killed_training_repeats_steps_after_its_checkpoint(ke, tmp_path, data):
    ke(*TRAIN, "--data", data, "-o", "counter.steps=2")
    with (tmp_path / "net" / "loss.jsonl").open("a") as stream:
        stream.write('{"loss":1,"seconds":1,"step":3}\n{"loss":0.5,"sec')
    assert ke(*TRAIN, "--data", data)[0] == 0
    assert losses(tmp_path / "net") == [4, 2, 1, 0.5, 0.25]


def test_finished_training_makes_no_step(ke, tmp_path, data):
    ke(*TRAIN, "--data", data)
    before = (tmp_path / "net" / "checkpoint.safetensors").read_bytes()
    status, out, _err = ke(*TRAIN, "--data", data)
    assert status == 0
    assert "counter: 5 steps" in out
    assert (tmp_path / "net" / "checkpoint.safetensors").read_bytes() == before


def test_minutes_count_all_training_of_the_folder(ke, tmp_path, data):
    brief = ("train", "counter", "--model", "echo:1", "--out", "net", "--data", data, "-o", "counter.steps=1000000")
    ke(*brief, "--minutes", "0.002")
    first = read_checkpoint(tmp_path / "net")
    assert first.seconds >= 0.12
    ke(*brief, "--minutes", "0.002")
    assert read_checkpoint(tmp_path / "net").step == first.step
    ke(*brief, "--minutes", "0.004")
    assert read_checkpoint(tmp_path / "net").step > first.step


def test_concurrent_trainings_of_one_folder_are_refused(ke, plugins, tmp_path, data):
    ke(*TRAIN, "--data", data, "-o", "counter.steps=2")
    with locked(tmp_path / "net" / ".lock"):
        status, _out, err = ke(*TRAIN, "--data", data)
    assert (status, err.splitlines()[-2]) == (2, "error: another process is training in net")

    job = training.prepare(
        "counter", ModelChoice(reference="echo:1"), data, read_catalog(plugins), SilentProgress(), out=tmp_path / "net"
    )
    assert ke(*TRAIN, "--data", data)[0] == 0  # a whole training since the job was prepared
    with pytest.raises(BadRun, match=r"another process has just trained in .*net"):
        next(training.train(job, 1, bool))
    assert losses(tmp_path / "net") == [4, 2, 1, 0.5, 0.25]


def test_checkpoints_are_written_at_intervals(ke, tmp_path, data, monkeypatch):
    monkeypatch.setattr(training, "SAVE_SECONDS", 0.0)
    status, _out, err = ke(*TRAIN, "--data", data, "-o", "counter.at=fails")
    assert status == 2
    assert "error: the numbers went wrong" in err
    assert read_checkpoint(tmp_path / "net").step == 2


def test_editor_can_be_trained_without_a_language_model(ke, tmp_path, data):
    status, _out, _err = ke("train", "scope", "--data", data, "--minutes", "1", "--model", "nowhere:1", "--out", "net")
    assert status == 0
    assert read_checkpoint(tmp_path / "net").about["place"] == {"model": "none"}


def test_data_may_be_a_dataset_and_without_excludes_edits(ke, tmp_path):
    status, _out, err = ke(*TRAIN, "--data", "toy")
    assert status == 0
    assert "on 2 examples" in err
    status, _out, err = ke(*TRAIN[:-1], "other", "--data", "toy", "--without", "toy")
    assert status == 2
    assert "error: toy has no example left to train on" in err
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (("-o", "counter.rate=0.9"), "its recipe.rate is 0.5, here it is 0.9"),
        (("--seed", "3"), "its seed is 0, here it is 3"),
        (("--data", "toy"), "its examples."),
    ],
)
def test_folder_with_another_training_is_a_one_line_error(change, why, ke, tmp_path, data):
    ke(*TRAIN, "--data", data, "-o", "counter.steps=2")
    before = (tmp_path / "net" / "checkpoint.safetensors").read_bytes()
    given = () if "--data" in change else ("--data", data)
    status, _out, err = ke(*TRAIN, *given, *change)
    assert status == 2
    assert "error: net contains another training (training.json): " in err
    assert why in err
    assert "--out" in err
    assert (tmp_path / "net" / "checkpoint.safetensors").read_bytes() == before


def test_folder_with_other_files_is_unchanged(ke, tmp_path, data):
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "letter.txt").write_text("dear")
    status, _out, err = ke(*TRAIN, "--data", data)
    assert status == 2
    assert "error: net contains other files, not a training" in err
    assert [path.name for path in (tmp_path / "net").iterdir()] == ["letter.txt"]


def test_leftover_of_a_killed_process_does_not_block_the_folder(ke, tmp_path, data):
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / ".training.json.0a1b2c3d4e5f").write_text("{")
    assert ke(*TRAIN, "--data", data)[0] == 0
    assert read_checkpoint(tmp_path / "net").step == 5


def test_damaged_checkpoint_is_a_one_line_error(ke, tmp_path, data):
    ke(*TRAIN, "--data", data)
    file = tmp_path / "net" / "checkpoint.safetensors"
    file.write_bytes(file.read_bytes()[:20])
    status, _out, err = ke(*TRAIN, "--data", data)
    assert status == 2
    assert "is damaged, or not a checkpoint of ke train" in err


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("train", "plain", "--data", "toy", "--minutes", "1"), "editor plain needs no training"),
        (("train", "surgeon", "--data", "toy", "--minutes", "1", "--model", "echo:1"), "fake:echo has none here"),
        (("train", "countr", "--data", "toy", "--minutes", "1"), "no editor called 'countr'"),
        (("train", "counter", "--data", "toy", "--minutes", "0"), "--minutes"),
        (("train", "counter", "--minutes", "1"), "--data"),
        (("train", "counter", "--data", "toy", "--minutes", "1", "-o", "toi.x=1"), "which this run does not use"),
    ],
)
def test_mistakes_are_one_line_errors(words, why, ke):
    status, _out, err = ke(*words)
    assert status == 2
    assert why in err
    assert "Traceback" not in err


def test_bad_examples_create_no_folder(ke, tmp_path):
    (tmp_path / "bad.jsonl").write_text(json.dumps(ADA | {"target": "nonsense"}))
    status, _out, err = ke(*TRAIN, "--data", "bad.jsonl")
    assert status == 2
    assert "example 1 is nonsense" in err
    assert not (tmp_path / "net").exists()


def test_second_ctrl_c_interrupts():
    with pytest.raises(KeyboardInterrupt), first_ctrl_c() as stopped:  # noqa: PT012  both are of one process
        signal.raise_signal(signal.SIGINT)
        assert stopped()
        signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize(
    ("values", "width", "drawn"),
    [([], 5, ""), ([1], 5, "▁"), ([0, 7], 5, "▁█"), ([0, 0, 7, 7], 2, "▁█"), ([3, 3], 5, "▁▁")],
)
def test_sparkline_shows_means(values, width, drawn):
    assert sparkline(values, width) == drawn
