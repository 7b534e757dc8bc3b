"""The weights that a checkpoint keeps, and loading of the detector."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

import numpy as np
import pytest
import torch
from attrs import evolve

from ke_core.plugin import BadConfig
from ke_plugin_pokemqa import PokemqaConfig
from ke_plugin_pokemqa import trained as trained_module
from ke_plugin_pokemqa.editor import Pokemqa
from ke_plugin_pokemqa.learner import NetworkWeights, kept
from ke_plugin_pokemqa.profiles import PROFILES
from ke_plugin_pokemqa.scope import Side
from ke_testing.examples import MOVE_GATE, MOVE_TOWER
from ke_testing.fakes import EchoModel, ScriptedModel, WordEncoder, make_session
from ke_weights import read_checkpoint


@pytest.fixture(autouse=True)
def _rare_validation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Validate less often: one epoch of these few examples is one step."""
    made = PROFILES["default"]
    pre, judge = (evolve(each, validate=20) for each in (made.pre, made.judge))
    monkeypatch.setitem(PROFILES, "default", evolve(made, pre=pre, judge=judge))


def edit(root: Path, **options):
    session = make_session(ScriptedModel([]), root=root)
    with Pokemqa(PokemqaConfig(**options)).edit(session, [MOVE_TOWER]) as edited:
        return edited


def test_checkpoint_between_validations_keeps_the_last_weights(kit, tmp_path: Path) -> None:
    """``ke train`` writes a checkpoint when the time is over or it is interrupted."""
    training = kit.after(7, tmp_path)
    kit.leave(tmp_path, training.tensors())
    assert not training.pre.best["offset"].any(), "validated only before the first step"
    detector = edit(tmp_path).memory.detector
    assert np.array_equal(detector.offset, training.pre.module.offset.detach().numpy())
    texts = [kit.examples[0].edit.statement, kit.examples[1].paraphrases[0]]
    sides = [Side(texts=[text], vectors=WordEncoder().embed([text])) for text in texts]
    with torch.no_grad():
        logits = training.networks.logits(*([training.examples.texts.index(text)] for text in texts))
    assert detector.judge(*sides) == pytest.approx(logits.softmax(dim=1)[:, 0].numpy())


def test_better_of_last_and_best_weights_is_kept(kit, tmp_path: Path) -> None:
    training = kit.begin(tmp_path)
    training._pre_merit = lambda: -abs(training.pre.step - 20)
    training._judge_merit = lambda: training.judge.step
    for _ in range(22):  # validated at steps 0, 20 and 22
        training.advance()
    tensors = training.tensors()
    assert kept(tensors, "pre") == NetworkWeights(prefix="pre.best.", step=20, stopped=False)
    assert kept(tensors, "judge") == NetworkWeights(prefix="judge.now.", step=22, stopped=False)
    kit.leave(tmp_path, tensors)
    assert np.array_equal(edit(tmp_path).memory.detector.offset, training.pre.best["offset"].numpy())


def test_checkpoints_do_not_change_the_training(kit, tmp_path: Path) -> None:
    through, looked_at = kit.begin(tmp_path), kit.begin(tmp_path)
    for _ in range(45):
        through.advance()
        looked_at.advance()
        looked_at.tensors()
    one, other = through.tensors(), looked_at.tensors()
    assert set(one) == set(other)
    assert all(np.array_equal(one[name], other[name]) for name in one)


def test_each_step_is_validated_at_most_once(kit, tmp_path: Path) -> None:
    training = kit.after(3, tmp_path)
    asked = []
    merit = training._judge_merit
    training._judge_merit = lambda: asked.append(training.step) or merit()
    one, other = training.tensors(), training.tensors()
    kit.begin(tmp_path, saved=one).tensors()
    assert asked == [3]
    assert np.array_equal(one["judge.kept"], other["judge.kept"])
    training.judge.stopped = True
    training.advance()
    training.tensors()
    assert asked == [3]


def test_detector_without_improvement_is_refused(kit, tmp_path: Path) -> None:
    training = kit.begin(tmp_path)
    folder = kit.leave(tmp_path, training.tensors())
    with pytest.raises(BadConfig, match=r"not better than before its training \(0 steps in 0\.1 minutes\)") as caught:
        edit(tmp_path)
    assert len(str(caught.value).splitlines()) == 1
    assert caught.value.hint == "train it longer with ke train pokemqa --data FILE --minutes 3"
    training._judge_merit = lambda: 0.0
    for _ in range(30):
        training.advance()
    kit.leave(tmp_path, training.tensors(), folder=folder)
    with pytest.raises(BadConfig, match=r"not better than before its training \(30 steps"):
        edit(tmp_path)
    training.judge.stopped = True
    kit.leave(tmp_path, training.tensors(), folder=folder)
    with pytest.raises(BadConfig, match="not better than before") as caught:
        edit(tmp_path, checkpoint=str(folder))
    assert "has finished; train another on more edits" in caught.value.hint


def test_recommended_minutes_exceed_the_training_so_far(kit, tmp_path: Path) -> None:
    assert "--minutes 3" in trained_module.how_to_train(PokemqaConfig())
    assert "--minutes 9" in trained_module.how_to_train(PokemqaConfig(), 4.3)
    assert "--minutes 600 -o pokemqa.profile=paper" in trained_module.how_to_train(PokemqaConfig(profile="paper"))


def test_groups_of_edits_share_one_detector_until_it_is_retrained(kit, tmp_path: Path, monkeypatch) -> None:
    read = []
    real = trained_module.read_checkpoint
    monkeypatch.setattr(trained_module, "read_checkpoint", lambda folder: read.append(folder) or real(folder))
    training = kit.after(3, tmp_path)
    kit.leave(tmp_path, training.tensors())
    editor, session = Pokemqa(PokemqaConfig()), make_session(EchoModel(), root=tmp_path)
    editor.check(session, ())
    with editor.edit(session, [MOVE_TOWER]) as one, editor.edit(session, [MOVE_GATE]) as two:
        assert one.memory.detector is two.memory.detector
        assert [text for _id, text in one.memory.facts] == [MOVE_TOWER.statement]
        assert len(read) == 1
    training.advance()
    kit.leave(tmp_path, training.tensors())
    with editor.edit(session, [MOVE_TOWER]) as three:
        assert three.details["detector"]["trained"]["step"] == 4
        assert np.array_equal(three.memory.detector.offset, training.pre.module.offset.detach().numpy())
    other = evolve(session, encoder=lambda _name: WordEncoder(8))
    with pytest.raises(BadConfig, match="needs a trained scope detector"):
        editor.edit(other, [MOVE_TOWER])
    assert len(read) == 3


def test_only_the_arrays_of_the_editor_stay_in_memory(kit, tmp_path: Path, monkeypatch) -> None:
    read = {}

    def reading(folder):
        found = read_checkpoint(folder)
        read.update((name, weakref.ref(array)) for name, array in found.tensors.items())
        return found

    monkeypatch.setattr(trained_module, "read_checkpoint", reading)
    kit.leave(tmp_path, kit.after(3, tmp_path).tensors())
    edited = edit(tmp_path)
    gc.collect()
    assert [name for name, array in read.items() if array() is not None] == ["pre.now.offset", "words.counts"]
    assert edited.details["detector"]["trained"]["step"] == 3
