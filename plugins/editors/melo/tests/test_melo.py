"""MELO on tiny models against a plain implementation: one row, one layer and one parameter at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from attrs import evolve
from torch import Tensor

from ke_core.plugin import BadConfig, BadData, Edit, EditFailed, Generate, UnsupportedChange, UnsupportedEdit
from ke_plugin_hf.testing import Family, tiny_model
from ke_plugin_melo import MeloConfig
from ke_plugin_melo import training as melo_training
from ke_plugin_melo.edited import MeloModel
from ke_plugin_melo.editor import Melo
from ke_plugin_melo.training import first_factors
from ke_testing.examples import MADRID, MOVE_GATE, MOVE_TOWER, ROME, TOWER, city_edit
from ke_testing.fakes import make_session
from ke_weights.plugin import prompt_lengths, rewrite, target_ids
from ke_weights.testing.inside import answer_loss, open_shift
from ke_weights.testing.stateful import chat_model, expect_room_for_chat_format, expect_saved_seed

NAMES = {
    "llama": [f"model.layers.{layer}.mlp.up_proj" for layer in (1, 2, 3)],
    "gpt2": [f"transformer.h.{layer}.mlp.c_fc" for layer in (1, 2, 3)],
}
CONFIG = MeloConfig(layer=1, layers=(2, 3), radius=1e-2, steps=5, lr=1e-3, stop_loss=0.0, blocks=18)
TO_MADRID = city_edit(TOWER, ROME, MADRID)


class PlainMelo:
    """LoRA blocks as lists of matrices, trained together on a batch with Adam written out."""

    def __init__(self, model: Any, names: Sequence[str], config: MeloConfig) -> None:
        self.model, self.config = model, config
        self.layers = [model.module.get_submodule(name) for name in names]
        self.scale = math.sqrt(config.rank * config.blocks / config.rank) ** 2

    def tokens(self, edit: Edit) -> tuple[list[int], list[int]]:
        made = rewrite(edit)
        return self.model.encode(made.prompt), list(target_ids(self.model.tokenizer, made.prompt, made.target))

    def logits(self, prompt: Sequence[int], answer: Sequence[int], factors: Sequence[Tensor]) -> Tensor:
        """Return the logits that predict the answer. ``factors``: A and B of the first layer, of the second one."""
        handles = []
        for at, layer in enumerate(self.layers):

            def hook(_module: Any, args: Any, output: Tensor, at: int = at) -> Tensor:
                down, up = factors[2 * at : 2 * at + 2]
                return output + self.scale * (args[0] @ down.T) @ up.T

            handles.append(layer.register_forward_hook(hook))
        ids = torch.tensor([[*prompt, *answer[:-1]]])
        found: Tensor = self.model.module(input_ids=ids).logits[0, len(prompt) - 1 :]
        for handle in handles:
            handle.remove()
        return found

    def train(self, edits: Sequence[Edit], start: Sequence[Tensor], halved: int) -> list[Tensor]:
        values = [one.clone() for one in start]
        first, second = ([torch.zeros_like(one) for one in start] for _ in range(2))
        for t in range(1, self.config.steps + 1):
            for one in values:
                one.requires_grad_()
            nll, count = torch.zeros(()), 0
            for prompt, answer in map(self.tokens, edits):
                logs = self.logits(prompt, answer, values).log_softmax(-1)
                nll = nll - sum(logs[at, token] for at, token in enumerate(answer))
                count += len(answer)
            gradients = torch.autograd.grad(nll / count, values)
            rate = (self.config.lr or 0) * 0.5 ** ((t - 1) // halved)
            for at, g in enumerate(gradients):
                first[at] = 0.9 * first[at] + 0.1 * g
                second[at] = 0.999 * second[at] + 0.001 * g**2
                step = (first[at] / (1 - 0.9**t)) / ((second[at] / (1 - 0.999**t)).sqrt() + 1e-8)
                values[at] = values[at].detach() - rate * step
        return values


@pytest.mark.parametrize(("dtype", "close"), [("float32", 1e-5), ("float64", 1e-9)])
@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_a_block_of_two_edits_equals_the_reference(
    family: Family, dtype: str, close: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(melo_training, "HALVED", 2)
    model, edits = tiny_model(family, dtype=dtype), [MOVE_TOWER, MOVE_GATE]
    plain = PlainMelo(tiny_model(family, dtype=dtype), NAMES[family][1:], CONFIG)
    with opened(model, tmp_path, edits) as edited:
        start = first_factors(edited.made.training, 0, 0)
        first = [one for name in NAMES[family][1:] for one in start[name]]
        factors = plain.train(edits, first, halved=2)
        (batch,) = edited.learned
        ours = [one for name in NAMES[family][1:] for one in batch.factors[name]]
        for one, other, before in zip(ours, factors, first, strict=True):
            assert float((one - other).norm() / (other - before).norm()) < close
        for edit in edits:
            prompt, answer = plain.tokens(edit)
            with prompt_lengths([len(prompt)]):
                found = model.module(input_ids=torch.tensor([[*prompt, *answer[:-1]]])).logits[0, len(prompt) - 1 :]
            expected_logits = plain.logits(prompt, answer, ours)
            assert float((found - expected_logits).norm() / expected_logits.norm()) < close
            losses = edited.details["edits"][edit.id]
            expected = -found.log_softmax(-1)[range(len(answer)), answer].mean()
            assert losses["loss_after"] == pytest.approx(float(expected), rel=close)
            assert losses["loss_after"] < losses["loss_before"]
            assert losses["block"] == 0


def opened(model: Any, root: Path, edits: Sequence[Edit], config: MeloConfig = CONFIG) -> Any:
    return Melo(config).edit(make_session(model, root=root), edits)


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_rows_without_a_block_are_bit_identical_to_the_base(family: Family, tmp_path: Path) -> None:
    """In the same batch as a row with a block, and alone."""
    model = tiny_model(family)
    ids = [model.encode(text) for text in (rewrite(MOVE_TOWER).prompt, "Who is the head of")]
    width = max(map(len, ids))
    rows = torch.tensor([[0] * (width - len(row)) + row for row in ids])
    mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in ids])

    def logits(ids: Tensor, mask: Tensor) -> Tensor:
        found: Tensor = model.module(input_ids=ids, attention_mask=mask).logits
        return found

    base, alone = logits(rows, mask), logits(rows[1:], mask[1:])
    with opened(model, tmp_path, [MOVE_TOWER]):
        edited = logits(rows, mask)
        assert torch.equal(edited[1], base[1])
        assert torch.equal(logits(rows[1:], mask[1:]), alone)
        assert not torch.allclose(edited[0], base[0])


def test_a_row_keeps_its_block_while_it_is_decoded(tmp_path: Path) -> None:
    """Cached decoding generates the tokens of whole passes, in which the router reads the prompt each time."""
    model = tiny_model()
    prompt = rewrite(MOVE_TOWER).prompt
    with opened(model, tmp_path, [MOVE_TOWER]):
        texts = [one.text for one in model.generate([Generate(prompt=text, max_tokens=6) for text in (prompt, "Who")])]
        ids = model.encode(prompt)
        length = len(ids)
        for _ in range(6):
            with prompt_lengths([length]):
                logits = model.module(input_ids=torch.tensor([ids]), use_cache=False).logits
            ids.append(int(logits[0, -1].argmax()))
    assert texts[0] == model.decode(ids[length:])
    assert texts[1] == tiny_model().generate([Generate(prompt="Who", max_tokens=6)])[0].text


def test_training_inside_another_adaptor_sees_prompt_and_answer(tmp_path: Path) -> None:
    model = tiny_model("llama")
    with open_shift(model, "model.layers.2.mlp.down_proj", 64), opened(model, tmp_path, [MOVE_TOWER]) as edited:
        losses = edited.details["edits"][MOVE_TOWER.id]
        assert losses["loss_after"] == pytest.approx(answer_loss(model, MOVE_TOWER), abs=1e-5)


def test_edits_of_a_batch_share_a_block(tmp_path: Path) -> None:
    places = [city_edit(TOWER, ROME, MADRID), MOVE_GATE]
    with opened(tiny_model(), tmp_path, [MOVE_TOWER, MOVE_GATE], evolve(CONFIG, batch=1)) as edited:
        assert [edited.details["edits"][edit.id]["block"] for edit in (MOVE_TOWER, MOVE_GATE)] == [0, 1]
        edited.change(add=[places[0]])
        assert edited.details["blocks"] == 3
        assert edited.details["edits"][places[0].id]["placement"] == "replaced"
    with opened(tiny_model(), tmp_path, [MOVE_TOWER, MOVE_GATE]) as edited:
        assert {one["block"] for one in edited.details["edits"].values()} == {0}


@pytest.mark.parametrize(("dtype", "rounding"), [("float32", 8 * 2**-23), ("bfloat16", 8 * 2**-7)])
def test_rounding_of_distances_is_that_of_the_model(dtype: str, rounding: float, tmp_path: Path) -> None:
    model = tiny_model(dtype=dtype)
    assert Melo(CONFIG).resolve(make_session(model, root=tmp_path)).rules.rounding == rounding


def test_contradicting_edits_of_different_blocks_are_refused(tmp_path: Path) -> None:
    with opened(tiny_model(), tmp_path, [MOVE_GATE], evolve(CONFIG, batch=1)) as edited:
        with pytest.raises(UnsupportedEdit, match="contradicts"):
            edited.change(add=[MOVE_TOWER, TO_MADRID])
        assert edited.details["blocks"] == 1


def test_more_blocks_than_the_maximum_are_an_error_and_change_nothing(tmp_path: Path) -> None:
    model = tiny_model()
    with opened(model, tmp_path, [MOVE_TOWER], evolve(CONFIG, blocks=1)) as edited:
        before = model.digest
        with pytest.raises(EditFailed, match="needs 2 LoRA blocks for its edits so far, and has at most 1"):
            edited.change(add=[MOVE_GATE])
        assert model.digest == before
        edited.change(add=[TO_MADRID], remove=[MOVE_TOWER.id])
        assert [*edited.details["edits"]] == [TO_MADRID.id]


def test_removed_edit_is_undone_and_later_ones_are_learned_again(tmp_path: Path) -> None:
    config, digests = evolve(CONFIG, radius=1e3), []
    for edits in ([MOVE_TOWER], [MOVE_GATE]):
        model = tiny_model()
        with opened(model, tmp_path, edits, config):
            digests.append(model.digest)
    tower, gate = digests
    model = tiny_model()
    with opened(model, tmp_path, [MOVE_TOWER], config) as edited:
        edited.change(add=[MOVE_GATE])
        both = model.digest
        assert edited.details["edits"][MOVE_GATE.id]["placement"] == "split"
        edited.save(tmp_path / "state")
        edited.change(remove=[MOVE_GATE.id])
        assert model.digest == tower
        with pytest.raises(UnsupportedChange, match="there is no edit"):
            edited.change(remove=["unknown"])
    fresh = tiny_model()
    with Melo(config).load(make_session(fresh, root=tmp_path), tmp_path / "state") as loaded:
        assert isinstance(loaded, MeloModel)
        assert fresh.digest == both
        loaded.change(remove=[MOVE_TOWER.id])
        assert fresh.digest == gate
        loaded.change(remove=[MOVE_GATE.id])
        assert (fresh.digest, fresh.adaptors) == (tiny_model().digest, ())
        loaded.save(tmp_path / "empty")
    with Melo(config).load(make_session(fresh, root=tmp_path), tmp_path / "empty"):
        assert fresh.adaptors == ()


def test_two_edited_models_do_not_interfere(tmp_path: Path) -> None:
    """The released code has one block map for all models of a process."""
    one, two = tiny_model("llama"), tiny_model("gpt2")
    asked = [Generate(prompt=rewrite(MOVE_TOWER).prompt, max_tokens=6)]
    with opened(one, tmp_path, [MOVE_TOWER]):
        text = one.generate(asked)[0].text
        base = two.generate(asked)[0].text
        with opened(two, tmp_path, [MOVE_GATE]):
            assert two.generate(asked)[0].text == base
            assert one.generate(asked)[0].text == text


def test_blocks_are_loaded_onto_the_devices_of_their_layers(tmp_path: Path) -> None:
    """In a model on several devices, each layer may be on another one: here, the second layer is on ``meta``."""
    model, path = tiny_model("llama"), tmp_path / "state"
    one, other = NAMES["llama"][1:]
    layer = model.module.get_submodule(other)
    with opened(model, tmp_path, [MOVE_TOWER, MOVE_GATE], evolve(CONFIG, batch=1)) as edited:
        edited.save(path)
        weight = layer.weight
        layer.weight = torch.nn.Parameter(weight.to("meta"))
        edited.restore(path)
        layer.weight = weight
        for batch in edited.learned:
            devices = {name: {factor.device.type for factor in pair} for name, pair in batch.factors.items()}
            assert devices == {one: {"cpu"}, other: {"meta"}}
            assert batch.queries.device.type == "cpu"
        edited.restore(path)


def test_file_of_another_rank_is_rejected(tmp_path: Path) -> None:
    model, path = tiny_model(), tmp_path / "state"
    with opened(model, tmp_path, [MOVE_TOWER]) as edited:
        edited.save(path)
    for config in (evolve(CONFIG, rank=3), evolve(CONFIG, layers=(3,)), evolve(CONFIG, part="down")):
        with (
            pytest.raises(BadData, match="for other layers, or of other sizes"),
            Melo(config).load(make_session(model, root=tmp_path), path),
        ):
            pass


@pytest.mark.parametrize(("layer", "layers"), [(2, (2, 3)), (3, None), (3, (1,))])
def test_blocks_before_the_router_are_an_error(layer: int, layers: Any, tmp_path: Path) -> None:
    editor = Melo(evolve(CONFIG, layer=layer, layers=layers))
    with pytest.raises(BadConfig, match=rf"the router of melo is in layer {layer}, and its LoRA blocks are in "):
        editor.check(make_session(tiny_model(), root=tmp_path), [])


def test_loss_that_is_not_finite_changes_nothing(tmp_path: Path) -> None:
    model = tiny_model()
    with opened(model, tmp_path, [MOVE_TOWER]) as edited:
        before, edited.made = model.digest, evolve(edited.made, training=evolve(edited.made.training, lr=math.inf))
        with pytest.raises(EditFailed, match=MOVE_GATE.id):
            edited.change(add=[MOVE_GATE])
        assert model.digest == before
        assert [*edited.details["edits"]] == [MOVE_TOWER.id]


def test_prompt_that_only_fits_without_the_chat_format_is_refused(tmp_path: Path) -> None:
    expect_room_for_chat_format(Melo(CONFIG), tmp_path)


def test_loaded_model_continues_with_its_seed(tmp_path: Path) -> None:
    expect_saved_seed(Melo(CONFIG), tmp_path)


def test_target_of_a_chat_model_is_the_answer_that_it_writes(tmp_path: Path) -> None:
    chat = chat_model()
    with Melo(CONFIG).edit(make_session(chat, root=tmp_path), [MOVE_TOWER]) as edited:
        assert isinstance(edited, MeloModel)
        [(label,)] = [made.labels for made in edited.learned]
    assert list(label) == chat.tokenizer(MOVE_TOWER.target, add_special_tokens=False)["input_ids"]
