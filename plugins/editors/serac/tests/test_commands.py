"""Networks of ``ke train`` in a sequential run that is killed and resumed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ke_core.plugin import loads
from ke_plugin_hf.testing import saved, tiny_model
from ke_weights.testing.resuming import count_calls, edited_replies, run_ke

pytestmark = pytest.mark.integration

UNIT_VECTORS = [
    {"idx": place, "name": str(place), "path": "", "type": f"sentence_transformers.models.{kind}"}
    for place, kind in enumerate(("Transformer", "Pooling", "Normalize"))
]


@pytest.fixture(scope="module")
def options(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """Options with a tiny counterfactual model, and a tiny sentence encoder."""
    small = saved(tiny_model(seed=1), tmp_path_factory.mktemp("small"))
    encoder = saved(tiny_model(seed=2), tmp_path_factory.mktemp("encoder"))
    (encoder / "modules.json").write_text(json.dumps(UNIT_VECTORS), encoding="utf-8")
    given = {"counterfactual": small, "encoder": encoder, "blocks": 1, "batch": 2, "scope_batch": 4, "lr": 1e-3}
    return tuple(word for name, value in given.items() for word in ("-o", f"serac.{name}={value}"))


def test_killed_sequential_run_has_the_replies_of_a_whole_run(options: tuple[str, ...], tmp_path: Path) -> None:
    done = run_ke(tmp_path, "train", "serac", "--data", "atlas", *options, "--json", "--minutes", 0.02)
    assert done.returncode == 0, done.stderr
    assert loads(done.stdout)["steps"] > 0
    words = ("eval", "--editor", "serac", *options, "--dataset", "atlas", "--limit", 3, "--sequential")
    words += ("--eval-every", "1", "--model", saved(tiny_model(), tmp_path / "tiny"))

    def run(out: str, kill_after: int = 0) -> int:
        return count_calls(
            tmp_path, "ke_plugin_serac.editor:SeracModel.answer", *words, "--out", out, kill_after=kill_after
        )

    whole = run("whole")
    assert whole > 2
    assert run("cut", whole - 1) == whole - 1
    assert run("cut") < whole, "requests that were recorded are sent again"
    assert edited_replies(tmp_path / "whole") == edited_replies(tmp_path / "cut")
    assert any('"retrieved": ["' in text for *_where, text in edited_replies(tmp_path / "cut"))
