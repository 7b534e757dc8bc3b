"""Which weights a training leaves wherever it ends, and that an editor loads them once and nothing else of it."""

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
def seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    """An epoch of these examples is one step: validate less often than on thousands."""
    made = PROFILES["small"]
    pre, judge = (evolve(each, validate=20) for each in (made.pre, made.judge))
    monkeypatch.setitem(PROFILES, "small", evolve(made, pre=pre, judge=judge))


def edit(root: Path, **options):
    session = make_session(ScriptedModel([]), root=root)
    with Pokemqa(PokemqaConfig(**options)).edit(session, [MOVE_TOWER]) as edited:
        return edited


# --- wherever it ends ---------------------------------------------------------------------------------------


def test_a_training_that_ends_between_validations_leaves_what_it_learned(kit, tmp_path: Path) -> None:
    """``ke train`` writes a checkpoint at the end, whether the time is over or Ctrl-C was pressed."""
    training = kit.after(7, tmp_path)
    kit.leave(tmp_path, training.tensors())
    assert not training.pre.best["offset"].any(), "it was validated before anything was learned, and not since"
    detector = edit(tmp_path).memory.detector
    assert np.array_equal(detector.offset, training.pre.module.offset.detach().numpy())
    texts = [kit.examples[0].edit.statement, kit.examples[1].paraphrases[0]]
    sides = [Side(texts=[text], vectors=WordEncoder().embed([text])) for text in texts]
    with torch.no_grad():
        logits = training.networks.logits(*([training.examples.texts.index(text)] for text in texts))
    assert detector.judge(*sides) == pytest.approx(logits.softmax(dim=1)[:, 0].numpy())


def test_of_the_last_weights_and_those_that_validated_best_the_better_are_kept(kit, tmp_path: Path) -> None:
    training = kit.begin(tmp_path)
    training._pre_merit = lambda: -abs(training.pre.step - 20)
    training._judge_merit = lambda: training.judge.step
    for _ in range(22):  # validated at steps 0 and 20, and where it ends
        training.advance()
    tensors = training.tensors()
    assert kept(tensors, "pre") == NetworkWeights(prefix="pre.best.", step=20, stopped=False)
    assert kept(tensors, "judge") == NetworkWeights(prefix="judge.now.", step=22, stopped=False)
    kit.leave(tmp_path, tensors)
    assert np.array_equal(edit(tmp_path).memory.detector.offset, training.pre.best["offset"].numpy())


def test_when_checkpoints_are_written_changes_nothing(kit, tmp_path: Path) -> None:
    through, looked_at = kit.begin(tmp_path), kit.begin(tmp_path)
    for _ in range(45):
        through.advance()
        looked_at.advance()
        looked_at.tensors()
    one, other = through.tensors(), looked_at.tensors()
    assert set(one) == set(other)
    assert all(np.array_equal(one[name], other[name]) for name in one)


def test_a_step_is_validated_once_and_what_stopped_is_not_validated_again(kit, tmp_path: Path) -> None:
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


def test_a_detector_that_has_learned_nothing_is_refused(kit, tmp_path: Path) -> None:
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


def test_the_minutes_advised_are_more_than_there_were(kit, tmp_path: Path) -> None:
    assert "--minutes 3" in trained_module.how_to_train(PokemqaConfig())
    assert "--minutes 9" in trained_module.how_to_train(PokemqaConfig(), 4.3)
    assert "--minutes 600 -o pokemqa.profile=published" in trained_module.how_to_train(
        PokemqaConfig(profile="published")
    )


def test_a_checkpoint_from_before_the_mark_is_taken_at_its_best(kit, tmp_path: Path) -> None:
    training = kit.after(25, tmp_path)
    older = {name: value for name, value in training.tensors().items() if not name.endswith(".kept")}
    kit.leave(tmp_path, older)
    assert np.array_equal(edit(tmp_path).memory.detector.offset, training.pre.best["offset"].numpy())
    assert kit.begin(tmp_path, saved=older).advance().step == 26


# --- loaded once --------------------------------------------------------------------------------------------


def test_groups_of_edits_share_one_detector_and_a_retrained_one_is_noticed(kit, tmp_path: Path, monkeypatch) -> None:
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


def test_of_a_training_only_what_an_editor_uses_stays_in_memory(kit, tmp_path: Path, monkeypatch) -> None:
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
