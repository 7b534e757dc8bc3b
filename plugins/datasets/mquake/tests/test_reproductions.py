"""The tables of the paper: consistency of the printed numbers, and results of runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ke_benchmarks import ReproductionSpec
from ke_core.app import Plan, select
from ke_core.plugin import Answer, Case, Dataset, EditorRequest, Phase, Step, expected
from ke_plugin_mquake import ke_reproductions
from ke_plugin_reproduce.testing import cell, sound, tables_of, tried, unrun

TABLES = tables_of(ke_reproductions())
RUN_IN_ALL = [f"mquake/table-{number}" for number in (3, 4, 5, 12, 13)] + ["mquake/figure-2"]


def printed(name: str, row: str) -> list[Any]:
    """Return the numbers of the first row whose last label is ``row``."""
    return list(next(each.printed for each in TABLES[f"mquake/{name}"].rows if each.labels[-1] == row))


def test_tables_are_complete() -> None:
    assert set(TABLES) == {*RUN_IN_ALL, "mquake/table-14"}


@pytest.mark.parametrize("row", ["FT", "MEND", "ROME", "MEMIT"])
@pytest.mark.parametrize(("name", "sizes"), [("table-12", (1000, 1000, 1000)), ("table-13", (1093, 1067, 572, 268))])
def test_parts_sum_to_the_printed_total(name: str, sizes: tuple[int, ...], row: str) -> None:
    *parts, total = printed(name, row)
    assert sum(n * part for n, part in zip(sizes, parts, strict=True)) / 3000 == pytest.approx(
        total, abs=0.1
    )  # each is rounded


@pytest.mark.parametrize(("name", "sizes"), [("table-12", (1000, 1000, 1000)), ("table-13", (1093, 1067, 572, 268))])
def test_deviation_of_the_unedited_model_has_a_note(name: str, sizes: tuple[int, ...]) -> None:
    *parts, total = printed(name, "Base")
    mean = sum(n * part for n, part in zip(sizes, parts, strict=True)) / 3000
    assert (round(mean, 1), total) == (40.0, 42.1)
    (base,) = (row for row in TABLES[f"mquake/{name}"].rows if row.labels == ("Base",))
    assert "40.0" in base.note


@pytest.mark.parametrize("row", ["Base", "FT", "MEND", "ROME", "MEMIT"])
def test_numbers_in_several_tables_agree(row: str) -> None:
    points = printed("figure-2", row)
    on_cf, on_t = printed("table-3", row)[3], printed("table-4", row)[3]
    assert (points[0], points[4]) == (on_cf, on_t)
    assert printed("table-12", row)[-1] == printed("table-13", row)[-1] == on_cf
    if row in ("MEND", "MEMIT"):
        assert points == printed("table-5", row)


@pytest.mark.parametrize("name", RUN_IN_ALL)
def test_ft_and_mend_use_the_losses_of_the_released_code(name: str) -> None:
    edited = [model.options for model in TABLES[name].models.values() if "ft.layers" in model.options]
    assert edited
    for options in edited:
        assert (options["ft.objective"], options["mend.reduction"]) == ("prompt-last", "token-mean")


def test_gpt_3_with_mello_is_equal_in_both_tables() -> None:
    (row,) = (row for row in TABLES["mquake/table-5"].rows if row.labels == ("GPT-3", "MeLLo"))
    assert list(row.printed[:4]) == printed("table-14", "MeLLo")


# --- run -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def atlas(make: Callable[..., Dataset]) -> dict[str, Case]:
    return {case.id: case for case in make("mquake-atlas").cases()}


def gold(case: Case, query: str, phase: Phase) -> str:
    """Return the right answer in that phase."""
    asked = ((one, probe) for probe in case.probes if probe.asked(phase) for one in probe.queries)
    one, probe = next(pair for pair in asked if pair[0].id == query)
    return expected(one, probe, phase, edited=True).gold.entities[0].label


@pytest.fixture
def says(atlas: dict[str, Case]) -> Callable[[str, EditorRequest], str]:
    """MEMIT answers everything correctly, ROME only the edited facts, MeLLo two-hop questions, FT and MEND nothing."""

    def say(editor: str, ask: EditorRequest) -> str:
        case = atlas[ask.case]
        right = gold(case, ask.query, "after")
        facts = {query.id for probe in case.probes if probe.aspect == "efficacy" for query in probe.queries}
        if editor == "rome":
            return right if ask.query in facts else ""
        if editor == "mello":
            return right if case.tags["hops"] == "2" else ""
        return right if editor == "memit" else ""

    return say


@pytest.fixture
def unedited(atlas: dict[str, Case]) -> Callable[[str], str]:
    """Return the pre-edit answers."""
    known = {
        query.texts[0]: gold(case, query.id, "before")
        for case in atlas.values()
        for probe in case.probes
        if probe.asked("before")
        for query in probe.queries
    }

    def say(prompt: str) -> str:
        thinks = prompt.endswith("Thoughts:")
        last = prompt.splitlines()[-2 if thinks else -1]
        question = last.removeprefix("Question: ").removeprefix("Q: ").removesuffix(" A:")
        return f" So.\nAnswer: {known[question]}" if thinks else f" {known[question]}"

    return say


@pytest.fixture
def specs() -> list[ReproductionSpec]:
    return [spec for spec in ke_reproductions() if spec.name in RUN_IN_ALL]


@pytest.mark.integration
def test_cells_are_the_results_of_their_runs(
    specs: list[ReproductionSpec],
    says: Callable[[str, EditorRequest], str],
    unedited: Callable[[str], str],
    tmp_path: Path,
) -> None:
    filled = tried(specs, says, root=tmp_path / "runs", limit=12, fallback="mquake-atlas", model=unedited)
    picked = {"after": "multi-hop.multi-hop", "before": "multi-hop.pre-edit-multi-hop"}
    rare = [
        f"{aspect} has no number here: {phase} editing, prompt cot, {tag}"
        for phase, aspect in picked.items()
        for tag in ("hops 4", "edits 3", "edits 4")
    ]
    sound(filled, absent=tuple(rare))

    def values(name: str, row: str, *headings: str) -> list[float | None]:
        return [cell(filled[f"mquake/{name}"], row, heading)[0].value for heading in headings]

    four = ("Edit-wise", "Instance-wise", "Multi-hop", "Multi-hop (CoT)")
    for table in ("table-3", "table-4"):
        assert values(table, "MEMIT", *four) == [100.0, 100.0, 100.0, 100.0]
        for nothing in ("FT", "MEND"):
            assert values(table, nothing, *four) == [0.0, 0.0, 0.0, 0.0]
        assert values(table, "Base", *four) == [None, 100.0, 100.0, 100.0]
        assert values(table, "ROME", "Edit-wise", "Multi-hop", "Multi-hop (CoT)") == [100.0, 0.0, 0.0]
    edits = cell(filled["mquake/table-3"], "MEMIT", "Edit-wise")[0]
    assert edits.n > cell(filled["mquake/table-3"], "MEMIT", "Multi-hop")[0].n == 12

    parts = [cell(filled["mquake/table-12"], "MEMIT", heading)[0] for heading in ("2-hop", "3-hop", "All")]
    assert [part.value for part in parts] == [100.0, 100.0, 100.0]
    assert parts[0].n + parts[1].n == parts[2].n == 12
    by_edits = [cell(filled["mquake/table-13"], "FT", f"{n} edit{'s' if n > 1 else ''}")[0].n for n in (1, 2, 3)]
    assert sum(by_edits) == 12

    mello = [cell(filled["mquake/table-5"], ("GPT-J", "MeLLo"), f"CF, k = {k}")[0] for k in (1, 3000)]
    assert [part.value for part in mello] == pytest.approx([100 * parts[0].n / 12] * 2)
    assert "k = 12, not 3000" in mello[1].notes
    assert values("figure-2", "Base", "CF, k = 1", "T, k = 1868") == [100.0, 100.0]
    assert values("figure-2", "MEMIT", "CF, k = 1000", "T, k = 500") == [100.0, 100.0]
    assert "GPT-3: text-davinci-003 was shut down in January 2024" in unrun(filled["mquake/table-5"])


@pytest.mark.integration
def test_retrieval_accuracy(atlas: dict[str, Case], tmp_path: Path) -> None:
    (whole,) = (spec for spec in ke_reproductions() if spec.name == "mquake/table-14")
    alive = whole.text().replace("gone = ", 'ids = ["a/model"] # ', 1)
    spec = ReproductionSpec(name="mquake/table-14", text=lambda: alive)
    known = sorted(atlas)[::2]
    taken = select(list(atlas.values()), Plan(limit=40), seed=0)

    def say(_editor: str, ask: EditorRequest) -> Answer:
        found = ask.own if ask.case in known else ask.own[:1]
        steps = tuple(Step(kind="subquestion", text="", retrieved=(edit,)) for edit in found)
        return Answer(text="", raw="", steps=steps)

    filled = tried([spec], say, root=tmp_path / "runs", limit=40, fallback="mquake-atlas")
    sound(filled)
    fully = sum(len(case.edits) == 1 or case.id in known for case in taken)
    assert 0 < fully < 40
    for k in (1, 100, 1000, 3000):
        part = cell(filled["mquake/table-14"], "Retrieval accuracy", f"k = {k}")[0]
        assert part.value == pytest.approx(100 * fully / 40)
        assert part.n == 40
    assert cell(filled["mquake/table-14"], "MeLLo", "k = 1")[0].value == 0.0
