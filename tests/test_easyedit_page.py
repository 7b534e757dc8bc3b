"""The options that docs/coming-from-easyedit.md maps EasyEdit's keys to exist, and its example record is read."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from attrs import fields

from ke_core.app import installed_catalog
from ke_core.runner.edit_files import read_edits

pytestmark = pytest.mark.docs

PAGE = (Path(__file__).resolve().parents[1] / "docs" / "coming-from-easyedit.md").read_text(encoding="utf-8")
LOCATING = ("rome", "r-rome", "memit", "pmet", "emmet", "alphaedit", "nse")


def options(editor: str) -> set[str]:
    return {option.name for option in fields(installed_catalog().spec("editor", editor).config)}


def cells(heading: str) -> list[str]:
    """Return the second column of the table under a heading."""
    section = PAGE.split(f"\n### {heading}\n")[1].split("\n#")[0]
    return [line.split("|")[2].strip() for line in section.splitlines() if line.startswith("| `")]


@pytest.mark.parametrize(
    ("heading", "editor"),
    [
        ("FT", "ft"),
        ("LoRA, QLoRA", "lora"),
        ("MEND", "mend"),
        ("MALMEN", "malmen"),
        ("SERAC", "serac"),
        ("UltraEdit", "ultraedit"),
        ("GRACE", "grace"),
        ("UnKE", "unke"),
        ("WISE", "wise"),
        ("MELO", "melo"),
        ("IKE", "ike"),
    ],
)
def test_mapped_options_of_each_editor_exist(heading: str, editor: str) -> None:
    named = {name for cell in cells(heading) for name in re.findall(rf"`{editor}\.(\w+)", cell)}
    assert named
    assert named <= options(editor)


def test_mapped_options_of_locating_editors_exist() -> None:
    found = set().union(*(options(editor) for editor in LOCATING))
    column = " ".join(cells("ROME, R-ROME, MEMIT, EMMET, AlphaEdit"))
    named = set(re.findall(r"`(\w+)[`=]", column)) - {*LOCATING}
    assert {"layers", "mom2_weight", "l2"} <= named
    assert named <= found


def test_qlora_has_the_options_of_lora() -> None:
    assert options("lora") <= options("qlora")


def test_the_example_record_is_read_with_old_object_and_paraphrase(tmp_path: Path) -> None:
    record = PAGE.split("```json\n")[1].split("```")[0]
    (tmp_path / "facts.jsonl").write_text(record, encoding="utf-8")
    (one,) = read_edits(tmp_path / "facts.jsonl")
    assert one.edit.before is not None
    assert one.edit.before.objects[0].label == json.loads(record)["ground_truth"]
    assert one.paraphrases == ("Danielle Darrieux grew up speaking",)
