"""Training, merging and removal of the adapter."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from attrs import evolve
from torch import Tensor

from ke_core.plugin import BadConfig, EditFailed, KEError, Score
from ke_plugin_hf.testing import FAMILIES, Family, Fp8Weight, tiny_model, tiny_nf4
from ke_plugin_lora import LoraConfig, settings, training
from ke_plugin_lora.adapter import attach_adapter
from ke_plugin_lora.editor import Lora, record_losses, trained_adapter
from ke_plugin_lora.training import (
    Example,
    example_losses,
    losses,
    statement_examples,
    target_examples,
    unsupported_examples,
)
from ke_plugin_lora.values import LoraSettings
from ke_testing.editor import one_clear_line, unchanged
from ke_testing.examples import FOUR_MOVES, MOVE_GATE, MOVE_TOWER, TEXT_ONLY
from ke_testing.fakes import make_session
from ke_weights.plugin import find_parts, model_facts
from ke_weights.testing.weights import changes, weights_of

EDITS = (MOVE_TOWER, MOVE_GATE)
SMALL = LoraConfig(profile="paper", epochs=3)
RECIPE = LoraSettings(epochs=3, rank=8, alpha=32.0, dropout=0.1, lr=5e-3, stop_loss=0.0, batch=1)
IDS = torch.tensor([[5, 17, 80, 33, 150, 9]])
pytestmark = pytest.mark.usefixtures("one_thread")


def logits(model: Any) -> Tensor:
    with torch.no_grad():
        found: Tensor = model.module(input_ids=IDS).logits
    return found


def names_of_targets(family: Family) -> tuple[str, ...]:
    model = tiny_model(family)
    parts = find_parts(model.module)
    return settings(SMALL, model_facts(make_session(model), parts))["targets"].value


@pytest.mark.parametrize("family", FAMILIES)
def test_a_second_adapter_gets_the_settings_of_the_first(family: Family) -> None:
    """The factors of an adapter are no parts of the decoder."""
    model = tiny_model(family)
    session = make_session(model)
    parts = find_parts(model.module)
    layer = parts.layers[0]
    linear = tuple(name.rpartition(".")[2] for name in (*layer.expansion, layer.projection_name))
    before = settings(SMALL, model_facts(session, parts))
    with attach_adapter(model.module, linear, RECIPE):
        inside = find_parts(model.module)
        assert inside.inner == parts.inner
        assert settings(SMALL, model_facts(session, inside)) == before


@pytest.mark.parametrize("family", FAMILIES)
def test_untrained_adapter_changes_nothing(family: Family) -> None:
    model = tiny_model(family)
    before = logits(model)
    with unchanged(model), attach_adapter(model.module, names_of_targets(family), RECIPE) as adapter:
        assert len(adapter.layers) % 4 == 0
        assert adapter.layers
        assert torch.equal(logits(model), before)


@pytest.mark.parametrize("family", ["llama", "gpt2", "gptj"])
def test_merged_and_attached_adapter_agree(family: Family, tmp_path: Path) -> None:
    model = tiny_model(family, dtype="float64")
    session = make_session(model, root=tmp_path)
    base = logits(model)
    with trained_adapter(session, target_examples(model, EDITS), SMALL):
        attached = logits(model)
    assert torch.equal(logits(model), base)
    with Lora(SMALL).edit(session, EDITS):
        merged = logits(model)
    assert float((merged - attached).abs().max()) < 1e-10
    assert float((merged - base).abs().max()) > 1e-2


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_new_object_becomes_more_probable(family: Family, tmp_path: Path) -> None:
    model = tiny_model(family)
    request = [Score(prompt="Eiffel Tower is located in", continuations=(" Rome", " Paris"))]
    before = model.score(request)[0].logprobs
    with Lora(evolve(SMALL, epochs=15)).edit(make_session(model, root=tmp_path), EDITS):
        after = model.score(request)[0].logprobs
    assert after[0] > before[0] + 1
    assert after[0] > after[1]


@pytest.mark.parametrize("batch", [1, 3])
def test_all_edits_are_made_with_any_batch_size(batch: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "EVALUATED", 3)
    session = make_session(tiny_model("llama"), root=tmp_path)
    with Lora(evolve(SMALL, batch=batch)).edit(session, FOUR_MOVES) as edited:
        found: Any = edited.details["edits"]
    assert list(found) == [edit.id for edit in FOUR_MOVES]
    assert all(one["loss_after"] < one["loss_before"] for one in found.values())


def test_non_finite_loss_names_its_edit(tmp_path: Path) -> None:
    model = tiny_model("llama")
    editor, why = Lora(evolve(SMALL, lr=1e37)), f"edit '{MOVE_TOWER.id}' is not finite"
    with one_clear_line(model, EditFailed, why), editor.edit(make_session(model, root=tmp_path), [MOVE_TOWER]):
        pass
    assert not hasattr(model.module, "peft_config")


def test_seed_determines_the_update_and_global_generators_are_unchanged(tmp_path: Path) -> None:
    model = tiny_model("llama")

    def once(seed: int) -> Tensor:
        with Lora(SMALL).edit(make_session(model, root=tmp_path, seed=seed), EDITS):
            return logits(model)

    torch.manual_seed(3)
    drawn = torch.rand(4)
    torch.manual_seed(3)
    first = once(0)
    assert torch.equal(torch.rand(4), drawn)
    assert torch.equal(once(0), first)
    assert not torch.equal(once(1), first)


def test_adapters_nest() -> None:
    model = tiny_model("llama")
    session = make_session(model)
    base = logits(model)
    with trained_adapter(session, target_examples(model, [MOVE_TOWER]), SMALL):
        one = logits(model)
        gate = target_examples(model, [MOVE_GATE])
        here = example_losses(model.module, gate, model.device)[MOVE_GATE.id]
        with unchanged(model), trained_adapter(session, gate, SMALL) as (_adapter, details):
            two = logits(model)
            assert not torch.equal(two, one)
            with unchanged(model), attach_adapter(model.module, ("q_proj",), RECIPE):
                assert torch.equal(logits(model), two)
            assert details["edits"][MOVE_GATE.id]["loss_before"] == pytest.approx(here, rel=1e-6)
            with unchanged(model), trained_adapter(session, gate, SMALL):
                pass
        assert torch.equal(logits(model), one)
    assert torch.equal(logits(model), base)


def test_only_the_targets_change(tmp_path: Path) -> None:
    model = tiny_model("llama")
    before = weights_of(model)
    with Lora(evolve(SMALL, targets=("o_proj",))).edit(make_session(model, root=tmp_path), EDITS):
        assert set(changes(model, before)) == {f"model.layers.{layer}.self_attn.o_proj.weight" for layer in range(4)}


def test_only_the_given_blocks_change(tmp_path: Path) -> None:
    model = tiny_model("llama")
    before = weights_of(model)
    config = evolve(SMALL, targets=("o_proj", "down_proj"), layers=(1, 2))
    with Lora(config).edit(make_session(model, root=tmp_path), EDITS):
        assert set(changes(model, before)) == {
            f"model.layers.{layer}.{name}.weight" for layer in (1, 2) for name in ("self_attn.o_proj", "mlp.down_proj")
        }
    with pytest.raises(KEError, match="layers 9 do not fit"):
        Lora(evolve(SMALL, layers=(9,))).check(make_session(model, root=tmp_path), ())


def test_training_stops_below_the_loss(tmp_path: Path) -> None:
    """Training ends with the first pass whose mean loss is below the limit, and never with a limit of 0."""
    model = tiny_model("llama")
    config = LoraConfig(epochs=40, lr=5e-3, alpha=8.0, dropout=0.0, stop_loss=1.0)
    with Lora(config).edit(make_session(model, root=tmp_path), EDITS) as edited:
        details: Any = edited.details
    assert 1 < details["epochs"] < 40
    assert sum(one["loss_after"] for one in details["edits"].values()) / 2 < 1.0
    with Lora(evolve(config, epochs=details["epochs"] - 1)).edit(make_session(model, root=tmp_path), EDITS) as edited:
        earlier: Any = edited.details
    assert earlier["epochs"] == details["epochs"] - 1
    never = evolve(config, stop_loss=0.0, epochs=details["epochs"] + 2)
    with Lora(never).edit(make_session(model, root=tmp_path), EDITS) as edited:
        assert edited.details["epochs"] == details["epochs"] + 2


def test_edit_that_is_known_already_changes_nothing(tmp_path: Path) -> None:
    model = tiny_model("llama")
    before = weights_of(model)
    config = LoraConfig(dropout=0.0, stop_loss=100.0)
    with Lora(config).edit(make_session(model, root=tmp_path), EDITS) as edited:
        assert edited.details["epochs"] == 1
        assert not changes(model, before)


def test_missing_targets_are_refused_with_the_available_ones(tmp_path: Path) -> None:
    model = tiny_model("llama")
    with (
        unchanged(model),
        pytest.raises(BadConfig, match="named c_attn") as caught,
        Lora(evolve(SMALL, targets=("c_attn",))).edit(make_session(model, root=tmp_path), EDITS),
    ):
        pass
    assert "q_proj" in caught.value.hint
    with pytest.raises(BadConfig, match="named c_attn"):
        Lora(evolve(SMALL, targets=("c_attn",))).check(make_session(model, root=tmp_path), ())


@pytest.mark.parametrize(
    ("target", "where"), [("mlp", r"model\.layers\.0\.mlp"), ("embed_tokens", r"model\.embed_tokens")]
)
def test_targets_that_are_not_linear_are_refused(target: str, where: str, tmp_path: Path) -> None:
    editor = Lora(evolve(SMALL, targets=("q_proj", target)))
    with pytest.raises(BadConfig, match=f"{where} is not a linear layer"):
        editor.check(make_session(tiny_model("llama"), root=tmp_path), ())


def test_targets_outside_the_layers_are_refused(tmp_path: Path) -> None:
    editor = Lora(evolve(SMALL, targets=("lm_head",), layers=(1, 2)))
    with pytest.raises(BadConfig, match="lm_head is in none of the layers 1, 2"):
        editor.check(make_session(tiny_model("llama"), root=tmp_path), ())


def test_target_with_the_weight_of_another_module_is_refused(tmp_path: Path) -> None:
    model = tiny_model("llama")
    model.module.lm_head.weight = model.module.model.embed_tokens.weight
    editor = Lora(evolve(SMALL, profile="paper", targets=("lm_head",), layers=None))
    with pytest.raises(BadConfig, match="lm_head shares its weight with another module"):
        editor.check(make_session(model, root=tmp_path), ())


def test_details_contain_hyperparameters_and_norms(tmp_path: Path) -> None:
    with Lora(SMALL).edit(make_session(tiny_model("llama"), root=tmp_path), EDITS) as edited:
        details = json.loads(json.dumps(edited.details))
    assert details["hyperparameters"]["targets"] == ["q_proj", "v_proj"]
    assert details["hyperparameters"]["reasons"]["targets"] == "peft's targets for llama"
    for name, norm in details["update_norms"].items():
        assert 0 < details["relative_update_norms"][name] < norm
    assert all(one["loss_after"] < one["loss_before"] for one in details["edits"].values())


def test_losses_are_the_likelihood_of_the_labels() -> None:
    model = tiny_model("gpt2", dtype="float64")
    examples = [*target_examples(model, EDITS), *statement_examples(model.tokenizer, [TEXT_ONLY])]
    found = losses(model.module, examples, model.device)
    for one, value in zip(examples, found, strict=True):
        logs = model.module(input_ids=torch.tensor([one.ids])).logits[0].log_softmax(-1)
        by_hand = -torch.stack([logs[at - 1, one.ids[at]] for at in range(one.start, len(one.ids))]).mean()
        assert float(value) == pytest.approx(float(by_hand), rel=1e-9)
    request = [Score(prompt="Eiffel Tower is located in", continuations=(" Rome",))]
    scored = model.score(request)[0]
    assert float(found[0]) == pytest.approx(-scored.logprobs[0] / scored.tokens[0], rel=1e-5)


def test_sentence_without_a_label_is_named() -> None:
    long, short = Example(edit="long", ids=tuple(range(9)), start=1), Example(edit="short", ids=(3,), start=1)
    assert unsupported_examples([long, short], 8) == {
        "short": "its statement has fewer than two tokens",
        "long": "it has 9 tokens, more than the context of 8",
    }


def test_four_bit_model_is_refused_with_a_hint_to_qlora(tmp_path: Path) -> None:
    pytest.importorskip("bitsandbytes")
    session = make_session(tiny_nf4(tmp_path), root=tmp_path)
    for refuse in (lambda: Lora(SMALL).check(session, ()), lambda: Lora(SMALL).edit(session, EDITS).__enter__()):
        with pytest.raises(BadConfig, match=r"quantized weights \(nf4\)") as caught:
            refuse()
        assert "qlora" in caught.value.hint


def test_float8_weights_are_refused(tmp_path: Path) -> None:
    """peft would train an adapter for them, but the update cannot be added to the weights."""
    model = tiny_model("llama")
    for block in model.module.model.layers:
        block.self_attn.q_proj = Fp8Weight(block.self_attn.q_proj)
    session = make_session(model, root=tmp_path)
    for refuse in (lambda: Lora(SMALL).check(session, ()), lambda: Lora(SMALL).edit(session, EDITS).__enter__()):
        with unchanged(model), pytest.raises(BadConfig, match=r"quantized weights \(float8_e4m3fn\)") as caught:
            refuse()
        assert "checkpoint" in caught.value.hint


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_models_get_float32_adapters(dtype: str, tmp_path: Path) -> None:
    model = tiny_model("llama", dtype=dtype)
    session = make_session(model, root=tmp_path)
    examples = target_examples(model, EDITS)
    with trained_adapter(session, examples, SMALL) as (adapter, details):
        record_losses(details, model, examples)
        assert {parameter.dtype for parameter in adapter.parameters} == {torch.float32}
        assert all(one["loss_after"] < one["loss_before"] for one in details["edits"].values())
