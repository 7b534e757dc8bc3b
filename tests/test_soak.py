"""Two thousand edits, each on top of the last: memory does not grow, and the weights come back bit for bit."""

import gc

import pytest
import torch

from ke_core.data.facts import Cloze, Edit, Entity, Fact, Relation
from ke_core.plugins.catalog import read
from ke_core.plugins.manager import discover
from ke_core.plugins.options import configure
from ke_core.run.making import Maker
from ke_core.run.meter import resident
from ke_core.testing.fakes import make_session
from ke_core.testing.tiny import tiny_model

EDITS = 2_000
SETTLED = 400
"""After so many edits every cache and pool has its size."""
ROOM = 12 << 20
"""Bytes. A copy of one edited weight of the tiny model, kept for each of the other edits, would be more than that."""


def edit(number):
    """Town ``number`` lies in another country than it did."""
    town, relation = Entity(label=f"town {number}"), Relation(id="in", label="country")
    before, after = (Fact(subject=town, relation=relation, objects=(Entity(label=name),)) for name in ("Peru", "Chad"))
    cloze = Cloze(template="{} lies in", subject=town.label)
    return Edit(id=str(number), statement=f"{town.label} lies in Chad", before=before, after=after, cloze=cloze)


@pytest.mark.slow
@pytest.mark.timeout(1800)  # two minutes on a machine that does nothing else
def test_two_thousand_edits_leave_no_trace_and_take_no_more_memory(tmp_path, monkeypatch):
    monkeypatch.setenv("KE_CACHE_DIR", str(tmp_path / "cache"))
    spec = read(discover()).spec("editor", "ft")
    editor = spec.build(configure(spec, {"steps": "1", "layers": "1", "lr": "0.01"}))
    model = tiny_model("llama")
    session = make_session(model, root=tmp_path)
    before = {name: tensor.clone() for name, tensor in model.module.state_dict().items()}
    state = dict(model.state())
    digests = set()
    with Maker(session=session, editor=editor, joint=True) as maker:
        for number in range(EDITS):
            maker.add([edit(number)])
            if number % 100 == 0:
                digests.add(model.digest)
            if number == SETTLED:
                gc.collect()
                settled = resident()
        gc.collect()
        grown = resident() - settled
    assert len(digests) == EDITS // 100  # the model did change, every time
    assert grown < ROOM
    assert dict(model.state()) == state
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.module.state_dict().items())
