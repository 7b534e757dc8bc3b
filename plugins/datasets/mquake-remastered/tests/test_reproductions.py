"""The tables of the paper: consistency of the printed numbers, and results of runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ke_core.plugin import EditorRequest
from ke_plugin_mquake_remastered import ke_reproductions
from ke_plugin_reproduce.filled import CellPart, Status
from ke_plugin_reproduce.testing import cell, sound, tables_of, tried

TABLES = tables_of(ke_reproductions())
AUDITS = ("mquake-remastered/table-1", "mquake-remastered/table-2")
SIZES = {4: (9171, (1, 1000, 3000, 6000, 9171)), 10: (3000, (1, 100, 1000, 3000)), 11: (1864, (1, 100, 500, 1864))}
BUCKETS = {1000: (196, 804, 2010), 3000: (766, 2234, 914), 6334: (2032, 4302, 63)}
MISFITS = {("Vicuna", "MeLLo", 6000), ("Mistral", "IKE", 100)}
"""Brackets that do not sum to their total; their rows have a note."""


def brackets(number: int) -> Iterator[tuple[str, str, int, list[Any]]]:
    """Yield (model, method, k, total and parts) of every complete cell."""
    table = TABLES[f"mquake-remastered/table-{number}"]
    for row in table.rows:
        for column, printed in zip(table.columns, row.printed, strict=True):
            if printed and all(isinstance(one, float) for one in printed if one != "N/A"):
                yield *row.labels, column.set["edited"], printed


def test_tables_are_complete() -> None:
    assert set(TABLES) == {f"mquake-remastered/table-{number}" for number in (1, 2, 3, 4, 8, 9, 10, 11, 12)}


@pytest.mark.parametrize("number", SIZES)
def test_bracketed_numbers_sum_to_their_totals(number: int) -> None:
    cases, ks = SIZES[number]
    found = list(brackets(number))
    assert {k for _model, _method, k, _printed in found} == set(ks)
    for model, method, k, (total, edited, unedited) in found:
        came = edited if unedited == "N/A" else (k * edited + (cases - k) * unedited) / cases
        assert (unedited == "N/A") == (k == cases)
        if (model, method, k) in MISFITS:
            assert abs(came - total) > 0.02
        else:
            assert came == pytest.approx(total, abs=0.02), (model, method, k)


def test_totals_of_cf_6334_are_pooled() -> None:
    pooled = {
        (model, method, k): (total, sum(n * part for n, part in zip(BUCKETS[k], parts, strict=True)) / sum(BUCKETS[k]))
        for model, method, k, (total, *parts) in brackets(12)
        if k in BUCKETS
    }
    assert len(pooled) > 15
    assert {place for place, (total, came) in pooled.items() if abs(came - total) > 0.02} == {
        ("Llama-3", "PokeMQA", 6334)
    }


def test_inconsistent_rows_have_a_note() -> None:
    noted = {
        (number, *row.labels)
        for number in (4, 10, 11, 12)
        for row in TABLES[f"mquake-remastered/table-{number}"].rows
        if row.note
    }
    misfits = {(4, "Vicuna", "MeLLo"), (10, "Mistral", "IKE"), (12, "Llama-3", "PokeMQA")}
    assert noted == misfits | {(4, "Llama-3", "GWalk")}


def test_rounded_down_total_of_table_12() -> None:
    """The mean of the parts is 1.125; the paper prints 1.12."""
    found = {(model, method, k): printed for model, method, k, printed in brackets(12)}
    assert found["Llama-3", "MeLLo", 3000] == [1.12, 1.17, 1.48, 0.22]


def test_table_3_has_the_numbers_with_all_cases_edited() -> None:
    rows = {row.labels[0]: row.printed for row in TABLES["mquake-remastered/table-3"].rows}
    last = {
        (number, method): printed[0]
        for number in (10, 11)
        for model, method, k, printed in brackets(number)
        if model == "Vicuna" and k == SIZES[number][0]
    }
    for method, printed in rows.items():
        assert (printed[1], printed[3]) == (last[10, method], last[11, method])


# --- run -------------------------------------------------------------------------------------------------


def test_published_audit_of_cf_3k_is_reproduced(tmp_path: Path, ke_data_dir: Path) -> None:
    """Tables 1 and 2: ten cells each; those of the temporal set need its file."""
    if not (ke_data_dir / "mquake/MQuAKE-CF-3k.json").is_file():
        pytest.skip("no mquake/MQuAKE-CF-3k.json")
    specs = [spec for spec in ke_reproductions() if spec.name in AUDITS]
    filled = tried(specs, lambda _editor, _ask: "", root=tmp_path / "runs", data_dir=str(ke_data_dir))
    sound(filled)
    found = [part for name in AUDITS for row in filled[name].cells for (part,) in row]
    measured = [part for part in found if part.status is not Status.NOT_RUN]
    assert [part.value for part in measured] == [part.printed for part in measured]
    assert len(measured) == 20
    assert {part.why for part in found if part not in measured} == {"MQuAKE-T.json of mquake is missing"}


SHARED, ALONE, TRAINED = range(1, 61), range(61, 91), range(91, 99)
"""Cases of CF-6334 at k = 100: train and test, test only, train only; 99 to 102 are unedited."""


def labels(number: int) -> list[str] | None:
    """Return the labels of a case in CF-6334."""
    if number in SHARED:
        return ["train_edited", "test_edited"]
    if number in ALONE:
        return ["test_edited", "test_edited_unique"]
    if number in TRAINED:
        return ["train_edited"]
    return ["test_unedited"] if number <= 102 else None


@pytest.fixture
def data(tmp_path: Path, made: Callable[..., Any]) -> Path:
    """Six cases in each masked set, two of them edited in the split for k = 1; 104 cases in CF-6334."""
    folder = tmp_path / "data"
    folder.mkdir()
    for name, ks in {"CF3k": SIZES[10][1], "CF9k": SIZES[4][1], "T": SIZES[11][1]}.items():
        records = [made(number, None) for number in range(1, 7)]
        for record in records:
            record["split"] = {str(k): ["edited" if k > 1 or record["case_id"] < 3 else "unedited"] for k in ks}
        (folder / f"{name}.json").write_text(json.dumps(records))
    (folder / "CF6334.json").write_text(json.dumps([made(n, labels(n), "CF6334") for n in range(1, 105)]))
    return folder


def answers(editor: str, ask: EditorRequest) -> str:
    """GWalk returns the new answer, PokeMQA the old one, MeLLo each once."""
    if editor == "gwalk" or (editor == "mello" and ask.case == "1"):
        return "BOVILLE"
    return "alaville" if editor == "pokemqa" or (editor == "mello" and ask.case == "3") else ""


@pytest.mark.integration
def test_cells_are_the_results_of_their_runs(data: Path, tmp_path: Path) -> None:
    specs = [spec for spec in ke_reproductions() if spec.name not in AUDITS]
    filled = tried(specs, answers, root=tmp_path / "runs", limit=None, data_dir=str(data))
    missing = "multi-hop.multi-hop has no number here: after editing, prompt"
    buckets = [
        f"{missing} {style}, bucket {name}" for style in ("own", "cot") for name in ("test only", "shared", "unedited")
    ]
    sound(filled, absent=buckets)

    def parts(number: int, method: str, heading: str) -> tuple[CellPart, ...]:
        return cell(filled[f"mquake-remastered/table-{number}"], ("Vicuna", method), heading)

    for number, (cases, _ks) in SIZES.items():
        assert [part.n for part in parts(number, "MeLLo", "1 edited")] == [6, 2, 4]
        for method, values in {"MeLLo": (200 / 6, 50, 25), "GWalk": (200 / 6, 100, 0), "ICE": (0, 0, 0)}.items():
            assert [part.value for part in parts(number, method, "1 edited")] == pytest.approx(values)
        total, edited, unedited = parts(number, "GWalk", f"{cases} edited")
        assert (total.value, edited.value, unedited.why) == (100.0, 100.0, "every case is edited")
        assert f"k = 6, not {cases}" in total.notes

    assert [part.n for part in parts(12, "MeLLo", "100 edited")] == [94, 30, 60, 4]
    for method, shares in {"MeLLo": (100 / 94, 0, 100 / 60, 0), "GWalk": (9000 / 94, 100, 100, 0)}.items():
        assert [part.value for part in parts(12, method, "100 edited")] == pytest.approx(shares)
    assert parts(12, "PokeMQA", "100 edited")[0].status is Status.ABSENT
    assert [part.value for part in parts(12, "PokeMQA", "6334 edited")] == [0.0, None, None, None]

    (walk,) = cell(filled["mquake-remastered/table-3"], "GWalk", "CF-3k, remastered")
    assert (walk.value, walk.n, walk.printed) == (100.0, 6, 66.33)
