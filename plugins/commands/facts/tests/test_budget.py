"""The edit budget: its equations, and what ``ke plan`` and ``ke apply`` do with it."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from attrs import evolve

from ke_core.app import (
    Batch,
    CallProgress,
    Component,
    DataRef,
    ModelChoice,
    ModelRef,
    Plan,
    RunFolder,
    RunSpec,
    installed_catalog,
)
from ke_core.plugin import EditFailed, MetricScore, Scored, loads, to_json
from ke_plugin_facts import calibration
from ke_plugin_facts.budget import (
    NOISE,
    SCATTER,
    SPREAD,
    TYPICAL_GROWTH,
    DecayPoint,
    PowerLaw,
    damage_of,
    decay_law,
    fit_power_law,
    norm_law,
    relative_norm,
    rise_of,
)
from ke_plugin_facts.calibration import (
    BudgetCalibration,
    CalibratedEditor,
    EditBudget,
    config_shape,
    recorded_decay,
    version_decay,
)
from ke_plugin_facts.fact_file import read_facts
from ke_plugin_facts.planning import Target, make_plan
from ke_plugin_facts.unrelated import perplexity_rise
from ke_plugin_facts.versions import ManagedFolder

Run = Callable[..., int]
POINTS = tuple(DecayPoint(edits=n, norm=0.02 * n**0.6, damage=3 * (0.02 * n**0.6) ** 2) for n in (1, 10, 30, 100))


def test_exact_power_laws_are_recovered() -> None:
    growth, decay = norm_law(POINTS), decay_law(POINTS)
    assert growth is not None
    assert decay is not None
    assert (growth.scale, growth.exponent) == pytest.approx((0.02, 0.6))
    assert (decay.scale, decay.exponent) == pytest.approx((3 * 0.02**2, 1.2))  # c r^2, p = 2 b
    assert decay.inverse(decay.at(50)) == pytest.approx(50)


@pytest.mark.parametrize("expected", [None, 1.3])
def test_the_fit_is_weighted_least_squares(expected: float | None) -> None:
    pairs = [(1, 0.002), (10, -0.001), (30, 0.05), (100, 0.31)]
    found = fit_power_law(pairs, noise=NOISE, expected=expected)
    x, y = np.array([one for one, _ in pairs]), np.array([one for _, one in pairs])
    weights = 1 / (NOISE**2 + (SCATTER * y) ** 2)

    def error(scale: float, exponent: float) -> float:
        away = 0.0 if expected is None else ((exponent - expected) / SPREAD) ** 2
        return float((weights * (y - scale * x**exponent) ** 2).sum() + away)

    assert found is not None
    least = error(found.scale, found.exponent)
    for scale in (0.99 * found.scale, 1.01 * found.scale):
        for exponent in (found.exponent - 0.01, found.exponent, found.exponent + 0.01):
            assert error(scale, exponent) > least


def test_norms_say_how_a_damage_within_the_noise_grows() -> None:
    few = [evolve(one, damage=0.001) for one in POINTS[:2]]
    law = decay_law(few)
    assert law is not None
    assert law.exponent == pytest.approx(1.2, abs=0.1)
    without = decay_law([evolve(one, norm=None) for one in few])
    assert without is not None
    assert without.exponent == pytest.approx(2 * TYPICAL_GROWTH, abs=0.1)


@pytest.mark.parametrize("pairs", [[], [(1, 0.1)], [(10, 0.1), (10, 0.2)], [(1, -0.1), (10, -0.2)]])
def test_too_few_points_and_damage_that_is_not_positive_give_no_law(pairs: list[tuple[float, float]]) -> None:
    assert fit_power_law(pairs) is None
    assert decay_law([DecayPoint(edits=10, damage=-0.1)]) is None


def test_the_relative_norm_is_over_all_matrices() -> None:
    assert relative_norm([(3.0, 10.0), (8.0, 20.0), (0.0, 0.0)]) == pytest.approx(0.5)


def test_damage_is_the_logarithm_of_the_ratio() -> None:
    assert damage_of(0.1) == pytest.approx(math.log(1.1))
    assert rise_of(damage_of(0.25)) == pytest.approx(0.25)
    assert rise_of(1e4) == math.inf


def test_the_budget_is_the_largest_number_within_the_limit() -> None:
    law = PowerLaw(scale=0.001, exponent=1.0)
    budget = EditBudget(editor="memit", planned=50, limit=0.1, law=law, measured=100)
    assert budget.edits == int(math.log(1.1) / 0.001) == 95
    assert budget.rise == pytest.approx(math.exp(0.05) - 1)
    assert not budget.exceeded


def test_a_prediction_does_not_reach_far_beyond_the_measurements() -> None:
    budget = EditBudget(editor="memit", planned=80, limit=0.1, law=PowerLaw(scale=0.001, exponent=1.0), measured=3)
    assert budget.edits == budget.reach == 30
    assert budget.rise is None
    assert not budget.exceeded  # not known
    assert EditBudget(editor="memit", planned=80, limit=0.1).edits is None


@pytest.mark.parametrize(("planned", "exceeded"), [(95, False), (96, True)])
def test_more_edits_than_the_budget_exceed_it(planned: int, exceeded: bool) -> None:  # noqa: FBT001
    law = PowerLaw(scale=0.001, exponent=1.0)
    assert EditBudget(editor="memit", planned=planned, limit=0.1, law=law, measured=100).exceeded is exceeded


def test_the_rise_is_that_of_the_perplexity() -> None:
    before = {"passage-1": Scored(logprobs=(-4.0,), tokens=(2,)), "passage-2": Scored(logprobs=(-2.0,), tokens=(1,))}
    after = {"passage-1": Scored(logprobs=(-5.0,), tokens=(2,)), "passage-2": Scored(logprobs=(-2.5,), tokens=(1,))}
    assert perplexity_rise(before, after) == pytest.approx(math.exp(7.5 / 3 - 6 / 3) - 1)
    with pytest.raises(EditFailed, match="cannot be compared: it is nan"):
        perplexity_rise(before, {**after, "passage-2": Scored(logprobs=(math.nan,), tokens=(1,))})


OPTIONS = {"ft": {"constrained": "false", "layers": "1"}}
LARGE = ("-o", "ft.lr=0.1")
"""An option that harms the tiny model."""


@pytest.mark.integration
def test_apply_stops_if_unrelated_text_suffers(facts: Path, ke: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert ke("plan") == 2
    assert "Edit budget of ft: not known (no measurement of it on this model)." in capsys.readouterr().out
    assert ke("apply", *LARGE, "--max-rise", "0.01") == 2
    error = " ".join(capsys.readouterr().err.split())
    assert "2 edits of ft exceed the edit budget: the measured rise of the perplexity of unrelated" in error
    assert "more than the limit of 1%" in error
    assert "nothing was changed" in error
    assert not os.path.lexists("edited/current")
    assert ke("apply", *LARGE, "--max-rise", "0.01", "--force", "--json") == 0
    cost = loads(capsys.readouterr().out)["cost"]
    lock = ManagedFolder(root=Path("edited")).current()
    assert lock is not None
    assert lock.cost is not None
    assert cost["rise"] == lock.cost.rise > 0.01
    assert (cost["edits"], cost["predicted"], cost["limit"], cost["forced"]) == (2, None, 0.01, True)
    assert cost["norm"] == lock.cost.norm > 0
    ((source, point),) = version_decay([lock], lock.base.weights, lock.editor)
    assert (source, point.edits, point.norm) == ("version 0001", 2, lock.cost.norm)
    assert math.exp(point.damage) - 1 == pytest.approx(lock.cost.rise)
    assert not list(version_decay([lock], "other weights", lock.editor))
    assert not list(version_decay([evolve(lock, action="rollback")], lock.base.weights, lock.editor))


@pytest.mark.integration
def test_measurements_of_the_same_shape_and_options_predict_the_budget(
    facts: Path, model: Path, ke: Run, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = make_plan(
        read_facts(facts),
        Target(choice=ModelChoice(reference=str(model)), editor="ft", options=OPTIONS),
        ManagedFolder(root=Path("edited")),
        installed_catalog(),
        CallProgress(),
    )
    points = tuple(DecayPoint(edits=n, norm=0.01 * n**0.5, damage=0.05 * n) for n in (1, 10))
    measured = CalibratedEditor(editor="ft", options=plan.component.options, points=points)
    known = BudgetCalibration(model="another", shape=config_shape(plan.loaded.model.module.config), editors=(measured,))
    monkeypatch.setattr(calibration, "shipped", lambda: (known,))
    assert ke("plan", "--json") == 2
    found = loads(capsys.readouterr().out)["budget"]
    assert (found["edits"], found["planned"], found["exceeded"]) == (1, 2, True)  # D(n) = 0.05 n, ln 1.1 = 0.095
    assert found["rise"] == pytest.approx(math.exp(0.1) - 1)
    assert found["sources"] == ["another"]
    assert ke("plan") == 2
    assert "the plan exceeds the edit budget" in " ".join(capsys.readouterr().out.split())
    assert ke("apply") == 2
    error = " ".join(capsys.readouterr().err.split())
    assert "predicted rise of the perplexity of unrelated text is 10.5%, more than the limit of 10%" in error
    assert not os.path.lexists("edited/current")
    assert ke("plan", *LARGE) == 2
    assert "not known (the measurements have other options: lr)" in " ".join(capsys.readouterr().out.split())
    facts.write_text("max-rise = 1\n" + facts.read_text())
    assert ke("apply") == 0


SPEC = RunSpec(
    ke="1", model=ModelRef(source="hf", id="m", digest="d"),
    editor=Component(name="ft", distribution="ke-plugin-ft", version="1", options={"lr": 0.1}),
    dataset=DataRef(component=Component(name="atlas", distribution="ke-plugin-atlas", version="1"), sha256="0"),
    styles=("direct",), plan=Plan(size=4), edited_form="cloze",
)  # fmt: skip


def record_run(path: Path, spec: RunSpec, edits: tuple[int, ...], ratio: float, *, finished: bool = True) -> None:
    """Write a run with these batches, whose metric ``drift`` found this ratio of the perplexities."""
    folder = RunFolder.create(path, spec)
    with folder.writing() as writer:
        writer.append([Batch(batch=str(at), cases=(), edits=n) for at, n in enumerate(edits)])
    if finished:
        folder.close()
    score = MetricScore(metric="drift", aspect="perplexity-ratio", value=ratio, n=1)
    scores = [
        evolve(score, aspect="perplexity", value=9.0),
        evolve(score, phase="before", value=1.0),
        evolve(score, tags={"hops": "2"}, value=7.0),
        score,
    ]
    metric = {"component": to_json(SPEC.editor), "scores": [to_json(one) for one in scores]}
    folder.write_scores({"schema": 1, "judge": to_json(SPEC.editor), "metrics": [metric]})


def test_recorded_runs_are_measurements(tmp_path: Path) -> None:
    record_run(tmp_path / "one", SPEC, (1, 1), 1.02)
    record_run(tmp_path / "two", evolve(SPEC, seed=1), (4, 4, 0, 2), 1.1)
    record_run(tmp_path / "unfinished", evolve(SPEC, seed=2), (4,), 1.2, finished=False)
    record_run(tmp_path / "sequence", evolve(SPEC, plan=Plan(size=4, sequential=True)), (4,), 1.2)
    record_run(tmp_path / "model", evolve(SPEC, model=evolve(SPEC.model, digest="another")), (4,), 1.2)
    record_run(tmp_path / "options", evolve(SPEC, editor=evolve(SPEC.editor, options={})), (4,), 1.2)
    found = dict(recorded_decay(tmp_path, "d", SPEC.editor))
    assert {Path(name).name: one.edits for name, one in found.items()} == {"one": 1, "two": 3}
    assert [math.exp(one.damage) for one in found.values()] == pytest.approx([1.02, 1.1])
