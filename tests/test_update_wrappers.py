"""Editors with update wrappers: names that can be combined, the order of wrappers, and resumed runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from ke_core.app import Catalog, installed_catalog, resolve_component
from ke_core.plugin import BadConfig, KEError, UnknownComponent
from ke_plugin_hf.testing import saved, tiny_model
from ke_testing.examples import FOUR_MOVES
from ke_testing.fakes import make_session
from ke_weights.testing.reference_memit import LIMITS, ReferenceMemit, distances
from ke_weights.testing.resuming import count_calls, edited_replies
from ke_weights.testing.wrapping import SMALL, wrapped_editor

pytestmark = pytest.mark.usefixtures("one_thread")
LOCATING = ("alphaedit", "emmet", "memit", "nse", "pmet", "r-rome", "rome")
EVERY = "memit+rect+revive+nas+key-history+encore+prune"
OPTIONS = {"revive.energy": "0.5", "nas.samples": "3", "encore.norm": "5", "prune.bound": "0.05", "prune.base": "1e30"}


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return installed_catalog()


@pytest.mark.parametrize("editor", LOCATING)
def test_every_locate_and_edit_editor_takes_wrappers(editor: str, catalog: Catalog) -> None:
    spec = catalog.spec("editor", f"{editor}+rect")
    assert spec.name == f"{editor}+rect"
    assert spec.prefix == editor
    assert spec.cite.endswith("https://arxiv.org/abs/2401.04700")


def test_the_editors_of_the_hint_are_those_that_take_wrappers(catalog: Catalog) -> None:
    with pytest.raises(BadConfig) as refused:
        catalog.registration("editor", "ft+rect")
    assert refused.value.message == "rect wraps editors that locate a fact and write an update, which ft does not"
    assert refused.value.hint == f"use one of: {', '.join(LOCATING)}"


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("lora+rect", BadConfig, "rect wraps editors that locate a fact"),
        ("mend+prune", BadConfig, "prune wraps editors that locate a fact"),
        ("ike+nas", BadConfig, "nas wraps editors that locate a fact"),
        ("none+revive", BadConfig, "revive wraps editors that locate a fact"),
        ("rect", BadConfig, "rect is an update wrapper, not an editor"),
        ("rect+memit", UnknownComponent, "no update wrapper called 'memit'"),
        ("memit+rekt", UnknownComponent, "no update wrapper called 'rekt'"),
        ("memit+", UnknownComponent, "no update wrapper called ''"),
        ("menit+rect", UnknownComponent, "no editor called 'menit'"),
        ("memit+rect+nas+rect", BadConfig, "names a wrapper twice"),
    ],
)
def test_other_names_are_refused(name: str, error: type[KEError], message: str, catalog: Catalog) -> None:
    with pytest.raises(error, match=message.replace("+", r"\+")):
        catalog.registration("editor", name)


@pytest.mark.parametrize("editor", ["alphaedit", "rome", "r-rome"])
@pytest.mark.parametrize("wrapper", ["key-history", "encore"])
def test_wrappers_of_the_normal_matrix_need_editors_that_have_one(editor: str, wrapper: str, catalog: Catalog) -> None:
    component = resolve_component(catalog, "editor", f"{editor}+{wrapper}", {})
    with pytest.raises(BadConfig, match=f"{wrapper} adds a term to the normal matrix .* and {editor} takes none"):
        component.build()


def test_encore_without_a_norm_constraint_takes_every_editor(catalog: Catalog) -> None:
    resolve_component(catalog, "editor", "alphaedit+encore", {"encore": {"norm": "0"}}).build()


def test_options_keep_the_prefix_of_their_component(catalog: Catalog) -> None:
    given = {"memit": {"steps": "7"}, "rect": {"keep": "0.25"}, "key-history": {"weight": "3"}}
    found = resolve_component(catalog, "editor", "memit+rect+key-history", given)
    assert (found.config.steps, found.config.rect_keep, found.config.key_history_weight) == (7, 0.25, 3.0)
    assert found.component.distribution == "ke-plugin-memit+ke-plugin-rect+ke-plugin-key-history"
    assert found.component.code.count("+") == 2
    with pytest.raises(BadConfig, match=r"rect.keep cannot be 2"):
        resolve_component(catalog, "editor", "memit+rect", {"rect": {"keep": "2"}})
    with pytest.raises(BadConfig) as refused:
        resolve_component(catalog, "editor", "memit+rect", {"rect": {"kept": "0.5"}})
    assert refused.value.hint == "did you mean rect.keep?"


class RectThenRevive(ReferenceMemit):
    """Writes the largest relative changes, without their part in the subspace with half of the energy of W."""

    order = ("rect", "revive")

    def filtered(self, layer: int, update: Tensor) -> Tensor:
        for name in self.order:
            update = getattr(self, name)(layer, update)
        return update

    def rect(self, layer: int, update: Tensor) -> Tensor:
        ratio = update.abs() / (self.weight(layer).abs() + 1e-8)
        least = ratio.flatten().sort(descending=True).values[round(0.4 * ratio.numel()) - 1]
        return torch.where(ratio >= least, update, torch.zeros_like(update))

    def revive(self, layer: int, update: Tensor) -> Tensor:
        left, values, right = torch.linalg.svd(self.originals[layer])
        rank = int(((values**2).cumsum(0) < 0.5 * (values**2).sum()).sum()) + 1
        for vector in left.T[:rank]:
            update = update - torch.outer(vector, vector @ update)
        for vector in right[:rank]:
            update = update - torch.outer(update @ vector, vector)
        return update


class ReviveThenRect(RectThenRevive):
    """The same in the other order."""

    order = ("revive", "rect")


@pytest.mark.parametrize("reference", [RectThenRevive, ReviveThenRect])
def test_wrappers_act_in_the_order_of_the_name(reference: type[RectThenRevive], tmp_path: Path) -> None:
    options = {"rect.when": "inside", "revive.energy": "0.5"}
    name = "+".join(("memit", *reference.order))
    assert max(distances(name, reference, "gpt2", "float64", tmp_path, options)) < LIMITS["gpt2", "float64"]


@pytest.mark.parametrize("editor", ["emmet", "alphaedit", "rome", "r-rome"])
def test_other_editors_write_filtered_updates(editor: str, tmp_path: Path) -> None:
    """RECT keeps 40% of the entries of each update."""
    layer = {"layers": "1"} if editor == "alphaedit" else {"layer": "1"}
    model = tiny_model("gpt2")
    before = {name: parameter.detach().clone() for name, parameter in model.module.named_parameters()}
    editing = wrapped_editor(f"{editor}+rect", layer)
    with editing.edit(make_session(model, root=tmp_path), FOUR_MOVES[:1]):
        (changed,) = (
            parameter.detach() - before[name]
            for name, parameter in model.module.named_parameters()
            if not torch.equal(parameter, before[name])
        )
    assert 0.35 < float((changed != 0).float().mean()) <= 0.4 + 1e-3  # some changes round to 0


STATEFUL = ((EVERY, "ke_weights.wrapping:write_wrapped"), ("nse", "ke_plugin_nse.editor:Nse.write"))
"""Editors whose edits depend on earlier ones, and the function that makes an edit."""


@pytest.mark.integration
@pytest.mark.parametrize(("editor", "writes"), STATEFUL)
def test_killed_run_makes_its_edits_again(editor: str, writes: str, tmp_path: Path) -> None:
    """The resumed run records the same replies and the same state as an uninterrupted one."""
    model = saved(tiny_model(), tmp_path / "model")
    first = editor.partition("+")[0]
    given = {f"{first}.{name}": text for name, text in SMALL.items() if name != "mom2_weight"}
    given |= OPTIONS if editor == EVERY else {}
    words = ["eval", "--editor", editor, "--dataset", "atlas", "--limit", "5", "--sequential", "--eval-every", "1"]
    words += ["--model", str(model), *(part for name, text in given.items() for part in ("-o", f"{name}={text}"))]

    def run(out: str, kill_after: int = 0) -> int:
        return count_calls(tmp_path, writes, *words, "--out", out, kill_after=kill_after)

    whole = run("whole")
    assert whole == 5
    assert run("cut", 3) == 3
    assert run("cut") == whole, "the edits are made again, which restores the state"
    assert edited_replies(tmp_path / "cut") == edited_replies(tmp_path / "whole")
    assert details(tmp_path / "cut") == details(tmp_path / "whole")
    if editor == EVERY:
        last = details(tmp_path / "whole")[-1]["wrappers"]
        assert last["key-history"] == {"batches": 5}
        assert last["nas"]["samples"] == 3
        assert last["prune"]["restrained_layers"]


def details(run: Path) -> list[Any]:
    """Return the details of all batches."""
    lines = map(json.loads, (run / "records.jsonl").read_text(encoding="utf-8").splitlines())
    return [line["details"] for line in lines if "details" in line]
