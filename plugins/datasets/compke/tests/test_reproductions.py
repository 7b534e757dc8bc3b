"""The tables of the paper: consistency of the printed numbers, and results of runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from ke_benchmarks import ReproductionSpec
from ke_core.app import Plan, select
from ke_core.plugin import Case, EditorRequest, Entity
from ke_core.results import intervals
from ke_plugin_compke import COMPKE, ke_reproductions
from ke_plugin_reproduce.filled import FilledTable
from ke_plugin_reproduce.testing import cell, sound, tables_of, tried, unrun
from ke_testing.dataset import build_dataset

TABLES = tables_of(ke_reproductions())
LIMIT = 6
SIZES = (1, 100, 3000)
BESIDE = "compke/figure-5"
"""Also needs MQuAKE."""
EMPTY = "nothing was left to measure: "


def printed(name: str) -> dict[tuple[str, ...], tuple[Any, ...]]:
    return {row.labels: row.printed for row in TABLES[f"compke/{name}"].rows}


def test_tables_are_complete() -> None:
    assert set(TABLES) == {f"compke/{name}" for name in ("table-2", "table-3", "figure-4", "figure-5", "figure-7")}


def test_acc_is_the_mean_of_aug_and_ret_in_48_triples() -> None:
    triples = [row[at : at + 3] for row in printed("table-3").values() for at in (0, 3, 6)]
    assert len(triples) == 48
    for aug, ret, acc in triples:
        assert (aug + ret) / 2 == pytest.approx(acc, abs=0.0051)


def test_statistics_sum_to_the_total_and_match_the_loader() -> None:
    for *parts, total in printed("table-2").values():
        assert sum(parts) == total == 11924
    for row in TABLES["compke/table-2"].rows:
        assert [COMPKE.published[pick["aspect"]] for pick in row.picks] == list(row.printed)


def test_points_of_figures_are_in_table_3() -> None:
    table = printed("table-3")
    points = {**printed("figure-4"), **printed("figure-7")}
    assert set(points) == set(table)
    for labels, (one, hundred, thousand, most) in points.items():
        assert (one, hundred, most) == (table[labels][2], table[labels][5], table[labels][8])
        assert thousand == "-"


def test_rows_swapped_in_the_abstract_have_a_note() -> None:
    for name in ("table-3", "figure-7"):
        said = {row.labels[0] for row in TABLES[f"compke/{name}"].rows if "may be swapped" in row.note}
        assert said == {"GPT-4o-mini"}


# --- run -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def atlas() -> dict[str, Case]:
    return {case.id: case for case in build_dataset("compke-atlas").cases()}


@pytest.fixture(scope="module")
def taken(atlas: Mapping[str, Case]) -> Sequence[Case]:
    """The selected cases of the runs."""
    return select(list(atlas.values()), Plan(limit=LIMIT), seed=0)


@pytest.fixture(scope="module")
def filled(atlas: Mapping[str, Case], tmp_path_factory: pytest.TempPathFactory) -> dict[str, FilledTable]:
    """Every table except the one that needs MQuAKE."""
    found = run([spec for spec in ke_reproductions() if spec.name != BESIDE], atlas, tmp_path_factory.mktemp("tables"))
    sound(found)
    return found


def run(specs: list[ReproductionSpec], atlas: Mapping[str, Case], root: Path) -> dict[str, FilledTable]:
    """ROME answers with the new set, MEMIT with the added objects, MeLLo with the retained ones, PokeMQA with none."""

    def say(editor: str, ask: EditorRequest) -> str:
        asked = next(q for probe in atlas[ask.case].probes for q in probe.queries if q.id == ask.query)
        old = {entity.key for entity in asked.pre_edit.entities} if asked.pre_edit else set()
        chosen: dict[str, list[Entity]] = {
            "rome": list(asked.gold.entities),
            "memit": [entity for entity in asked.gold.entities if entity.key not in old],
            "mello": [entity for entity in asked.gold.entities if entity.key in old],
            "pokemqa": [],
        }
        return ", ".join(entity.label for entity in chosen[editor])

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KE_CACHE_DIR", str(root / "cache"))
        patch.delenv("KE_DATA_DIR", raising=False)
        patch.setattr(intervals, "RESAMPLES", 20)  # intervals are not tested here
        return tried(specs, say, root=root / "runs", limit=LIMIT, fallback="compke-atlas")


def values(table: FilledTable, *row: str) -> list[float | None]:
    return [cell(table, row, column.heading)[0].value for column in table.table.columns]


@pytest.mark.integration
@pytest.mark.parametrize("model", ["Qwen2.5-3B", "Qwen2.5-7B", "Llama-3.1-8B"])
def test_aug_ret_and_acc_of_runs(filled: Mapping[str, FilledTable], model: str) -> None:
    table = filled["compke/table-3"]
    assert values(table, model, "ROME") == [100.0, 100.0, 100.0] * 3
    assert values(table, model, "MEMIT") == [100.0, 0.0, 50.0] * 3
    assert values(table, model, "MeLLo") == [0.0, 100.0, 50.0] * 3
    assert values(table, model, "PokeMQA") == [0.0, 0.0, 0.0] * 3


def test_aug_excludes_questions_with_nothing_to_add(filled: Mapping[str, FilledTable], taken: Sequence[Case]) -> None:
    questions = [
        query for case in taken for probe in case.probes if probe.aspect == "complex" for query in probe.queries
    ]
    adding = [query for query in questions if query.pre_edit and _keys(query.gold) - _keys(query.pre_edit)]
    keeping = [query for query in questions if _keys(query.gold) & _keys(query.pre_edit or query.gold)]
    table = filled["compke/table-3"]
    counts = [cell(table, ("Qwen2.5-3B", "ROME"), f"1-edited {part}")[0].n for part in ("Aug", "Ret", "Acc")]
    assert counts == [len(adding), len(keeping), LIMIT]
    assert 0 < len(adding) < len(questions) == 3 * LIMIT


def _keys(gold: Any) -> set[str]:
    return {entity.key for entity in gold.entities}


def test_batch_is_limited_to_the_selected_cases(filled: Mapping[str, FilledTable]) -> None:
    notes = [cell(filled["compke/table-3"], ("Qwen2.5-3B", "ROME"), f"{k}-edited Aug")[0].notes for k in SIZES]
    assert f"k = {LIMIT}, not 3000" in notes[2]
    assert not any(note.startswith("k = ") for note in notes[0])


def test_figures_use_the_runs_of_the_table(filled: Mapping[str, FilledTable]) -> None:
    assert values(filled["compke/figure-4"], "Llama-3.1-8B", "MEMIT") == [50.0] * 4
    assert values(filled["compke/figure-7"], "GPT-4o-mini", "MeLLo") == [50.0] * 4
    assert unrun(filled["compke/figure-7"]) == ["GPT-3.5-Turbo: OpenAI shut down gpt-3.5-turbo on 23 October 2026"]


def test_statistics_are_counted_in_the_dataset(filled: Mapping[str, FilledTable], atlas: Mapping[str, Case]) -> None:
    table = filled["compke/table-2"]
    edits = [sum(len(case.edits) == number for case in atlas.values()) for number in range(1, 6)]
    steps = [sum(case.tags["steps"] == f"{number}-step" for case in atlas.values()) for number in range(1, 6)]
    assert values(table, "edits") == [*map(float, edits), 400.0]
    assert values(table, "steps") == [*map(float, steps), 400.0]


@pytest.mark.integration
def test_figure_5(atlas: Mapping[str, Case], tmp_path: Path) -> None:
    """MQuAKE's columns have no numbers here, because ``compke-atlas`` replaces both datasets."""
    pytest.importorskip("ke_plugin_mquake")
    (spec,) = (spec for spec in ke_reproductions() if spec.name == BESIDE)
    found = run([spec], atlas, tmp_path)
    sound(found, absent=("multi-hop.multi-hop has no number here: after editing, prompt own",))
    assert values(found[BESIDE], "MeLLo") == [None, None, 50.0]
