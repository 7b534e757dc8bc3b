"""Patches made manually on tiny models that are loaded from folders, as users load theirs."""

from types import SimpleNamespace

import pytest
import torch

from ke_core.app import Component, ModelRef
from ke_core.plugin import Cloze, Edit, Entity, Fact, ModelRequest, Relation, SourcedEdit
from ke_plugin_hf.guard import Dense, LowRank
from ke_plugin_hf.loading import load
from ke_plugin_hf.testing import saved, tiny_model
from ke_weights.patches.build import build_patch
from ke_weights.patches.identity import size_of, weights_digest
from ke_weights.patches.info import PatchBase

WEIGHTS = {
    "llama": ("model.layers.1.mlp.down_proj.weight", "model.layers.2.mlp.down_proj.weight"),
    "gpt2": ("transformer.h.1.mlp.c_proj.weight", "transformer.h.2.mlp.c_proj.weight"),
}


@pytest.fixture(scope="session")
def folders(tmp_path_factory):
    """A checkpoint of each family and dtype, written once."""
    made = {}

    def folder(family="llama", dtype="float32"):
        if (family, dtype) not in made:
            made[family, dtype] = saved(tiny_model(family, dtype=dtype), tmp_path_factory.mktemp(f"{family}-{dtype}"))
        return made[family, dtype]

    return folder


@pytest.fixture
def opened(folders):
    def model(family="llama", dtype="float32", path=None):
        return load(
            ModelRequest(id=str(path or folders(family, dtype)), dtype=dtype), str(path or folders(family, dtype))
        )

    return model


def fact(subject="Danielle Darrieux", target="English", old="French"):
    template = "The mother tongue of {} is"
    about, relation = Entity(label=subject), Relation(label=template, cloze=template)
    edit = Edit(
        id=f"{subject}-{target}",
        statement=f"The mother tongue of {subject} is {target}",
        before=Fact(subject=about, relation=relation, objects=(Entity(label=old),)),
        after=Fact(subject=about, relation=relation, objects=(Entity(label=target),)),
        cloze=Cloze(template=template, subject=subject),
    )
    return SourcedEdit(edit=edit, source="an encyclopedia", date="2026-01-31")


def base_of(model):
    name = str(model.module.dtype).removeprefix("torch.")
    reference = ModelRef(source="hf", id="tiny", digest=model.digest, dtype=name)
    return PatchBase(model=reference, weights=weights_digest(model.module), size=size_of(model.module), folder=True)


def low_rank(rank=2, seed=0, size=0.05, out=64, inner=176):
    draw = torch.Generator().manual_seed(seed)
    left, right = torch.randn(out, rank, generator=draw), torch.randn(rank, inner, generator=draw)
    return LowRank(left=left * size, right=right)


def dense(seed=0, size=0.02, out=64, inner=176):
    return Dense(delta=torch.randn(out, inner, generator=torch.Generator().manual_seed(seed)) * size)


def make_patch(model, deltas, edits=(), editor="toy"):
    component = Component(name=editor, distribution="ke-plugin-toy", version="1.0", options={"layers": [1, 2]})
    listed = {name: delta if isinstance(delta, list) else [delta] for name, delta in deltas.items()}
    return build_patch(
        model.module, listed, base=base_of(model), editor=component, edits=edits or (fact(),), details={"norms": [0.5]}
    )


@pytest.fixture
def kit():
    """Functions that create patches and their parts."""
    return SimpleNamespace(
        weights=WEIGHTS, fact=fact, base_of=base_of, low_rank=low_rank, dense=dense, make_patch=make_patch
    )
