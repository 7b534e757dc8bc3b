"""Which editors can be a LoRA adapter is known before a model is loaded."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="torch is not installed: pip install ke-weights")

import ke_plugin_encore
import ke_plugin_ft
import ke_plugin_grace
import ke_plugin_ice
import ke_plugin_memit
import ke_plugin_prune
import ke_plugin_rect
import ke_plugin_rome
import ke_plugin_unke
from ke_core.app import read_catalog, resolve_component
from ke_core.plugin import BadConfig
from ke_testing.cli_fixtures import toys
from ke_weights import hookimpls
from ke_weights.low_rank import low_rank_editors, refuse_without_adapter


@pytest.fixture(scope="module")
def catalog():
    return read_catalog(
        toys(
            hookimpls, ke_plugin_memit, ke_plugin_rome, ke_plugin_ft, ke_plugin_unke, ke_plugin_grace, ke_plugin_ice,
            ke_plugin_rect, ke_plugin_prune, ke_plugin_encore,
        )
    )  # fmt: skip


def test_editors_with_low_rank_updates_are_listed(catalog):
    assert {"memit", "rome"} <= set(low_rank_editors(catalog))
    assert not {"ft", "unke", "grace", "ice"} & set(low_rank_editors(catalog))


@pytest.mark.parametrize("editor", ["memit", "rome", "memit+encore"])
def test_low_rank_updates_are_accepted(catalog, editor):
    refuse_without_adapter(resolve_component(catalog, "editor", editor, {}), catalog)


@pytest.mark.parametrize(("editor", "reason"), [
    ("ft", "computes updates of full rank, and a LoRA adapter holds only low-rank updates"),
    ("unke", "computes updates of full rank, and"),
    ("memit+rect", r"computes updates of full rank \(rect\), and"),
    ("memit+encore+prune", r"computes updates of full rank \(prune\), and"),
    ("grace", "is an adaptor, which changes the outputs of layers, and"),
    ("ice", "changes no weights, and"),
])  # fmt: skip
def test_other_editors_are_refused_with_the_reason(catalog, editor, reason):
    name = editor.replace("+", r"\+")
    with pytest.raises(BadConfig, match=f"editor {name} {reason}") as caught:
        refuse_without_adapter(resolve_component(catalog, "editor", editor, {}), catalog)
    assert "memit" in caught.value.hint
    assert "rome" in caught.value.hint
