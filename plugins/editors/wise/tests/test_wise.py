"""Training, sharding and merging on tiny models, against the paper's equations written out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from attrs import evolve
from torch import Tensor
from torch.func import functional_call

from ke_core.plugin import BadConfig, Edit, EditFailed, Score
from ke_plugin_hf.testing import Family, tiny_model
from ke_plugin_wise import WiseConfig, training
from ke_plugin_wise.editor import Wise
from ke_plugin_wise.inputs import seed_of, unrelated
from ke_plugin_wise.objective import Margins, hinge, wise_loss
from ke_plugin_wise.training import TrainingSettings, masked_step, shard_mask
from ke_testing.editor import one_clear_line
from ke_testing.examples import MOVE_GATE, MOVE_TOWER
from ke_testing.fakes import make_session
from ke_weights.plugin import default_dtype, map_orientation, read_corpus, rewrite, target_ids
from ke_weights.testing.stateful import expect_room_for_chat_format, expect_saved_seed

SMALL = WiseConfig(
    module="down:2", steps=4, lr=2.0, alpha=1.0, beta=4.0, gamma=2.0, margin_weight=0.5, act_ratio=0.8, contexts=0
)
EDITS = (MOVE_TOWER, MOVE_GATE)
NAMES = {
    "llama": "model.layers.2.mlp.down_proj",
    "gpt2": "transformer.h.2.mlp.c_proj",
    "gptj": "transformer.h.2.mlp.fc_out",
}
ACTS = {"llama": torch.nn.functional.silu, "gpt2": lambda x: torch.nn.functional.gelu(x, approximate="tanh")}
ACTS["gptj"] = ACTS["gpt2"]
pytestmark = pytest.mark.usefixtures("one_thread")


class PlainWise:
    """Sections 2.3.1 and 2.3.2 with whole passes of the model, one row at a time; W' is a full matrix [out, in]."""

    def __init__(self, model: Any, family: str, config: WiseConfig, seed: int = 0) -> None:
        self.model, self.config, self.seed, self.name = model, config, seed, NAMES[family]
        self.act = ACTS[family]
        self.released = config.profile == "paper"
        self.layer = model.module.get_submodule(self.name)
        self.main = map_orientation(self.layer, self.layer.weight.detach()).clone()
        self.side, self.scores = self.main.clone(), []

    def row(self, ids: list[int], score: int, side: Tensor) -> tuple[Tensor, Tensor]:
        """Return the logits of a row that uses W', and its routing score over the first ``score`` tokens."""
        seen: list[Tensor] = []
        handle = self.layer.register_forward_hook(
            lambda _module, args, output: seen.append(args[0].reshape(len(ids), -1))
        )
        weights = {f"{self.name}.weight": map_orientation(self.layer, side)}
        no_bias = self.released and self.name.endswith("fc_out")
        if no_bias:
            weights[f"{self.name}.bias"] = torch.zeros_like(self.layer.bias)
        logits = functional_call(self.model.module, weights, (torch.tensor([ids]),)).logits[0]
        handle.remove()
        main, its = seen[0] @ self.main.T, seen[0] @ side.T
        bias = getattr(self.layer, "bias", None)
        if self.released:
            bias = torch.zeros(()) if bias is None else bias
            norms = (self.act(main + bias) - self.act(its + (0 if no_bias else bias))).norm(dim=-1)
        else:
            norms = (main - its).norm(dim=-1)
        return logits, norms[:score].mean()

    def loss(self, edit: Edit, number: int, side: Tensor) -> tuple[Tensor, Tensor]:
        """Return L and a_in for the bare prompt."""
        one, c = rewrite(edit), self.config
        prompt = self.model.encode(one.prompt)
        target = list(target_ids(self.model.tokenizer, one.prompt, one.target))
        ids = [*prompt, *target[:-1]]
        logits, inside = self.row(ids, len(ids) if self.released else len(prompt), side)
        at = [len(prompt) - 1 + j for j in range(len(target))]
        nll = -logits.log_softmax(-1)[at, target].sum() / (len(target) + (1 if self.released else 0))
        other = self.model.encode(unrelated(read_corpus().documents, seed_of(self.seed, "unrelated", number)))
        _logits, outside = self.row(other, len(other), side)
        margins = (outside - c.alpha, c.beta - inside, c.gamma - (inside - outside))
        return nll + 0.5 * sum(torch.relu(term) for term in margins), inside

    def learn(self, edit: Edit, number: int) -> None:
        """Equation 9, with weight decay."""
        c = self.config
        mask = shard_mask(
            self.main.shape, c.mask_ratio, seed_of(self.seed, "mask", number // c.save_freq), torch.device("cpu")
        )
        for _ in range(c.steps or 0):
            side = self.side.clone().requires_grad_()
            self.loss(edit, number, side)[0].backward()
            assert side.grad is not None
            if self.released:
                self.side = self.side - c.lr * (side.grad * mask + c.weight_decay * self.side)
            else:
                self.side = self.side - c.lr * mask * (side.grad + c.weight_decay * (self.side - self.main))
            self.side = torch.maximum(torch.minimum(self.side, self.main + c.clamp), self.main - c.clamp)
        self.scores.append(float(self.loss(edit, number, self.side)[1].detach()))


@pytest.mark.parametrize("profile", ["default", "paper"])
@pytest.mark.parametrize("family", ["llama", "gpt2", "gptj"])
@pytest.mark.parametrize(("dtype", "steps", "close"), [("float32", 1, 1e-5), ("float64", 4, 1e-9)])
def test_training_equals_the_plain_equations(
    family: Family, profile: Any, dtype: str, steps: int, close: float, tmp_path: Path
) -> None:
    """Steps of SGD amplify rounding, so several of them are compared in float64."""
    config = evolve(SMALL, profile=profile, steps=steps, weight_decay=1e-2, clamp=0.05)
    model = tiny_model(family, dtype=dtype)
    plain = PlainWise(model, family, config)
    for number, edit in enumerate(EDITS):
        plain.learn(edit, number)
    with Wise(config).edit(make_session(model, root=tmp_path), EDITS) as edited:
        (adaptor,) = model.adaptors
        difference, thresholds = adaptor.state["memory 0"], adaptor.state["thresholds"]
    assert float((difference - (plain.side - plain.main)).norm() / difference.norm()) < close
    assert float(difference.abs().max()) <= 0.05 * (1 + 1e-6)
    assert thresholds.tolist() == pytest.approx([0.8 * min(plain.scores)], rel=1e-5)
    assert edited.details["edits"][MOVE_GATE.id]["score"] == pytest.approx(plain.scores[1], rel=1e-5)


def test_left_contexts_are_rows_of_the_loss(tmp_path: Path) -> None:
    """The score of an edit is the mean over the bare prompt and ten sampled left contexts."""
    model = tiny_model()
    with Wise(evolve(SMALL, contexts=10)).edit(make_session(model, root=tmp_path), [MOVE_TOWER]) as edited:
        (adaptor,) = model.adaptors
        memory, texts = adaptor.state["memory 0"], edited.texts
    plain = PlainWise(model, "llama", SMALL)
    assert len(texts.templates) == 11
    side, scores = plain.main + memory, []
    for template in texts.templates:
        prompt = model.encode(template.replace("{}", "Eiffel Tower is located in"))
        scores.append(float(plain.row(prompt, len(prompt), side)[1]))
    assert edited.details["edits"][MOVE_TOWER.id]["score"] == pytest.approx(sum(scores) / 11, rel=1e-4)


def settings(**changes: Any) -> TrainingSettings:
    margins = Margins(alpha=1, beta=4, gamma=2, weight=1)
    usual = {"steps": 1, "lr": 0.5, "margins": margins, "weight_decay": 0.1, "clamp": 10.0}
    return TrainingSettings(**(usual | {"activation": "", "released": False} | changes))


def tensors(*seeds: int) -> list[Tensor]:
    return [torch.randn(4, 6, generator=torch.Generator().manual_seed(seed), dtype=torch.float32) for seed in seeds]


def test_entries_outside_the_mask_do_not_change() -> None:
    difference, gradient, base, noise = tensors(0, 1, 2, 3)
    mask = noise > 0
    after = masked_step(difference.clone(), gradient.clone(), base, mask, settings())
    assert torch.equal(after[~mask], difference[~mask])
    torch.testing.assert_close(after[mask], (difference - 0.5 * (gradient + 0.1 * difference))[mask])


def test_released_weight_decay_shrinks_all_entries() -> None:
    base, gradient = tensors(0, 1)
    difference, nowhere = torch.zeros_like(base), torch.zeros_like(base, dtype=torch.bool)
    for _ in range(70):
        difference = masked_step(
            difference, gradient.clone(), base, nowhere, settings(lr=1.0, weight_decay=1e-5, released=True)
        )
    torch.testing.assert_close(base + difference, base * (1 - 1e-5) ** 70, rtol=1e-6, atol=1e-7)


def test_no_entry_exceeds_the_clamp() -> None:
    difference, gradient, base = tensors(0, 1, 2)
    after = masked_step(difference, gradient * 100, base, torch.ones(4, 6, dtype=torch.bool), settings(clamp=0.3))
    assert float(after.abs().max()) == pytest.approx(0.3)


@pytest.mark.parametrize("released", [False, True])
def test_loss_equals_its_terms(*, released: bool) -> None:
    nll, inside = [2.0, 4.0], [3.0, 5.0]
    margins = Margins(alpha=0.5, beta=4.0, gamma=3.0, weight=0.5)
    found = wise_loss(
        torch.tensor(nll), torch.tensor(inside), torch.tensor([1.5]), margins, tokens=3, released=released
    )
    # a_out - alpha = 1; beta - a_in = 1, -1; gamma - (a_in - a_out) = 1.5, -0.5
    expected = 3.0 * 3 / 4 + 0.5 * (1 + 1 + 1.5) if released else 3.0 + 0.5 * (1 + 0.5 + 0.75)
    assert float(found) == pytest.approx(expected)


def test_margins_that_hold_add_nothing() -> None:
    assert float(hinge(torch.tensor([-1.0, -2.0]), violating=True)) == 0
    assert float(hinge(torch.tensor([-1.0, -2.0]), violating=False)) == 0


def test_masks_have_their_ratio_and_differ_between_shards() -> None:
    one, other = (shard_mask((200, 300), 0.2, seed, torch.device("cpu")) for seed in (1, 2))
    assert float(one.float().mean()) == pytest.approx(0.2, abs=0.01)
    assert float((one & other).float().mean()) == pytest.approx(0.04, abs=0.01)
    assert torch.equal(one, shard_mask((200, 300), 0.2, 1, torch.device("cpu")))


def test_mask_does_not_depend_on_the_default_dtype() -> None:
    one = shard_mask((20, 30), 0.2, 1, torch.device("cpu"))
    with default_dtype(torch.float64):
        assert torch.equal(one, shard_mask((20, 30), 0.2, 1, torch.device("cpu")))


def test_training_stops_when_the_loss_is_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "STOP_LOSS", 1e9)
    for change, steps in ((1e9, 2), (0.0, 4)):
        monkeypatch.setattr(training, "STOP_CHANGE", change)
        with Wise(SMALL).edit(make_session(tiny_model(), root=tmp_path), [MOVE_TOWER]) as edited:
            assert edited.details["edits"][MOVE_TOWER.id]["steps"] == steps


def test_new_object_becomes_more_probable(tmp_path: Path) -> None:
    model = tiny_model("llama")
    request = [Score(prompt="Eiffel Tower is located in", continuations=(" Rome", " Paris"))]
    before = model.score(request)[0].logprobs
    with Wise(evolve(SMALL, steps=30)).edit(make_session(model, root=tmp_path), [MOVE_TOWER]):
        after = model.score(request)[0].logprobs
    assert after[0] > before[0] + 1
    assert after[0] > after[1]


def test_non_finite_loss_is_one_clear_line(tmp_path: Path) -> None:
    model = tiny_model()
    editor = Wise(evolve(SMALL, lr=1e37, clamp=1e37))
    with (
        one_clear_line(model, EditFailed, f"{MOVE_TOWER.id}.*not finite"),
        editor.edit(make_session(model, root=tmp_path), EDITS),
    ):
        pass


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"save_freq": 3, "merge_freq": 4}, "merge_freq is no multiple of wise.save_freq .3.: 4"),
        ({"module": "down:1-2"}, "names several layers: 'down:1-2'"),
        ({"module": "down:9"}, "'down:9'"),
        ({"module": "mlp:1"}, "'mlp:1'"),
    ],
)
def test_options_that_do_not_fit_are_refused(changes: dict[str, Any], why: str, tmp_path: Path) -> None:
    model = tiny_model()
    editor, session = Wise(evolve(SMALL, **changes)), make_session(model, root=tmp_path)
    for refuse in (lambda: editor.check(session, ()), lambda: editor.edit(session, EDITS).__enter__()):
        with one_clear_line(model, BadConfig, why):
            refuse()


def test_a_request_must_fit_after_its_left_contexts(tmp_path: Path) -> None:
    model = tiny_model()
    session = make_session(model, root=tmp_path)
    assert MOVE_TOWER.cloze is not None
    taken = len(model.encode(rewrite(MOVE_TOWER).prompt)) + len(target_ids(model.tokenizer, "in", "Rome"))
    one = len(model.encode("a a a")) - len(model.encode("a a"))
    words = "a " * ((model.context - taken - 5) // one)
    long = evolve(MOVE_TOWER, cloze=evolve(MOVE_TOWER.cloze, template=f"{words}{{}} is located in"))
    assert list(Wise(SMALL).check(session, [long])) == []
    assert list(Wise(evolve(SMALL, contexts=10)).check(session, [long])) == [MOVE_TOWER.id]


def test_unknown_activation_function_is_refused_only_for_its_score(tmp_path: Path) -> None:
    model = tiny_model()
    model.module.config.hidden_act = "mish"
    session = make_session(model, root=tmp_path)
    Wise(SMALL).check(session, ())
    with one_clear_line(model, BadConfig, "activation function of this model: mish"):
        Wise(evolve(SMALL, score="activation")).check(session, ())


@pytest.mark.parametrize("contexts", [0, 10])
def test_prompt_that_only_fits_without_the_chat_format_is_refused(contexts: int, tmp_path: Path) -> None:
    expect_room_for_chat_format(Wise(evolve(SMALL, contexts=contexts)), tmp_path)


def test_loaded_model_continues_with_its_seed(tmp_path: Path) -> None:
    expect_saved_seed(Wise(evolve(SMALL, contexts=10)), tmp_path)
