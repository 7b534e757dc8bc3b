"""Progress: bars on a terminal, a line now and then elsewhere."""

import contextlib
import io
import time

import pytest
from rich.console import Console

from ke_core.cli import console as module
from ke_core.cli.console import BarProgress, LineProgress, progress


def lines():
    written = io.StringIO()
    return LineProgress(Console(file=written, width=100)), written


@pytest.fixture
def clock(monkeypatch):
    """The time that ``LineProgress`` sees, in a list of one."""
    now = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    return now


def test_without_a_terminal_each_label_starts_with_one_line():
    shown, written = lines()
    shown.advance("loading the model", 0)
    shown.advance("loading the model", 1, 1)
    for done in (0, 1, 2):
        shown.advance("asking the unedited model", done, 2)
    shown.advance("asking the unedited model", 0, 2)
    assert written.getvalue().splitlines() == ["loading the model", "asking the unedited model: 0/2"]


def test_line_names_outermost_and_innermost_work_and_time_left(clock):
    shown, written = lines()
    shown.advance("cases", 0, 6)
    shown.advance("asking", 0, 9)
    clock[0] = 30.0
    shown.advance("cases", 2, 6)
    shown.advance("requests", 10)
    shown.write()
    assert written.getvalue().splitlines()[-1] == "cases: 2/6, about 60 s left; requests: 10"


def test_the_first_fifth_of_the_work_gives_no_estimate(clock):
    shown, written = lines()
    for seconds, done in ((0.0, 0), (200.0, 1), (300.0, 10)):
        clock[0] = seconds
        shown.advance("cases", done, 110)
        shown.write()
    *_first, early, late = written.getvalue().splitlines()
    assert (early, late) == ("cases: 1/110", "cases: 10/110, about 50 min 0 s left")


def test_lines_are_repeated_while_nothing_advances(monkeypatch):
    monkeypatch.setattr(module, "QUIET_SECONDS", 0.01)
    shown, written = lines()
    with shown:
        shown.advance("loading the model", 0)
        deadline = time.monotonic() + 60
        while written.getvalue().count("\n") < 3 and time.monotonic() < deadline:
            time.sleep(0.01)
    assert set(written.getvalue().splitlines()) == {"loading the model"}


def test_work_after_the_context_is_closed_is_not_printed():
    shown, written = lines()
    with shown:
        shown.advance("loading the model", 0)
    shown.advance("asking", 0, 1)
    assert written.getvalue().splitlines() == ["loading the model"]


def test_nothing_is_written_when_no_work_is_open():
    shown, written = lines()
    shown.advance("done already", 3, 3)
    shown.write()
    assert written.getvalue() == ""


def test_tracking_yields_every_item_and_counts_it():
    shown, written = lines()
    taken = []
    for item in shown.track(["a", "b"], "[red]steps[/red]"):
        taken.append(item)
        shown.write()
    assert taken == ["a", "b"]
    assert [line.split(",")[0] for line in written.getvalue().splitlines()] == [
        "[red]steps[/red]: 0/2", "[red]steps[/red]: 0/2", "[red]steps[/red]: 1/2",
    ]  # fmt: skip


def test_tracking_without_a_total_counts_items():
    shown, written = lines()
    for _item in shown.track(iter("ab"), "steps"):
        shown.write()
    assert written.getvalue().splitlines() == ["steps", "steps", "steps: 1"]


def test_tracked_work_has_ended_when_its_loop_is_left():
    shown, written = lines()
    for _item in shown.track("abc", "steps"):
        break
    with contextlib.suppress(ValueError):
        for _item in shown.track("abc", "more steps"):
            raise ValueError
    written.truncate(0)
    shown.write()
    assert not written.getvalue()


def test_full_bar_disappears_from_the_terminal():
    written = io.StringIO()
    with progress(Console(file=written, force_terminal=True, width=100)) as shown:
        assert isinstance(shown, BarProgress)
        shown.advance("edited model", 1, 3)
        shown._bars.refresh()
        assert "edited model" in written.getvalue()
        assert "1/3" in written.getvalue()
        shown.advance("edited model", 3, 3)
        assert not shown._tasks
        assert list(shown.track("ab", "again")) == ["a", "b"]


def test_a_bar_that_starts_full_is_not_drawn():
    shown = BarProgress(Console(file=io.StringIO(), force_terminal=True))
    shown.advance("done already", 3, 3)
    assert not shown._tasks


def test_output_to_a_pipe_has_100_columns_and_no_color(monkeypatch, capsys):
    monkeypatch.delenv("COLUMNS", raising=False)
    assert (module.out().width, module.out().color_system) == (100, None)
    module.out().print("word " * 30, style="red")
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 100
