"""An adapter on 4-bit weights, attached while the edit is active."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from attrs import evolve
from torch import Tensor

from ke_core.plugin import BadConfig, Edit, EditFailed, PassthroughModel, Score, UnsupportedEdit
from ke_plugin_hf.testing import Family, tiny_model
from ke_plugin_qlora import QloraConfig
from ke_plugin_qlora.editor import Qlora
from ke_testing.editor import one_clear_line, unchanged
from ke_testing.examples import MADRID, MOVE_GATE, MOVE_TOWER, ROME, TEXT_ONLY, TOWER, city_edit
from ke_testing.fakes import make_session

EDITS = (MOVE_TOWER, MOVE_GATE)
SMALL = QloraConfig(profile="paper", epochs=3)
IDS = torch.tensor([[5, 17, 80, 33, 150, 9]])
pytestmark = pytest.mark.usefixtures("one_thread")
Loader = Callable[..., Any]


def logits(model: Any) -> Tensor:
    with torch.no_grad():
        found: Tensor = model.module(input_ids=IDS).logits
    return found


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_new_object_becomes_more_probable(family: Family, nf4: Loader, tmp_path: Path) -> None:
    model = nf4(family)
    request = [Score(prompt="Eiffel Tower is located in", continuations=(" Rome", " Paris"))]
    before = model.score(request)[0].logprobs
    with unchanged(model), Qlora(evolve(SMALL, epochs=15)).edit(make_session(model, root=tmp_path), EDITS):
        after = model.score(request)[0].logprobs
    assert after[0] > before[0] + 1
    assert after[0] > after[1]
    assert model.score(request)[0].logprobs == before


@pytest.mark.parametrize("fails", [False, True], ids=["clean-exit", "exception"])
def test_base_weights_do_not_change(nf4: Loader, tmp_path: Path, *, fails: bool) -> None:
    model = nf4()
    base = logits(model)
    marks = {name: mark for name, mark in model.state().items() if name.startswith("scale")}
    assert marks
    crash = pytest.raises(ZeroDivisionError) if fails else nullcontext()
    with crash, unchanged(model), Qlora(SMALL).edit(make_session(model, root=tmp_path), EDITS):
        assert any("lora_A" in name for name, _parameter in model.module.named_parameters())
        assert not any(part.training for part in model.module.modules())
        assert not torch.equal(logits(model), base)
        if fails:
            raise ZeroDivisionError
    assert torch.equal(logits(model), base)
    assert not hasattr(model.module, "peft_config")


def test_non_finite_loss_names_its_edit(nf4: Loader, tmp_path: Path) -> None:
    model = nf4()
    editor, why = Qlora(evolve(SMALL, lr=1e37)), f"edit '{MOVE_TOWER.id}' is not finite"
    with one_clear_line(model, EditFailed, why), editor.edit(make_session(model, root=tmp_path), [MOVE_TOWER]):
        pass


def test_nested_edits_are_removed_in_reverse_order(nf4: Loader, tmp_path: Path) -> None:
    model = nf4()
    session = make_session(model, root=tmp_path)
    base = logits(model)
    with Qlora(SMALL).edit(session, [MOVE_TOWER]):
        one = logits(model)
        with unchanged(model), Qlora(SMALL).edit(session, [MOVE_GATE]):
            assert not torch.equal(logits(model), one)
        assert torch.equal(logits(model), one)
    assert torch.equal(logits(model), base)


def test_global_generators_are_unchanged(nf4: Loader, tmp_path: Path) -> None:
    session = make_session(nf4(), root=tmp_path)
    torch.manual_seed(3)
    drawn = torch.rand(4)
    torch.manual_seed(3)
    with Qlora(SMALL).edit(session, [MOVE_TOWER]):
        assert torch.equal(torch.rand(4), drawn)


def test_loss_sentence_trains_whole_statements(nf4: Loader, tmp_path: Path) -> None:
    model = nf4()
    config = evolve(SMALL, loss="sentence")
    session = make_session(model, root=tmp_path)
    assert not Qlora(config).check(session, [TEXT_ONLY])
    with Qlora(config).edit(session, [TEXT_ONLY]) as edited:
        assert edited.details["loss"] == "sentence"
        losses = edited.details["edits"][TEXT_ONLY.id]
        assert losses["loss_after"] < losses["loss_before"]
    empty = Edit(id="empty", statement="!")
    assert "fewer than two tokens" in Qlora(config).check(session, [empty])["empty"]
    with pytest.raises(UnsupportedEdit, match="'empty'"), Qlora(config).edit(session, [empty]):
        pass


def test_contradicting_statements_are_refused(nf4: Loader, tmp_path: Path) -> None:
    editor, session = Qlora(evolve(SMALL, loss="sentence")), make_session(nf4(), root=tmp_path)
    other = city_edit(TOWER, ROME, MADRID)
    refused = editor.check(session, [MOVE_TOWER, TEXT_ONLY, other])
    assert list(refused) == [other.id]
    assert f"contradicts edit {MOVE_TOWER.id!r}" in refused[other.id]
    with pytest.raises(UnsupportedEdit, match="contradicts"), editor.edit(session, [MOVE_TOWER, other]):
        pass


def test_default_trains_only_the_new_object(nf4: Loader, tmp_path: Path) -> None:
    session = make_session(nf4(), root=tmp_path)
    assert set(Qlora(SMALL).check(session, [MOVE_TOWER, TEXT_ONLY])) == {TEXT_ONLY.id}
    with Qlora(SMALL).edit(session, ()) as edited:
        assert isinstance(edited, PassthroughModel)


def test_other_quantization_is_refused_without_a_hint_to_lora(tmp_path: Path) -> None:
    model = tiny_model("llama")
    codes = model.module.model.layers[0].mlp.down_proj.weight.detach().to(torch.float8_e4m3fn)
    model.module.model.layers[0].mlp.down_proj.weight = torch.nn.Parameter(codes, requires_grad=False)
    with pytest.raises(BadConfig, match="are float8_e4m3fn") as caught:
        Qlora(SMALL).check(make_session(model, root=tmp_path), ())
    assert "checkpoint" in caught.value.hint
    assert "lora" not in caught.value.hint


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_other_dtypes_are_refused(dtype: str, tmp_path: Path) -> None:
    model = tiny_model("llama", dtype=dtype)
    session = make_session(model, root=tmp_path)
    with pytest.raises(BadConfig, match="are not quantized") as caught:
        Qlora(SMALL).check(session, ())
    assert "--dtype nf4" in caught.value.hint
    with unchanged(model), pytest.raises(BadConfig), Qlora(SMALL).edit(session, EDITS):
        pass
