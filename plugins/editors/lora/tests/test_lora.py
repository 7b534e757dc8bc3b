"""The adapter as it acts, as it is merged, and as it is gone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from attrs import evolve
from torch import Tensor

from ke_core.plugin import BadConfig, Cloze, EditFailed, Entity, Score, UnsupportedEdit
from ke_core.specs import ModelRequest
from ke_core.testing.editor import unchanged
from ke_core.testing.examples import MADRID, MOVE_GATE, MOVE_TOWER, ROME, TEXT_ONLY, TOWER, city_edit
from ke_core.testing.fakes import Silence, make_session
from ke_core.testing.tiny import FAMILIES, Family, tiny_model
from ke_core.weights import find_parts, model_facts
from ke_plugin_lora import LoraConfig
from ke_plugin_lora.adapter import attached
from ke_plugin_lora.editor import Lora, trained
from ke_plugin_lora.examples import Example, objects, sentences, unfit
from ke_plugin_lora.training import losses, measured

EDITS = (MOVE_TOWER, MOVE_GATE)
SMALL = LoraConfig(steps=3)
IDS = torch.tensor([[5, 17, 80, 33, 150, 9]])


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def logits(model: Any) -> Tensor:
    with torch.no_grad():
        found: Tensor = model.module(input_ids=IDS).logits
    return found


def weights_of(model: Any) -> dict[str, Tensor]:
    return {name: parameter.detach().clone() for name, parameter in model.module.named_parameters()}


def names_of_targets(family: Family) -> tuple[str, ...]:
    from ke_plugin_lora import settings

    model = tiny_model(family)
    parts = find_parts(model.module)
    return settings(LoraConfig(), model_facts(make_session(model), parts))["targets"].value


@pytest.mark.parametrize("family", FAMILIES)
def test_numerics_20_an_untrained_adapter_changes_nothing(family: Family) -> None:
    model = tiny_model(family)
    before = logits(model)
    with unchanged(model), attached(model.module, names_of_targets(family), SMALL) as adapter:
        assert len(adapter.layers) % 4 == 0
        assert adapter.layers
        assert torch.equal(logits(model), before)


@pytest.mark.parametrize("family", ["llama", "gpt2", "gptj"])
def test_numerics_20_merged_and_attached_agree(family: Family, tmp_path: Path) -> None:
    model = tiny_model(family, dtype="float64")
    session = make_session(model, root=tmp_path)
    base = logits(model)
    with trained(session, objects(model.tokenizer, EDITS), SMALL):
        beside = logits(model)
    assert torch.equal(logits(model), base)
    with Lora(SMALL).edit(session, EDITS):
        merged = logits(model)
    assert float((merged - beside).abs().max()) < 1e-10
    assert float((merged - base).abs().max()) > 1e-2


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_the_new_object_becomes_more_probable_than_it_was(family: Family, tmp_path: Path) -> None:
    model = tiny_model(family)
    request = [Score(prompt="Eiffel Tower is located in", continuations=(" Rome", " Paris"))]
    before = model.score(request)[0].logprobs
    with Lora(evolve(SMALL, steps=15)).edit(make_session(model, root=tmp_path), EDITS):
        after = model.score(request)[0].logprobs
    assert after[0] > before[0] + 1
    assert after[0] > after[1]


@pytest.mark.parametrize("fails", [False, True], ids=["clean-exit", "exception"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_weights_come_back_bit_for_bit(dtype: str, tmp_path: Path, *, fails: bool) -> None:
    model = tiny_model("gpt2", dtype=dtype)
    before = weights_of(model)
    crash = pytest.raises(ZeroDivisionError) if fails else nullcontext()
    with crash, unchanged(model), Lora(SMALL).edit(make_session(model, root=tmp_path), EDITS):
        assert any(not torch.equal(now, before[name]) for name, now in weights_of(model).items())
        if fails:
            raise ZeroDivisionError
    assert all(torch.equal(now, before[name]) for name, now in weights_of(model).items())


def test_a_failure_while_training_leaves_no_trace(tmp_path: Path) -> None:
    class Impatient(Silence):
        def advance(self, label: str, done: int, total: int | None = None) -> None:
            raise KeyboardInterrupt

    model = tiny_model("llama")
    session = evolve(make_session(model, root=tmp_path), progress=Impatient())
    with unchanged(model), pytest.raises(KeyboardInterrupt), Lora(SMALL).edit(session, EDITS):
        pass
    assert not hasattr(model.module, "peft_config")


def test_a_loss_that_is_not_finite_names_its_edit(tmp_path: Path) -> None:
    model = tiny_model("llama")
    with (
        unchanged(model),
        pytest.raises(EditFailed, match=f"edit '{MOVE_TOWER.id}' is not finite"),
        Lora(evolve(SMALL, lr=1e37)).edit(make_session(model, root=tmp_path), [MOVE_TOWER]),
    ):
        pass


def test_the_same_seed_gives_the_same_weights_and_no_number_is_drawn_from_the_users(tmp_path: Path) -> None:
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


def test_adapters_nest_and_the_later_is_trained_on_the_earlier() -> None:
    model = tiny_model("llama")
    session = make_session(model)
    base = logits(model)
    with trained(session, objects(model.tokenizer, [MOVE_TOWER]), SMALL):
        one = logits(model)
        gate = objects(model.tokenizer, [MOVE_GATE])
        here = measured(model.module, gate, model.device)[MOVE_GATE.id]
        with unchanged(model), trained(session, gate, SMALL) as (_adapter, details):
            two = logits(model)
            assert not torch.equal(two, one)
            with unchanged(model), attached(model.module, ("q_proj",), SMALL):
                assert torch.equal(logits(model), two)
            assert details["edits"][MOVE_GATE.id]["loss_before"] == pytest.approx(here, rel=1e-6)
            with unchanged(model), trained(session, gate, SMALL):
                pass
        assert torch.equal(logits(model), one)
    assert torch.equal(logits(model), base)


def test_only_the_targets_are_changed(tmp_path: Path) -> None:
    model = tiny_model("llama")
    before = weights_of(model)
    with Lora(evolve(SMALL, targets=("o_proj",))).edit(make_session(model, root=tmp_path), EDITS):
        changed = {name for name, now in weights_of(model).items() if not torch.equal(now, before[name])}
    assert changed == {f"model.layers.{layer}.self_attn.o_proj.weight" for layer in range(4)}


def test_targets_that_the_model_does_not_have_are_refused_with_those_it_has(tmp_path: Path) -> None:
    model = tiny_model("llama")
    with (
        unchanged(model),
        pytest.raises(BadConfig, match="called c_attn") as caught,
        Lora(evolve(SMALL, targets=("c_attn",))).edit(make_session(model, root=tmp_path), EDITS),
    ):
        pass
    assert "q_proj" in caught.value.hint


def test_what_is_recorded_says_what_was_done(tmp_path: Path) -> None:
    with Lora(SMALL).edit(make_session(tiny_model("llama"), root=tmp_path), EDITS) as edited:
        details = json.loads(json.dumps(edited.details))
    assert details["hyperparameters"]["targets"] == ["q_proj", "v_proj"]
    assert details["hyperparameters"]["reasons"]["targets"] == "peft's targets for llama"
    for name, norm in details["update_norms"].items():
        assert 0 < details["relative_update_norms"][name] < norm
    assert all(one["loss_after"] < one["loss_before"] for one in details["edits"].values())


def test_losses_are_the_likelihood_of_the_labels_alone() -> None:
    model = tiny_model("gpt2", dtype="float64")
    examples = [*objects(model.tokenizer, EDITS), *sentences(model.tokenizer, [TEXT_ONLY])]
    found = losses(model.module, examples, model.device)
    for one, value in zip(examples, found, strict=True):
        logs = model.module(input_ids=torch.tensor([one.ids])).logits[0].log_softmax(-1)
        by_hand = -torch.stack([logs[at - 1, one.ids[at]] for at in range(one.start, len(one.ids))]).mean()
        assert float(value) == pytest.approx(float(by_hand), rel=1e-9)
    request = [Score(prompt="Eiffel Tower is located in", continuations=(" Rome",))]
    scored = model.score(request)[0]
    assert float(found[0]) == pytest.approx(-scored.logprobs[0] / scored.tokens[0], rel=1e-5)


def test_a_sentence_without_a_label_is_named() -> None:
    long, short = Example(edit="long", ids=tuple(range(9)), start=1), Example(edit="short", ids=(3,), start=1)
    assert unfit([long, short], 8) == {
        "short": "its statement has fewer than two tokens",
        "long": "it has 9 tokens, and 8 fit",
    }


def test_what_cannot_be_made_is_refused_with_its_reason(tmp_path: Path) -> None:
    session = make_session(tiny_model("llama"), root=tmp_path)
    other = city_edit(TOWER, ROME, MADRID)
    assert set(Lora(SMALL).check(session, [MOVE_TOWER, TEXT_ONLY, other])) == {TEXT_ONLY.id, other.id}
    with pytest.raises(UnsupportedEdit, match="'text-only'"), Lora(SMALL).edit(session, [TEXT_ONLY]):
        pass


def test_a_model_in_four_bits_is_sent_to_qlora(tmp_path: Path) -> None:
    pytest.importorskip("bitsandbytes")
    from ke_core.models.hf.loading import load

    plain = tiny_model("llama")
    plain.module.save_pretrained(tmp_path)
    plain.tokenizer.save_pretrained(tmp_path)
    model = load(ModelRequest(id="tiny", dtype="nf4", device="cpu"), str(tmp_path))
    session = make_session(model, root=tmp_path)
    for refuse in (lambda: Lora(SMALL).check(session, ()), lambda: Lora(SMALL).edit(session, EDITS).__enter__()):
        with pytest.raises(BadConfig, match=r"quantised \(nf4\)") as caught:
            refuse()
        assert "qlora" in caught.value.hint


def test_e1_a_target_has_one_leading_space_however_it_is_written() -> None:
    tokenizer = tiny_model("gpt2").tokenizer
    assert MOVE_TOWER.after is not None
    spaced = evolve(MOVE_TOWER, after=evolve(MOVE_TOWER.after, objects=(Entity(label=" Rome"),)))
    assert objects(tokenizer, [spaced]) == objects(tokenizer, [MOVE_TOWER])
    (one,) = objects(tokenizer, [spaced])
    assert tokenizer.decode(one.ids[one.start :]) == " Rome"


def test_e2_a_prompt_may_name_its_subject_twice() -> None:
    twice = evolve(MOVE_TOWER, cloze=Cloze(template="The Eiffel Tower, {}, is located in", subject="Eiffel Tower"))
    tokenizer = tiny_model("llama").tokenizer
    (one,) = objects(tokenizer, [twice])
    assert tokenizer.decode(one.ids) == "The Eiffel Tower, Eiffel Tower, is located in Rome"


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_e10_models_in_half_precision_are_edited_with_adapters_in_float32(dtype: str, tmp_path: Path) -> None:
    model = tiny_model("llama", dtype=dtype)
    session = make_session(model, root=tmp_path)
    with trained(session, objects(model.tokenizer, EDITS), SMALL) as (adapter, details):
        assert {parameter.dtype for parameter in adapter.parameters} == {torch.float32}
        assert all(one["loss_after"] < one["loss_before"] for one in details["edits"].values())


def test_e11_no_special_token_stands_in_the_target() -> None:
    (with_bos,), (without,) = (objects(tiny_model("llama", bos=bos).tokenizer, [MOVE_GATE]) for bos in (True, False))
    assert with_bos.ids[with_bos.start :] == without.ids[without.start :]
    assert with_bos.start == without.start + 1


@pytest.mark.parametrize("wanted", [False, True])
def test_s6_flags_cache_and_checkpointing_stay_as_they_were(tmp_path: Path, *, wanted: bool) -> None:
    model = tiny_model("llama")
    model.module.config.use_cache = wanted
    for parameter in model.module.parameters():
        parameter.requires_grad = wanted
    with unchanged(model), Lora(SMALL).edit(make_session(model, root=tmp_path), EDITS):
        assert model.module.config.use_cache is wanted
        assert not any(getattr(part, "gradient_checkpointing", False) for part in model.module.modules())
        assert {parameter.requires_grad for parameter in model.module.parameters()} == {wanted}
        assert not any("lora" in name for name, _part in model.module.named_modules())


def test_s7_what_answers_is_the_edited_model(tmp_path: Path) -> None:
    model = tiny_model("llama")
    before = model.digest
    with Lora(SMALL).edit(make_session(model, root=tmp_path), EDITS):
        assert model.digest != before
    assert model.digest == before


def test_x1_the_editor_names_no_device() -> None:
    import ke_plugin_lora

    sources = [path.read_text(encoding="utf-8") for path in Path(ke_plugin_lora.__file__).parent.glob("*.py")]
    assert not any("cuda" in source for source in sources)
