"""Training of the detector: losses, data, early stopping, resuming; loading the result."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from attrs import asdict, evolve

from ke_core.plugin import BadConfig, BadData, EditFailed
from ke_plugin_pokemqa import PokemqaConfig
from ke_plugin_pokemqa import training as training_module
from ke_plugin_pokemqa.editor import Pokemqa
from ke_plugin_pokemqa.examples import negatives, order, scope_examples
from ke_plugin_pokemqa.profiles import PROFILES
from ke_plugin_pokemqa.training import MIN_MISS, ScopeTrainer, judge_loss, merit, pre_detector_loss, scope
from ke_plugin_pokemqa.words import count_words
from ke_testing.examples import MOVE_TOWER, TEXT_ONLY
from ke_testing.fakes import EchoModel, ScriptedModel, WordEncoder, make_session
from ke_weights import read_checkpoint
from ke_weights.trainers import TrainingExample

# --- losses ------------------------------------------------------------------------------------------------


def test_p_is_one_half_at_squared_distance_ln_2() -> None:
    assert float(scope(torch.zeros(2), torch.tensor([math.sqrt(math.log(2)), 0.0]))) == pytest.approx(0.5)


def test_pre_detector_loss_equals_the_papers_formula() -> None:
    edit, positive = torch.tensor([[0.0]]), torch.tensor([[0.5]])
    far = torch.tensor([[[1.0], [2.0]]])
    expected = 0.25 - np.mean([math.log(1 - math.exp(-1)), math.log(1 - math.exp(-4))])
    assert float(pre_detector_loss(edit, positive, far)) == pytest.approx(expected, rel=1e-6)


def test_gradient_is_finite_if_a_negative_equals_the_edit() -> None:
    edit = torch.tensor([[0.3, 0.1]], requires_grad=True)
    same = torch.stack([edit[0], edit[0] + 1])[None]
    loss = pre_detector_loss(edit, edit.detach() + 0.2, same)
    loss.backward()
    assert float(loss.detach()) > -0.5 * math.log(MIN_MISS)
    assert torch.isfinite(edit.grad).all()


def test_disambiguator_losses() -> None:
    logits = torch.tensor([[2.0, -1.0], [0.5, 0.0]])
    assert float(judge_loss(logits, positives=1, kind="two-class")) == pytest.approx(
        (math.log(1 + math.exp(-3)) + math.log(1 + math.exp(0.5))) / 2, rel=1e-6
    )
    expected = np.mean([math.log(1 + math.exp(x)) for x in (-2.0, -1.0, 0.5, 0.0)])  # labels (1, 0) and (0, 1)
    assert float(judge_loss(logits, positives=1, kind="binary")) == pytest.approx(expected, rel=1e-6)


def test_merit_is_recall_plus_block_rate() -> None:
    assert merit(torch.tensor([0.9, 0.2, 0.6, 0.9]), torch.tensor([0.1, 0.4, 0.55, 0.95])) == 0.5 + 0.5


# --- data --------------------------------------------------------------------------------------------------


def test_records_that_share_a_question_stay_on_one_side_of_the_split(kit) -> None:
    linked = [
        evolve(kit.examples[0], edit=evolve(kit.examples[0].edit, id="x", statement="Ada Fox is located in Pisa")),
        evolve(kit.examples[5], paraphrases=(*kit.examples[5].paraphrases, *kit.examples[0].paraphrases[:1])),
    ]
    examples = scope_examples([*kit.examples, *linked], 0)
    count = len(kit.examples)
    assert examples.family[0] == examples.family[count] == examples.family[count + 1] == examples.family[5] == 0
    assert len(np.unique(examples.family)) == count - 1
    assert not set(examples.family[examples.train]) & set(examples.family[examples.valid])
    assert sorted([*examples.train, *examples.valid]) == list(range(count + 2))


def test_split_is_80_to_20_and_depends_on_the_seed(kit) -> None:
    one, same, other = (scope_examples(kit.examples, seed) for seed in (0, 0, 1))
    assert (len(one.train), len(one.valid)) == (19, 5)
    assert np.array_equal(one.train, same.train)
    assert not np.array_equal(one.train, other.train)


def test_negatives_are_of_other_families_in_the_batch() -> None:
    families = np.array([3, 3, 3, 7, 9])
    drawn = negatives(families, 200, np.random.default_rng(0))
    assert drawn.shape == (5, 200)
    assert (families[drawn] != families[:, None]).all()
    assert set(drawn[3].tolist()) == {0, 1, 2, 4}
    with pytest.raises(BadData, match="one fact"):
        negatives(np.array([1, 1]), 2, np.random.default_rng(0))


def test_every_epoch_has_every_pair_once_in_another_order() -> None:
    times = [order(10, epoch, seed=0, part=1).tolist() for epoch in range(3)]
    assert all(sorted(time) == list(range(10)) for time in times)
    assert times[0] != times[1]


def test_examples_without_questions_are_skipped_and_too_few_are_an_error(kit) -> None:
    assert len(scope_examples([*kit.examples, TrainingExample(edit=TEXT_ONLY)], 0).edits) == len(kit.examples)
    for few in ([], [TrainingExample(edit=TEXT_ONLY)], kit.examples[:1], [kit.examples[0]] * 9):
        with pytest.raises(BadData, match=f"of {len(few)} examples have questions"):
            scope_examples(few, 0)


def test_eight_facts_are_required(kit, tmp_path: Path) -> None:
    """A fifth of the facts validates, and the validation loss needs negatives, so two facts."""
    for few in (3, 7):
        with pytest.raises(BadData, match=f"about {few} facts: too few") as caught:
            kit.begin(tmp_path, examples=kit.examples[:few])
        assert "at least 8 edits that share no question" in caught.value.hint
    assert kit.begin(tmp_path, examples=kit.examples[:8]).advance().step == 1


def test_word_overlap_weights_rare_words() -> None:
    words = count_words(["the capital of Mali", "the king of Spain", "the sea", "of the sea"])
    (same, name, other) = words.overlap(["The capital of Mali is Oslo"] * 3, ["capital of Mali", "of Mali", "of Peru"])
    assert same[0] == name[0] == 1
    assert same[2] == 0
    assert other[0] < 0.5 < other[2]
    assert words.overlap([], []).shape == (0, 3)
    assert np.isfinite(words.overlap([""], ["?"])).all()


@pytest.fixture
def longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Validate less often: one epoch of these few examples is one step."""
    made = PROFILES["default"]
    schedule = evolve(made.judge, epochs=60, validate=20)
    monkeypatch.setitem(PROFILES, "default", evolve(made, pre=evolve(schedule, lr=made.pre.lr), judge=schedule))


# --- training ----------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("longer")
def test_training_lowers_both_losses_and_stops(kit, tmp_path: Path) -> None:
    training = kit.begin(tmp_path)
    steps = []
    while not training.finished():
        steps.append(training.advance())
    first, last = steps[0], steps[-1]
    assert last.numbers["pre"] < first.numbers["pre"] - 0.05
    assert last.numbers["judge"] < first.numbers["judge"] - 0.2
    assert last.loss == last.numbers["pre"] + last.numbers["judge"]
    assert [step.step for step in steps] == list(range(1, len(steps) + 1))
    assert len(steps) == 61
    assert max(step.numbers["judge_merit"] for step in steps) == training.judge.highest


@pytest.mark.parametrize("kept", [3, 12])
def test_resumed_training_is_bit_identical(kit, tmp_path: Path, kept: int) -> None:
    through = kit.begin(tmp_path)
    for _ in range(16):
        through.advance()
    parts = kit.begin(tmp_path)
    for _ in range(kept):
        parts.advance()
    folder = kit.leave(tmp_path, parts.tensors())
    parts.advance()  # a step that a kill would lose
    saved = read_checkpoint(folder)
    assert saved is not None
    resumed = kit.begin(tmp_path, saved=saved.tensors)
    assert [resumed.advance().step for _ in range(16 - kept)] == list(range(kept + 1, 17))
    one, other = through.tensors(), resumed.tensors()
    assert set(one) == set(other)
    assert all(np.array_equal(one[name], other[name]) for name in one)


def test_early_stopping_keeps_the_best_weights(kit, tmp_path: Path) -> None:
    training = kit.begin(tmp_path)
    learner, merits = training.pre, iter([1.0, 1.5, 1.2, 1.5, 1.4, 1.3, 1.1])
    training._pre_merit = lambda: next(merits)
    best = None
    for step in range(40):
        if step == 1:
            best = learner.module.offset.detach().clone()
        training.advance()
        if learner.stopped:
            break
    assert (learner.highest, learner.since_best, learner.step) == (1.5, 5, 6)
    assert torch.equal(learner.best["offset"], best)
    before = learner.module.offset.detach().clone()
    training.advance()
    assert torch.equal(learner.module.offset, before)
    assert not training.finished()


def test_non_finite_loss_raises(kit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    training = kit.begin(tmp_path)
    monkeypatch.setattr(training_module, "judge_loss", lambda logits, **_: logits.sum() * math.inf)
    with pytest.raises(EditFailed, match="not finite at step 1"):
        training.advance()


def test_texts_are_embedded_once(kit, tmp_path: Path) -> None:
    class CountingEncoder(WordEncoder):
        read = 0

        def embed(self, texts):
            self.read += len(texts)
            return super().embed(texts)

    encoder = CountingEncoder()
    for _ in range(2):
        kit.begin(tmp_path, encoder=encoder)
    distinct = {text for example in kit.examples for text in (example.edit.statement, *example.paraphrases)}
    assert encoder.read == len(distinct)


def test_paper_profile_has_the_published_numbers() -> None:
    made = asdict(PROFILES["paper"])
    assert made["pre"] == {"batch": 1024, "lr": 1e-5, "epochs": 1000, "validate": 20, "patience": 5}
    assert made["judge"] == {"batch": 256, "lr": 1e-5, "epochs": 500, "validate": 10, "patience": 10}
    assert {name: made[name] for name in ("encoder", "tune", "negatives", "hard", "loss", "confirm")} == {
        "encoder": "distilbert-base-cased", "tune": "all", "negatives": 20, "hard": 0, "loss": "binary",
        "confirm": False,
    }  # fmt: skip


def test_encoder_without_weights_cannot_be_fine_tuned(kit, tmp_path: Path) -> None:
    trainer = ScopeTrainer(PokemqaConfig(profile="paper", encoder="words"))
    with pytest.raises(BadConfig, match="fake:words-256 cannot be fine-tuned"):
        trainer.recipe(make_session(EchoModel(), root=tmp_path))


# --- the editor and its detector ---------------------------------------------------------------------------


def edit(root: Path, *, words=None, **options):
    session = make_session(ScriptedModel([]), root=root, encoder=words)
    with Pokemqa(PokemqaConfig(**options)).edit(session, [MOVE_TOWER]) as edited:
        return edited


@pytest.mark.usefixtures("longer")
def test_trained_detector_separates_edited_from_unedited(kit, tmp_path: Path) -> None:
    training = kit.begin(tmp_path)
    while not training.finished():
        training.advance()
    kit.leave(tmp_path, training.tensors())
    edited = edit(tmp_path)
    edited.change(add=[example.edit for example in kit.examples[:12]], remove=[MOVE_TOWER.id])
    asked = [example.paraphrases[0] for example in kit.examples]
    found = edited.memory.search(asked, k=1, hidden=[frozenset()] * len(asked))
    right = [
        bool(hits) == (row < 12) and all(hit.id == example.edit.id for hit in hits)
        for row, (example, hits) in enumerate(zip(kit.examples, found, strict=True))
    ]
    assert sum(right) >= 20
    assert edited.details["detector"]["trained"]["step"] == training.step


def test_missing_detector_error_has_the_training_command(tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match="pokemqa needs a trained scope detector") as caught:
        edit(tmp_path)
    assert len(str(caught.value).splitlines()) == 1
    assert "ke train pokemqa --data FILE --minutes 3, or use -o pokemqa.detector=nearest" in caught.value.hint
    with pytest.raises(BadConfig) as caught:
        edit(tmp_path, profile="paper", encoder="mine", checkpoint=str(tmp_path / "none"))
    assert "--minutes 600 -o pokemqa.profile=paper -o pokemqa.encoder=mine" in caught.value.hint
    with pytest.raises(BadConfig, match="needs a trained scope detector"):
        Pokemqa(PokemqaConfig()).check(make_session(EchoModel(), root=tmp_path), [])


def test_detector_of_another_encoder_or_editor_is_refused(kit, tmp_path: Path) -> None:
    tensors = kit.after(1, tmp_path).tensors()
    folder = kit.leave(tmp_path, tensors, folder=tmp_path / "mine")
    assert edit(tmp_path, checkpoint=str(folder)).details["facts"] == 1
    with pytest.raises(BadConfig, match=r"was trained with profile default and encoder fake:words-256.*fake:words-8"):
        edit(tmp_path, checkpoint=str(folder), words=WordEncoder(8))
    other = kit.leave(tmp_path, tensors, folder=tmp_path / "other", editor="mend")
    with pytest.raises(BadConfig, match="was trained for mend, not for pokemqa"):
        edit(tmp_path, checkpoint=str(other))


def test_damaged_checkpoint_is_an_error(kit, tmp_path: Path) -> None:
    folder = kit.leave(tmp_path, kit.begin(tmp_path).tensors(), folder=tmp_path / "mine")
    (folder / "checkpoint.safetensors").write_bytes(b"no")
    with pytest.raises(BadData, match="checkpoint"):
        edit(tmp_path, checkpoint=str(folder))


def test_threshold_of_the_nearest_neighbor_is_refused_with_the_trained_detector(tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match=r"pokemqa.threshold=0.3 has no effect with pokemqa.detector=trained"):
        edit(tmp_path, threshold=0.3)


def test_only_minilm_has_a_default_threshold(tmp_path: Path) -> None:
    assert edit(tmp_path, detector="nearest").details["detector"] == {"kind": "nearest", "threshold": 0.67}
    with pytest.raises(BadConfig, match="no threshold for the encoder mine"):
        edit(tmp_path, detector="nearest", encoder="mine")
    found = edit(tmp_path, detector="nearest", encoder="mine", threshold=0.3)
    assert found.details["detector"]["threshold"] == 0.3
