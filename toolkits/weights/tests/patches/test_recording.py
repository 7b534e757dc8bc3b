"""Recording of an editor's updates while its context is active."""

import torch

from ke_plugin_hf.guard import Dense, LowRank
from ke_plugin_hf.testing import tiny_model

DOWN, UP = "model.layers.1.mlp.down_proj.weight", "model.layers.1.mlp.up_proj.weight"


def test_open_patches_report_updates_by_name_in_order():
    model = tiny_model("llama")
    with model.recording() as changes:
        with model.patch() as outer:
            outer.add(UP, Dense(delta=torch.ones(176, 64)))
            with model.patch() as inner:
                inner.add(DOWN, LowRank(left=torch.ones(64, 1), right=torch.ones(1, 176)))
                inner.add(UP, Dense(delta=torch.full((176, 64), 2.0)))
                found = changes.deltas()
                assert list(found) == [UP, DOWN]
                assert [float(delta.delta[0, 0]) for delta in found[UP]] == [1, 2]
                assert isinstance(found[DOWN][0], LowRank)
            assert list(changes.deltas()) == [UP]
        assert changes.deltas() == {}


def test_updates_are_not_recorded_by_default():
    model = tiny_model("llama")
    with model.patch() as weights:
        weights.add(DOWN, Dense(delta=torch.ones(64, 176)))
        assert weights.made == []


def test_recording_ends_with_its_context_and_belongs_to_one_model():
    model, other = tiny_model("llama"), tiny_model("llama", seed=1)
    with model.recording() as changes, other.patch() as weights:
        weights.add(DOWN, Dense(delta=torch.ones(64, 176)))
        assert changes.deltas() == {}
    with model.patch() as weights:
        weights.add(DOWN, Dense(delta=torch.ones(64, 176)))
        assert changes.deltas() == {}


def test_recorded_updates_are_copies():
    model, update = tiny_model("llama"), torch.ones(64, 176)
    with model.recording() as changes, model.patch() as weights:
        weights.add(DOWN, Dense(delta=update))
        update.zero_()
        assert float(changes.deltas()[DOWN][0].delta.sum()) == 64 * 176


def test_refused_update_is_not_recorded():
    model = tiny_model("llama")
    with model.recording() as changes, model.patch() as weights:
        try:
            weights.add(DOWN, Dense(delta=torch.full((64, 176), float("nan"))))
        except Exception:  # noqa: BLE001
            assert changes.deltas() == {}
        else:
            raise AssertionError
