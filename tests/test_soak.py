"""Thousands of sequential edits: memory does not grow, and the weights are restored bit for bit."""

import gc
from contextlib import contextmanager

import pytest
import torch

from ke_core.app import installed_catalog
from ke_core.engine.passthrough import PassthroughModel
from ke_core.plugins.options import configure
from ke_core.runner.apply import EditApplier
from ke_core.runner.usage import resident
from ke_core.spec.facts import Cloze, Edit, Entity, Fact, Relation
from ke_plugin_hf.testing import tiny_model
from ke_testing.fakes import make_session
from ke_weights.plugin import LowRank

pytestmark = pytest.mark.integration

EDITS = 1_000
SETTLED = 400
"""The number of edits after which every cache and pool has its final size."""
ROOM = 12 << 20
"""The allowed growth in bytes. A copy of the edited weight for each of the other edits would be 27 MB."""
WEIGHT = "model.layers.1.mlp.down_proj.weight"


def edit(number):
    """Move town ``number`` to another country."""
    town, relation = Entity(label=f"town {number}"), Relation(id="in", label="country")
    before, after = (Fact(subject=town, relation=relation, objects=(Entity(label=name),)) for name in ("Peru", "Chad"))
    cloze = Cloze(template="{} lies in", subject=town.label)
    return Edit(id=str(number), statement=f"{town.label} lies in Chad", before=before, after=after, cloze=cloze)


class Nudge:
    """Adds one outer product for each edit, as ROME does, without optimizing it."""

    def check(self, session, edits):
        return {}

    @contextmanager
    def edit(self, session, edits):
        with session.model.patch() as weights:
            for one in edits:
                weights.add(WEIGHT, product(int(one.id)))
            yield PassthroughModel(session, {"edits": len(edits)})


def product(seed):
    draw = torch.Generator().manual_seed(seed)
    left, right = (1e-3 * torch.randn(size, 1, generator=draw) for size in (64, 176))
    return LowRank(left=left, right=right.T)


def test_a_thousand_edits_are_restored_without_memory_growth(tmp_path):
    model = tiny_model("llama")
    session = make_session(model, root=tmp_path)
    before = {name: tensor.clone() for name, tensor in model.module.state_dict().items()}
    state = dict(model.state())
    digests = set()
    with EditApplier(session=session, editor=Nudge(), joint=True) as maker:
        for number in range(EDITS):
            maker.add([edit(number)])
            digests.add(model.digest)
            if number == SETTLED:
                gc.collect()
                settled = resident()
        gc.collect()
        grown = resident() - settled
    assert len(digests) == EDITS  # every edit changed the model
    assert grown < ROOM
    assert dict(model.state()) == state
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.module.state_dict().items())


@pytest.mark.parametrize(
    ("name", "options", "kept"),
    [
        ("ft", {"epochs": "1", "layers": "1", "lr": "0.01"}, 0),
        ("lora", {"epochs": "1"}, 0),
        ("memit", {"steps": "1", "tokens": "2000"}, 0),
        ("alphaedit", {"steps": "1", "tokens": "2000"}, 4 * 176 * 4),  # the keys of earlier edits, in four layers
    ],
)
def test_an_active_edit_keeps_no_copy_of_its_updates(tmp_path, monkeypatch, name, options, kept):
    monkeypatch.setenv("KE_CACHE_DIR", str(tmp_path / "cache"))
    spec = installed_catalog().spec("editor", name)
    editor = spec.build(configure(spec, options))
    session = make_session(tiny_model("llama"), root=tmp_path)
    with EditApplier(session=session, editor=editor, joint=True) as maker:
        for number in range(4):
            maker.add([edit(number)])
        before = held()
        for number in range(4, 12):
            maker.add([edit(number)])
        assert (held() - before) / 8 <= kept


def held():
    """Return the bytes of all live tensors."""
    gc.collect()
    tensors = (one for one in gc.get_objects() if issubclass(type(one), torch.Tensor))  # proxies report other classes
    return sum(one.numel() * one.element_size() for one in tensors)
