"""AnyEdit with AlphaEdit as its base editor, against the published form of the update."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from ke_plugin_anyedit import PUBLISHED_ALPHAEDIT, AnyEditAlphaEditConfig, derive_alphaedit
from ke_plugin_anyedit import layers as layers_module
from ke_plugin_anyedit.layers import AnyEditAlphaEdit
from ke_plugin_hf.testing import tiny_model
from ke_testing.examples import MOVE_TOWER, facts_of
from ke_testing.fakes import make_session
from ke_weights import PUBLISHED_MULTI_LAYER
from ke_weights.plugin import double, null_space
from ke_weights.testing.reference_answers import LONG_EDITS, SMALL_ANSWERS, ReferenceAnswers
from ke_weights.testing.reference_edits import ReferenceModel, off

LAYERS, WINDOW, L2, TOKENS, LONGEST = (1, 2), 5, 10.0, 1500, 64
TARGET = {name: SMALL_ANSWERS[name] for name in ("steps", "lr", "weight_decay", "clamp")}
SMALL = AnyEditAlphaEditConfig(
    **TARGET, layers=LAYERS, window=WINDOW, l2=L2, tokens=TOKENS, document_length=LONGEST, stop_loss=0.0
)
pytestmark = pytest.mark.usefixtures("one_thread")


class PlainLayers:
    """The update with explicit projections: (P (K K^T + Kp Kp^T) + L2 I) X = P K R^T."""

    def __init__(self, model: Any, family: str) -> None:
        self.model, self.plain = model, ReferenceModel(model, family)
        self.answers = [ReferenceAnswers(model, WINDOW, LAYERS[-1]).answer(edit) for edit in LONG_EDITS]
        self.projections = {layer: self.projection(layer) for layer in LAYERS}

    def projection(self, layer: int) -> Tensor:
        values, vectors = torch.linalg.eigh(double(self.plain.covariance(layer, TOKENS, LONGEST)))
        usual = values[:-1] if values[-1] > values[:-1].sum() else values  # without attention sinks
        basis = vectors[:, values < usual.sum() / len(values)]
        return basis @ basis.T

    def keys(self, layer: int, *, others: bool) -> Tensor:
        """Return the keys at the tokens of the states, or at all others, [f, N]."""
        found = []
        for answer in self.answers:
            keys = self.plain._run(answer.ids, self.plain._projection(layer), inputs=True)
            found += [key for at, key in enumerate(keys) if (at in answer.positions) != others]
        return double(torch.stack(found, 1))

    def updates(self) -> dict[int, Tensor]:
        z = double(torch.stack([state for answer in self.answers for state in answer.z], 1))
        made: dict[int, Tensor] = {}
        for place, layer in enumerate(LAYERS):
            keys, kept = self.keys(layer, others=False), self.keys(layer, others=True)
            top = self.plain._block(LAYERS[-1])
            states = [self.plain._run(answer.ids, top, inputs=False)[answer.positions] for answer in self.answers]
            residual = (z - double(torch.cat(states).T)) / (len(LAYERS) - place)
            space, eye = self.projections[layer], torch.eye(len(keys), dtype=torch.float64)
            system = space @ (keys @ keys.T + kept @ kept.T) + L2 * eye
            made[layer] = torch.linalg.solve(system, space @ keys @ residual.T).T
            self.plain.add(layer, made[layer].to(self.plain.weight(layer).dtype))
        return made


@pytest.mark.parametrize(("family", "dtype", "most"), [("gpt2", "float64", 1e-8), ("llama", "float32", 1e-5)])
def test_updates_equal_the_published_form(family: Any, dtype: str, most: float, tmp_path: Path) -> None:
    model = tiny_model(family, dtype=dtype)
    plain = ReferenceModel(model, family)
    before = {layer: plain.weight(layer) for layer in LAYERS}
    with AnyEditAlphaEdit(SMALL, derive_alphaedit).edit(make_session(model, root=tmp_path), LONG_EDITS):
        ours = {layer: plain.change(layer, before[layer]) for layer in LAYERS}
    for layer, update in PlainLayers(tiny_model(family, dtype=dtype), family).updates().items():
        assert off(double(ours[layer]), update) < most


def test_a_later_edit_uses_the_null_space_of_the_unedited_model(tmp_path: Path) -> None:
    session, editor = make_session(tiny_model("gpt2"), root=tmp_path), AnyEditAlphaEdit(SMALL, derive_alphaedit)
    with editor.edit(session, LONG_EDITS[:1]):
        spaces = dict(editor._open._values)
        with editor.edit(session, [MOVE_TOWER]):
            assert dict(editor._open._values) == spaces != {}
    assert not editor._open


def test_null_spaces_of_an_unchanged_model_are_computed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session, editor = make_session(tiny_model("gpt2"), root=tmp_path), AnyEditAlphaEdit(SMALL, derive_alphaedit)
    computed: list[int] = []

    def counted(covariance: Any, layer: int, *limits: Any) -> Any:
        computed.append(layer)
        return null_space(covariance, layer, *limits)

    monkeypatch.setattr(layers_module, "null_space", counted)
    for edit in LONG_EDITS:
        with editor.edit(session, [edit]):
            pass
    assert computed == list(LAYERS)


@pytest.mark.parametrize("key", PUBLISHED_ALPHAEDIT, ids=lambda key: f"{key[0]}-{key[1]}")
def test_published_model_gets_the_published_values(key: Any) -> None:
    found = derive_alphaedit(AnyEditAlphaEditConfig(), facts_of(*key))
    assert {name: setting.value for name, setting in found.items()} == PUBLISHED_ALPHAEDIT[key].values


def test_other_models_get_the_layers_of_memit_and_a_derived_null_space() -> None:
    key = ("llama", 32, 4096, 11008)
    found = derive_alphaedit(AnyEditAlphaEditConfig(window=9), facts_of(*key))
    assert found["layers"].value == PUBLISHED_MULTI_LAYER[key].values["layers"]
    assert [found[name].value for name in ("window", "nullspace_threshold", "l2")] == [9, None, None]
