"""The tables of the paper: consistency of the printed numbers, and results of runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

from ke_core.app import Plan, select
from ke_core.plugin import Answer, Case, EditorRequest, Gold, Likelihood, Query, Reply, Scored
from ke_core.results import intervals
from ke_plugin_recoe import GROUPS, RELEASED, ke_reproductions
from ke_plugin_reproduce.filled import FilledTable, Status
from ke_plugin_reproduce.testing import cell, sound, tables_of, tried
from ke_testing.dataset import build_dataset

TABLES = tables_of(ke_reproductions())
SCHEMES = tuple(GROUPS)
LIMIT = 30
"""Enough cases of the atlas for every scheme."""
MUCH = 1e12
"""A perplexity larger than any of the unedited model."""
Run = Callable[..., dict[str, FilledTable]]


def printed(name: str) -> dict[tuple[str, ...], tuple[Any, ...]]:
    return {row.labels: row.printed for row in TABLES[f"recoe/{name}"].rows}


def test_tables_are_complete() -> None:
    names = {*(f"table-{number}" for number in range(2, 7)), *(f"figure-{number}" for number in range(4, 7))}
    assert set(TABLES) == {f"recoe/{name}" for name in names}


def test_statistics_sum_to_their_totals() -> None:
    rows = printed("table-2")
    total = rows.pop(("Total",))
    assert tuple(map(sum, zip(*rows.values(), strict=True))) == total == (5037, 22942)
    assert list(rows) == [(scheme,) for scheme in RELEASED]
    assert all(size <= rows[scheme,][0] for scheme, size in RELEASED.items())


def test_deviating_averages_of_table_3_have_a_note() -> None:
    for row in TABLES["recoe/table-3"].rows:
        *schemes, average = row.printed
        assert 0.12 < abs(mean(schemes) - average) < 0.57
        assert row.note == f"the mean of the printed row is {mean(schemes):.2f}"


def test_averages_of_other_tables_are_unweighted_means() -> None:
    for *schemes, average in printed("table-4").values():
        assert mean(schemes) == pytest.approx(average, abs=0.06)
    for name in ("table-5", "table-6"):
        rows = printed(name)
        for (scheme, model), averages in rows.items():
            if scheme == "Average":
                for at, average in enumerate(averages):
                    if average != "":
                        found = mean(rows[one, model][at] for one in SCHEMES)
                        assert found == pytest.approx(average, abs=0.06), (name, model, at)


def test_differences_have_the_sign_of_the_table() -> None:
    for numbers in printed("table-6").values():
        for facts, counterfactuals, difference in (numbers[0:3], numbers[3:6], numbers[7:10]):
            assert facts == "" or facts - counterfactuals == pytest.approx(difference, abs=0.02)


@pytest.mark.parametrize(
    ("model", "prompt", "right"),
    [
        ("7b", "direct", (167, 128, 204, 140, 52, 52)), ("7b", "CoT", (381, 676, 263, 105, 139, 140)),
        ("13b", "direct", (269, 388, 215, 204, 27, 59)), ("13b", "CoT", (411, 733, 278, 167, 135, 158)),
        ("33b", "direct", (414, 649, 299, 365, 33, 60)), ("33b", "CoT", (495, 840, 356, 376, 210, 208)),
    ],
)  # fmt: skip
def test_correct_flip_is_a_fraction_of_correct_answers(model: str, prompt: str, right: tuple[int, ...]) -> None:
    sizes = (1331, 1171, 643, 1041, 509, 501)
    accuracy = printed("table-3")[model, prompt]
    for share, n, size in zip(accuracy, right, sizes, strict=False):
        assert share == pytest.approx(100 * n / size, abs=0.011)
    for editor in ("InputAug", "QLoRA"):
        flips = printed("table-4")[model, editor, prompt]
        for share, n in zip(flips, right, strict=False):
            assert share * n / 100 == pytest.approx(round(share * n / 100), abs=6e-5 * n), (editor, share, n)


def test_points_of_figures_are_in_the_tables() -> None:
    accuracy, flips = printed("table-3"), printed("table-4")
    for (model,), (known, *others) in printed("figure-6").items():
        assert known == accuracy[model, "CoT"][-1]
        for editor, number in zip(("InputAug", "QLoRA", "MEMIT"), others, strict=True):
            assert number == "" or number == flips[model, editor, "CoT"][-1]
    for (scheme,), points in printed("figure-4").items():
        row = printed("table-6")[scheme, "7b"]
        assert points == (*row[0:2], *row[3:5], *row[7:9])


# --- run -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def atlas() -> dict[str, Case]:
    return {case.id: case for case in build_dataset("recoe-atlas").cases()}


@pytest.fixture
def run(atlas: Mapping[str, Case], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ke_no_data: Path) -> Run:
    """QLoRA flips every answer, InputAug those of superlatives, MEMIT none; see ``scored`` and ``judged``.

    InputAug's own prompts are also sent to the unedited model, without edits.
    """
    monkeypatch.setattr(intervals, "RESAMPLES", 20)  # intervals are not tested here

    def say(editor: str, ask: EditorRequest) -> Reply:
        if isinstance(ask, Likelihood):
            return scored(editor, ask)
        case = atlas[ask.case]
        query = next(q for probe in case.probes for q in probe.queries if q.id == ask.query)
        flips = editor == "qlora" or (editor == "input-aug" and case.tags["scheme"] == "superlative" and ask.own)
        return thought(query.gold if flips else query.pre_edit or query.gold, f"I am {editor}.")

    def do(*names: str) -> dict[str, FilledTable]:
        specs = [spec for spec in ke_reproductions() if spec.name.removeprefix("recoe/") in names]
        model = unedited(atlas)
        found = tried(specs, say, root=tmp_path / "runs", limit=LIMIT, fallback="recoe-atlas", model=model)
        sound(found)
        return {name.removeprefix("recoe/"): table for name, table in found.items()}

    return do


def named(gold: Gold) -> str:
    return ", ".join(entity.label for entity in gold.entities)


def thought(gold: Gold, thoughts: str) -> Answer:
    return Answer(text=named(gold), raw=f"{thoughts} Answer: {named(gold)}")


def scored(editor: str, ask: Likelihood) -> Scored:
    """Perplexities of 2 and MUCH: for MEMIT the facts are more probable, for QLoRA the counterfactuals."""
    facts = ask.query.startswith("perplexity-facts")
    return Scored(logprobs=(-3 * math.log(2.0 if facts == (editor == "memit") else MUCH),), tokens=(3,))


def unedited(atlas: Mapping[str, Case]) -> Callable[[str], str]:
    """Return a model that answers everything correctly, after a thought. It is also the judge (``judged``)."""
    questions: list[Query] = [q for case in atlas.values() for probe in case.probes for q in probe.queries]
    known = {query.texts[0]: named(query.pre_edit or query.gold) for query in questions}

    def say(prompt: str) -> str:
        *_rest, asked, last = prompt.splitlines()
        if asked.startswith("Question: "):
            answer = known[asked.removeprefix("Question: ")]
            return f" I am none. Answer: {answer}" if last == "Thoughts:" else f" {answer}"
        return judged(prompt)

    return say


def judged(prompt: str) -> str:
    """Unedited facts are consistent; one of QLoRA's two facts is unrelated; MEMIT's thoughts support no answer."""
    *_rest, before, asked, last = prompt.splitlines()
    if last == "Facts:":
        return "- It is qlora.\n- The sea is blue." if "qlora" in asked else f"- {asked.removeprefix('Text: ')}"
    if asked.startswith("Statement: "):
        label = {"qlora": "consistent", "none": "consistent", "memit": "inconsistent"}
        words = asked.removesuffix(".").split()
        return f" So.\nLabel: {label.get(words[-1], 'unrelated')}"
    return f" So.\nLabel: {'not-support' if 'memit' in before else 'support'}"


def values(table: FilledTable, *row: str) -> list[float | None]:
    return [cell(table, row, column.heading)[0].value for column in table.table.columns]


@pytest.mark.integration
def test_accuracy_and_flips_of_runs(run: Run, atlas: Mapping[str, Case]) -> None:
    filled = run("table-2", "table-3", "table-4", "figure-6")
    for model in ("7b", "13b", "33b"):
        for prompt in ("direct", "CoT"):
            assert values(filled["table-3"], model, prompt) == [100.0] * 7
            assert values(filled["table-4"], model, "QLoRA", prompt) == [100.0] * 7
            flips = values(filled["table-4"], model, "InputAug", prompt)
            assert flips == [100.0, *[0.0] * 5, pytest.approx(100 / 6)]
    assert values(filled["table-4"], "7b", "MEMIT", "CoT") == [0.0] * 7
    assert values(filled["figure-6"], "7b") == [100.0, pytest.approx(100 / 6), 100.0, 0.0]
    assert cell(filled["figure-6"], "33b", "MEMIT")[0].status is Status.ABSENT
    taken = select(list(atlas.values()), Plan(limit=LIMIT), seed=0)
    for scheme in SCHEMES:
        n = sum(case.tags["scheme"] == scheme for case in taken)
        assert cell(filled["table-4"], ("7b", "QLoRA", "direct"), scheme)[0].n == n > 0
    assert values(filled["table-2"], "counting") == [360.0, float(sum(len(case.edits) for case in atlas.values()))]


@pytest.mark.integration
def test_perplexities_of_runs(run: Run) -> None:
    pytest.importorskip("ke_plugin_fact_perplexity")
    filled = run("table-6", "figure-4")
    for scheme in (*SCHEMES, "Average"):
        facts, counterfactuals, difference, *edited = values(filled["table-6"], scheme, "7b")
        assert facts is not None
        assert counterfactuals is not None
        assert difference == pytest.approx(facts - counterfactuals)
        assert edited == pytest.approx([MUCH, 2.0, MUCH - 2, 100.0, 2.0, MUCH, 2 - MUCH, 0.0])
    assert values(filled["figure-4"], "sorting")[2:] == pytest.approx([MUCH, 2.0, 2.0, MUCH])
    assert cell(filled["table-6"], ("counting", "33b"), "MEMIT ACC")[0].status is Status.ABSENT


@pytest.mark.integration
def test_thoughts_are_judged_after_the_run(run: Run) -> None:
    for plugin in ("llm", "coherence", "fact_recall"):
        pytest.importorskip(f"ke_plugin_{plugin}")
    filled = run("table-5", "figure-5")
    for scheme in (*SCHEMES, "Average"):
        assert values(filled["table-5"], scheme, "7b") == [100.0, 100.0, 0.0]
    recall = filled["figure-5"]
    for measure, of_qlora, of_memit in (("Relatedness", 50.0, 100.0), ("Consistency", 50.0, 0.0)):
        assert values(recall, measure, "7b", "Pre-edit") == [100.0] * 6
        assert values(recall, measure, "7b", "QLoRA") == [of_qlora] * 6
        assert values(recall, measure, "13b", "MEMIT") == [of_memit] * 6
