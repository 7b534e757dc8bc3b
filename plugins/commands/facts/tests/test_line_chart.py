"""Line charts, and the chart of ``ke advise``."""

from __future__ import annotations

from pathlib import Path

import pytest

from ke_core.plugin import BadData
from ke_plugin_facts.advising import Trial, add_trial, chart, read_trials
from ke_plugin_facts.line_chart import HEIGHT, TOP, LinePanel, draw


def test_a_value_is_drawn_at_its_place_on_a_linear_and_on_a_logarithmic_axis() -> None:
    linear = LinePanel(title="", lines={}, ticks=(0, 50, 100))
    logarithmic = LinePanel(title="", lines={}, ticks=(10, 1000), logarithmic=True)
    assert [linear.height(value) for value in (0, 25, 100)] == [TOP + HEIGHT, TOP + HEIGHT * 0.75, TOP]
    assert logarithmic.height(100) == pytest.approx(TOP + HEIGHT / 2)


def test_values_outside_of_the_axis_are_drawn_at_its_ends() -> None:
    panel = LinePanel(title="", lines={}, ticks=(10, 1000), logarithmic=True)
    assert [panel.height(value) for value in (1e15, 0.0)] == [TOP, TOP + HEIGHT]


def test_the_x_axis_is_logarithmic_and_names_are_escaped() -> None:
    panel = LinePanel(title="", lines={"a<b": [(1, 0), (10, 50), (100, 100)]}, ticks=(0, 100))
    svg = draw("title", (panel,), (1, 10, 100), "edits")
    assert 'points="44.0,206.0 164.0,116.0 284.0,26.0"' in svg
    assert "a&lt;b" in svg
    assert "a<b" not in svg


def trial(editor: str, facts: int, efficacy: float, seconds: float) -> Trial:
    return Trial(
        key=f"{editor}-{facts}", editor=editor, facts=facts, efficacy=efficacy, paraphrases=None, consequences=None,
        forgetting=0.0, seconds_per_fact=seconds, seconds_per_question=0.02,
    )  # fmt: skip


def test_the_chart_of_trials_has_the_measured_lines_only() -> None:
    svg = chart([trial("none", 5, 0.0, 0.0), trial("none", 20, 0.0, 0.0), trial("memit", 5, 1.0, 4.0),
                 trial("memit", 20, 0.9, 2.0)])  # fmt: skip
    assert svg.count("<polyline") == 2 + 2 + 1 + 2  # answered, forgetting, seconds per fact, seconds per question
    assert "0.01</text>" in svg


def test_saved_trials_are_read_by_their_key(tmp_path: Path) -> None:
    file = tmp_path / "trials.jsonl"
    assert read_trials(file) == {}
    made = [trial("none", 5, 0.0, 0.0), trial("memit", 5, 1.0, 4.0)]
    for one in made:
        add_trial(file, one)
    assert list(read_trials(file).values()) == made
    file.write_text('{"key": 1}\n', encoding="utf-8")
    with pytest.raises(BadData, match=r"trials\.jsonl:1 does not fit"):
        read_trials(file)
