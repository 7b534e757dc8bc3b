"""GRACE on tiny models against a plain implementation: one entry, one row and one position at a time."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from attrs import evolve
from torch import Tensor
from transformers import AutoModelForCausalLM

from ke_core.plugin import BadData, Edit, EditFailed, UnsupportedChange
from ke_plugin_grace import GraceConfig
from ke_plugin_grace.codebook import Codebook, PlacementRules, place
from ke_plugin_grace.editor import Grace, GraceModel, tokens_of
from ke_plugin_grace.layer import FUNCTIONS, key_and_output, matched
from ke_plugin_grace.training import cold_value
from ke_plugin_hf.model import HFModel
from ke_plugin_hf.testing import Family, randomize, tiny_config, tiny_model, tiny_tokenizer
from ke_testing.examples import MADRID, MOVE_GATE, MOVE_TOWER, ROME, TOWER, city_edit
from ke_testing.fakes import make_session
from ke_weights.plugin import LayerCall, padded, prompt_lengths, rewrite
from ke_weights.testing.inside import answer_loss, open_shift
from ke_weights.testing.stateful import expect_room_for_chat_format, expect_saved_seed

NAMES = {"llama": "model.layers.1.mlp.down_proj", "gpt2": "transformer.h.1.mlp.c_proj"}
CONFIG = GraceConfig(layer=1, eps=1e-3, steps=4, lr=0.1)
RULES = PlacementRules(eps=1.0, moving=False, published=False)
TO_MADRID = city_edit(TOWER, ROME, MADRID)


class PlainGrace:
    """Algorithm 1 of the paper for edits whose keys are farther than two radii from one another."""

    def __init__(self, model: Any, name: str, config: GraceConfig) -> None:
        self.model, self.config, self.place = model, config, model.module.get_submodule(name)
        self.keys: list[Tensor] = []
        self.values: list[Tensor] = []

    def tokens(self, edit: Edit) -> tuple[list[int], list[int]]:
        made = tokens_of(self.model, rewrite(edit))
        return list(made.prompt), list(made.target)

    def key(self, prompt: Sequence[int]) -> Tensor:
        """Return the layer's input at the last token of the prompt."""
        seen: list[Tensor] = []
        handle = self.place.register_forward_pre_hook(lambda _module, args: seen.append(args[0]))
        self.model.module(input_ids=torch.tensor([prompt]))
        handle.remove()
        return seen[0][0, -1].clone()

    def logits(self, prompt: Sequence[int], answer: Sequence[int], values: Sequence[Tensor]) -> Tensor:
        """Return the logits that predict the answer."""
        at = len(prompt) - 1

        def hook(_module: Any, args: Any, output: Tensor) -> Tensor:
            lengths = [math.sqrt(float(((args[0][0, at] - key) ** 2).sum())) for key in self.keys]
            near = lengths.index(min(lengths))
            if lengths[near] > self.config.eps:
                return output
            rows = [values[near] if t == at else output[0, t] for t in range(output.shape[1])]
            return torch.stack(rows)[None]

        handle = self.place.register_forward_hook(hook)
        found = self.model.module(input_ids=torch.tensor([[*prompt, *answer[:-1]]])).logits[0, at:]
        handle.remove()
        return found

    def learn(self, edit: Edit, start: Tensor) -> None:
        """Add an entry, and train its value with Adam written out."""
        prompt, answer = self.tokens(edit)
        self.keys.append(self.key(prompt))
        value, m, v = start.clone(), torch.zeros_like(start), torch.zeros_like(start)
        for t in range(1, self.config.steps + 1):
            value.requires_grad_()
            logs = self.logits(prompt, answer, [*self.values, value]).log_softmax(-1)
            loss = -sum(logs[i, token] for i, token in enumerate(answer)) / len(answer)
            (g,) = torch.autograd.grad(loss, value)
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
            value = value.detach() - self.config.lr * (m / (1 - 0.9**t)) / ((v / (1 - 0.999**t)).sqrt() + 1e-8)
        self.values.append(value)


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_two_edits_equal_the_reference(family: Family, tmp_path: Path) -> None:
    plain, model = PlainGrace(tiny_model(family), NAMES[family], CONFIG), tiny_model(family)
    with Grace(CONFIG).edit(make_session(model, root=tmp_path), [MOVE_TOWER]) as edited:
        assert isinstance(edited, GraceModel)
        edited.change(add=[MOVE_GATE])
        book = edited.codebook
        assert book is not None
        for at, edit in enumerate((MOVE_TOWER, MOVE_GATE)):
            tokens = tokens_of(model, rewrite(edit))
            start = cold_value(book.values.shape[1], 0, tokens, torch.device("cpu"))
            plain.learn(edit, start)
            torch.testing.assert_close(book.keys[at], plain.keys[at], rtol=0, atol=1e-5)
            torch.testing.assert_close(book.values[at], plain.values[at], rtol=0, atol=1e-5)
        assert book.radii.tolist() == pytest.approx([1e-3, 1e-3])
        prompt, answer = plain.tokens(MOVE_GATE)
        with prompt_lengths([len(prompt)]):
            ours = model.module(input_ids=torch.tensor([[*prompt, *answer[:-1]]])).logits[0, len(prompt) - 1 :]
        torch.testing.assert_close(ours, plain.logits(prompt, answer, plain.values), rtol=0, atol=1e-5)
        losses = edited.details["edits"][MOVE_GATE.id]
        assert losses["loss_after"] < losses["loss_before"]


def entry(*key: float, target: Sequence[int] = (7,), value: float = 0.5) -> Codebook:
    return Codebook.entry(torch.tensor(key, dtype=torch.float32), torch.full((3,), value), 1.0, target)


def test_far_query_gets_a_new_entry() -> None:
    first = place(None, entry(0, 0), (7,), RULES)
    assert (first.entry, first.placement, first.codebook.radii.tolist()) == (0, "added", [1.0])
    placed = place(first.codebook, entry(0, 2.1, target=(7, 8)), (7, 8), RULES)
    assert (placed.entry, placed.placement, placed.changed) == (1, "added", None)
    assert placed.codebook.radii.tolist() == [1.0, 1.0]
    assert placed.codebook.labels.tolist() == [[7, -1], [7, 8]]


@pytest.mark.parametrize("published", [False, True])
@pytest.mark.parametrize("m", [0.5, 1.9])
def test_same_target_expands_the_entry(m: float, *, published: bool) -> None:
    rules = evolve(RULES, published=published)
    placed = place(entry(0, 0), entry(0, m), (7,), rules)
    assert (placed.entry, placed.placement, len(placed.codebook)) == (0, "expanded", 1)
    radius = 1.0 if m < 1 else m if published else 1.01 * m
    assert placed.codebook.radii.tolist() == pytest.approx([radius])
    moved = place(entry(0, 0), entry(0, m), (7,), evolve(rules, moving=True)).codebook
    assert moved.keys.tolist()[0] == pytest.approx([0, 0 if m < 1 else m / 2])


@pytest.mark.parametrize("m", [0.99, 1.2])
def test_expanded_radius_leaves_room_for_rounding(m: float) -> None:
    """The query has the norm 5 + m. Far below 1% of the distance, the rounding changes nothing."""
    book = entry(0, 5.0)
    radii = {
        rounding: place(book, entry(0, 5 + m), (7,), evolve(RULES, rounding=rounding)).codebook.radii.tolist()
        for rounding in (0.0, 8 * 2**-23, 8 * 2**-7)
    }
    assert radii[0.0] == radii[8 * 2**-23] == pytest.approx([1.0 if m < 1 else 1.01 * m])
    assert radii[8 * 2**-7] == pytest.approx([m + (5 + m) / 16])
    paper = evolve(RULES, published=True, rounding=8 * 2**-7)
    assert place(book, entry(0, 5 + m), (7,), paper).codebook.radii.tolist() == pytest.approx([max(1.0, m)])


def test_every_edit_of_an_entry_is_found_in_a_batch_in_bfloat16(tmp_path: Path) -> None:
    """After 20 blocks, the key of a prompt in a padded batch differs by several percent from its key alone."""
    config = tiny_config("llama")
    config.num_hidden_layers = 21
    module = AutoModelForCausalLM.from_config(config)
    randomize(module, 0)
    model = HFModel.from_parts(module.to(torch.bfloat16), tiny_tokenizer(bos=True), id="deep")
    name = "model.layers.20.mlp.down_proj"
    places = ("Eiffel Tower", "Brandenburg Gate", "Colosseum", "Prado", "Big Ben", "Kremlin", "Louvre", "Hermitage")
    prompts = [model.encode(f"{place} is located in") for place in places]
    keys = [key_and_output(module, name, prompt, model.device)[0] for prompt in prompts]
    seen: list[Tensor] = []
    handle = module.get_submodule(name).register_forward_pre_hook(lambda _m, args: seen.append(args[0][:, -1]))
    ids, mask = (torch.flip(one, [1]) for one in padded([prompt[::-1] for prompt in prompts], model.device))
    module(input_ids=ids, attention_mask=mask)
    handle.remove()
    found = Grace(evolve(CONFIG, layer=20, eps=100.0)).resolve(make_session(model, root=tmp_path)).rules
    missed = {0.0: 0, found.rounding: 0}
    for rounding in missed:
        for one, (at, other) in itertools.product(keys, enumerate(keys)):
            fresh = (Codebook.entry(key, torch.zeros(1), 0.1, (7,)) for key in (one, other))
            book = place(*fresh, (7,), evolve(found, rounding=rounding)).codebook
            missed[rounding] += one is not other and int(matched(seen[0][at : at + 1], book.state)) != 0
    assert missed[0.0] > 0
    assert missed[found.rounding] == 0


def test_other_target_splits_the_regions() -> None:
    placed = place(entry(0, 0), entry(0, 1.5, target=(9,)), (9,), RULES)
    assert (placed.entry, placed.placement) == (1, "split")
    old, new = placed.codebook.radii.tolist()
    assert (old, new) == pytest.approx((0.75 - 1e-5, 0.75))
    assert old + new < 1.5


def test_conflict_lets_a_small_region_grow_only_as_published() -> None:
    small = entry(0, 0).with_radius(0, 0.1)
    ours, paper = (
        place(small, entry(0, 1.0, target=(9,)), (9,), evolve(RULES, published=published)).codebook.radii.tolist()
        for published in (False, True)
    )
    assert ours == pytest.approx([0.1, 0.5])
    assert paper == pytest.approx([0.5 - 1e-5, 0.5])


def test_targets_are_compared_by_their_tokens() -> None:
    """The released code compares means of label tensors: 3 and 5 have the mean of 4 and 4."""
    placed = place(entry(0, 0, target=(3, 5)), entry(0, 1, target=(4, 4)), (4, 4), RULES)
    assert placed.placement == "split"


def test_another_target_of_the_same_prompt_overwrites_the_entry() -> None:
    wide = entry(1, 1).with_radius(0, 3.0)
    placed = place(wide, entry(1, 1, target=(9, 9), value=0.25), (9, 9), RULES)
    assert (placed.entry, placed.placement) == (0, "overwritten")
    assert placed.codebook.labels.tolist() == [[9, 9]]
    assert placed.codebook.radii.tolist() == [1.0]
    assert placed.codebook.values.tolist() == [[0.25] * 3]


def test_lookup_takes_the_nearest_key_within_its_radius() -> None:
    book = entry(0, 0).added(entry(0, 1.5).with_radius(0, 0.25))
    queries = torch.tensor([[0, 0], [0, 0.7], [0, 0.8], [0, 1.75], [0, 1.76], [1.0, 0]])
    assert matched(queries, book.state).tolist() == [0, 0, -1, 1, -1, 0]


@pytest.mark.parametrize(("replacement", "where"), [("last", [2]), ("prompt", [1]), ("all", [1, 2, 3])])
def test_replacement_changes_its_positions_of_matching_rows(replacement: Any, where: list[int]) -> None:
    """Row 0 is padded on the left, and its key matches; row 1 does not match; row 2 was read in an earlier call."""
    torch.manual_seed(0)
    inputs, output = torch.randn(3, 4, 2), torch.randn(3, 4, 3)
    inputs[0, 2] = torch.tensor([5.0, 5.0])
    padding = torch.tensor([[True, False, False, False]] + [[False] * 4] * 2)
    prompt = torch.tensor([[False, True, True, False], [True] * 4, [False] * 4])
    call = LayerCall(
        inputs=inputs,
        output=output,
        padding=padding,
        prompt=prompt,
        answer=~(padding | prompt),
        last_prompt=torch.tensor([2, 3, -1]),
    )
    found = FUNCTIONS[replacement](call, entry(5, 5).state)
    after = found[0] if isinstance(found, tuple) else found
    expected = output.clone()
    expected[0, where] = 0.5
    assert torch.equal(after, expected)


def test_all_keeps_the_entry_of_a_row_while_it_is_decoded() -> None:
    one = torch.zeros(2, 1, dtype=torch.bool)
    call = LayerCall(
        inputs=torch.zeros(2, 1, 2),
        output=torch.zeros(2, 1, 3),
        padding=one,
        prompt=one,
        answer=~one,
        last_prompt=torch.tensor([-1, -1]),
        kept=torch.tensor([-1, 0]),
    )
    after, kept = FUNCTIONS["all"](call, entry(5, 5).state)
    assert after[:, 0, 0].tolist() == [0.0, 0.5]
    assert kept.tolist() == [-1, 0]


def test_key_and_output_are_those_of_the_last_token() -> None:
    model = tiny_model("llama")
    seen: list[Tensor] = []
    place_ = model.module.get_submodule(NAMES["llama"])
    handle = place_.register_forward_hook(lambda _module, args, output: seen.extend((args[0][0, -1], output[0, -1])))
    model.module(input_ids=torch.tensor([[5, 6, 7]]))
    handle.remove()
    key, output = key_and_output(model.module, NAMES["llama"], [5, 6, 7], torch.device("cpu"))
    torch.testing.assert_close(key, seen[0])
    torch.testing.assert_close(output, seen[1])


@pytest.mark.parametrize("replacement", ["last", "prompt", "all"])
def test_every_replacement_learns(replacement: Any, tmp_path: Path) -> None:
    config = evolve(CONFIG, replacement=replacement, init="warm", part="up")
    with Grace(config).edit(make_session(tiny_model("gpt2"), root=tmp_path), [MOVE_TOWER]) as edited:
        losses = edited.details["edits"][MOVE_TOWER.id]
    assert losses["loss_after"] < losses["loss_before"]


def test_training_inside_another_adaptor_sees_whole_passes(tmp_path: Path) -> None:
    model = tiny_model("llama")
    with (
        open_shift(model, "model.layers.2.mlp.down_proj", 64),
        Grace(CONFIG).edit(make_session(model, root=tmp_path), [MOVE_TOWER]) as edited,
    ):
        losses = edited.details["edits"][MOVE_TOWER.id]
        assert losses["loss_after"] == pytest.approx(answer_loss(model, MOVE_TOWER), abs=1e-5)


def test_removed_edit_is_undone_and_later_ones_are_learned_again(tmp_path: Path) -> None:
    """With a radius that covers everything, the second edit splits the region of the first."""
    config, digests = evolve(CONFIG, eps=1e3), []
    for edits in ([MOVE_TOWER, MOVE_GATE], [MOVE_TOWER], [MOVE_GATE]):
        model = tiny_model("llama")
        with Grace(config).edit(make_session(model, root=tmp_path), edits):
            digests.append(model.digest)
    both, tower, gate = digests
    model = tiny_model("llama")
    with Grace(config).edit(make_session(model, root=tmp_path), [MOVE_TOWER]) as edited:
        assert isinstance(edited, GraceModel)
        edited.change(add=[MOVE_GATE])
        assert model.digest == both
        edited.save(tmp_path / "state")
        edited.change(remove=[MOVE_GATE.id])
        assert model.digest == tower
        edited.change(add=[TO_MADRID])
        assert edited.details["edits"][TO_MADRID.id]["placement"] == "overwritten"
        edited.change(remove=[TO_MADRID.id])
        assert model.digest == tower
        with pytest.raises(UnsupportedChange, match="there is no edit"):
            edited.change(remove=["unknown"])
    fresh = tiny_model("llama")
    with Grace(config).load(make_session(fresh, root=tmp_path), tmp_path / "state") as loaded:
        assert isinstance(loaded, GraceModel)
        assert fresh.digest == both
        loaded.change(remove=[MOVE_GATE.id])
        assert fresh.digest == tower
        loaded.change(add=[MOVE_GATE])
        loaded.change(remove=[MOVE_TOWER.id])
        assert fresh.digest == gate


def test_values_of_other_entries_do_not_change(tmp_path: Path) -> None:
    with Grace(CONFIG).edit(make_session(tiny_model("llama"), root=tmp_path), [MOVE_TOWER]) as edited:
        assert isinstance(edited, GraceModel)
        before = edited.codebook
        edited.change(add=[MOVE_GATE])
        after = edited.codebook
    assert before is not None
    assert after is not None
    assert torch.equal(before.values, after.values[:1])


def test_codebook_is_loaded_onto_the_device_of_its_layer(tmp_path: Path) -> None:
    """In a model on several devices, the embedding may be on another one: here, the layer is on ``meta``."""
    model, path = tiny_model("llama"), tmp_path / "state"
    layer = model.module.get_submodule(NAMES["llama"])
    with Grace(CONFIG).edit(make_session(model, root=tmp_path), [MOVE_TOWER]) as edited:
        assert isinstance(edited, GraceModel)
        edited.save(path)
        weight = layer.weight
        layer.weight = torch.nn.Parameter(weight.to("meta"))
        edited.restore(path)
        layer.weight = weight
        assert edited.codebook is not None
        assert {tensor.device.type for tensor in edited.codebook.state.values()} == {"meta"}
        edited.restore(path)


def test_file_of_another_layer_is_rejected(tmp_path: Path) -> None:
    model, path = tiny_model("llama"), tmp_path / "state"
    with Grace(CONFIG).edit(make_session(model, root=tmp_path), [MOVE_TOWER]) as edited:
        assert isinstance(edited, GraceModel)
        edited.save(path)
    other = Grace(evolve(CONFIG, part="up"))
    with pytest.raises(BadData, match="of other sizes"), other.load(make_session(model, root=tmp_path), path):
        pass


def test_loss_that_is_not_finite_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_model("llama")
    with Grace(CONFIG).edit(make_session(model, root=tmp_path), [MOVE_TOWER]) as edited:
        before = model.digest
        with monkeypatch.context() as patched:
            patched.setattr("ke_plugin_grace.editor.cold_value", lambda size, *_args: torch.full((size,), math.nan))
            with pytest.raises(EditFailed, match=MOVE_GATE.id):
                edited.change(add=[MOVE_GATE])
        assert model.digest == before
        assert [*edited.details["edits"]] == [MOVE_TOWER.id]


def test_prompt_that_only_fits_without_the_chat_format_is_refused(tmp_path: Path) -> None:
    expect_room_for_chat_format(Grace(CONFIG), tmp_path)


def test_loaded_model_continues_with_its_seed(tmp_path: Path) -> None:
    expect_saved_seed(Grace(CONFIG), tmp_path)
