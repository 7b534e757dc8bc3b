"""The test kit for published tables: valid and invalid results for ``sound``."""

from __future__ import annotations

from pathlib import Path

import pytest

from ke_benchmarks import ReproductionSpec
from ke_plugin_reproduce.filled import CellPart, FilledTable, Status
from ke_plugin_reproduce.table import ColumnLayout, Reproduction, RowLayout
from ke_plugin_reproduce.testing import cell, sound, tried, unrun


def filled(*parts: CellPart) -> dict[str, FilledTable]:
    table = Reproduction(
        paper="Somebody 2020",
        title="one cell",
        labels=("Model", "Method"),
        columns=(ColumnLayout(heading="number"),),
        rows=(RowLayout(labels=("Small", "Rome"), printed=("-",)),),
    )
    return {"toy/table-1": FilledTable(name="toy/table-1", table=table, cells=((parts,),))}


def missing(why: str) -> CellPart:
    return CellPart(printed=None, status=Status.NOT_RUN, why=why)


def test_a_number_with_its_n_a_reason_and_an_absent_cell_are_sound() -> None:
    number = CellPart(printed=1.0, status=Status.MATCHES, value=1.0, n=3)
    found = filled(number, missing("Old: switched off"), CellPart(printed="", status=Status.ABSENT))
    sound(found)
    assert unrun(found["toy/table-1"]) == ["Old: switched off"]


@pytest.mark.parametrize(
    "part",
    [
        CellPart(printed=1.0, status=Status.MATCHES, value=1.0),
        CellPart(printed=1.0, status=Status.MATCHES, n=3),
        CellPart(printed=1.0, status=Status.DIFFERS, value=float("nan"), n=3),
        missing(""),
        missing("the cell has no editor"),
        missing("accuracy.efficacy has no number here: after editing, prompt direct"),
        missing("toy has no contaminated cases"),
    ],
)
def test_a_number_without_n_or_an_unknown_pick_is_unsound(part: CellPart) -> None:
    with pytest.raises(AssertionError, match="toy/table-1: "):
        sound(filled(part))


def test_an_accepted_reason_is_sound() -> None:
    why = "accuracy.efficacy has no number here: after editing, prompt direct"
    sound(filled(missing(why)), absent=[why])


def test_a_cell_is_found_by_its_last_label_or_by_all() -> None:
    (table,) = filled(missing("x")).values()
    assert cell(table, "Rome", "number") == cell(table, ("Small", "Rome"), "number") == (missing("x"),)


def test_a_count_of_a_missing_dataset_has_a_reason(tmp_path: Path) -> None:
    text = """
paper = "Somebody 2020"
title = "how many"
labels = ["Count"]
set = { dataset = "no-such-set" }
columns = [{ heading = "cases" }]
[[rows]]
labels = ["all"]
pick = { source = "statistics", aspect = "cases" }
printed = [7]
"""
    spec = ReproductionSpec(name="toy/table-1", text=lambda: text)
    found = tried([spec], lambda _editor, _ask: "", root=tmp_path)
    assert unrun(found["toy/table-1"]) == ["no dataset called 'no-such-set'"]
