"""Progress: bars on a terminal, a line now and then elsewhere."""

import io

from rich.console import Console

from ke_core.cli import console as module
from ke_core.cli.console import BarProgress, LineProgress, progress


def lines(monkeypatch, *, seconds):
    clock = iter(range(0, 1000 * seconds, seconds))
    monkeypatch.setattr(module.time, "monotonic", lambda: next(clock))
    written = io.StringIO()
    return LineProgress(Console(file=written, width=100)), written


def test_without_a_terminal_a_line_comes_now_and_then(monkeypatch):
    shown, written = lines(monkeypatch, seconds=15)
    for done in range(1, 7):
        shown.advance("edited model", done, 6)
    assert written.getvalue().splitlines() == ["edited model 2/6", "edited model 4/6", "edited model 6/6"]


def test_tracking_yields_every_item_and_counts_it(monkeypatch):
    shown, written = lines(monkeypatch, seconds=100)
    assert list(shown.track(["a", "b"], "[red]steps[/red]")) == ["a", "b"]
    assert written.getvalue().splitlines() == [f"[red]steps[/red] {n}/2" for n in (0, 1, 2)]


def test_tracking_of_no_known_length_counts_what_was_taken(monkeypatch):
    shown, written = lines(monkeypatch, seconds=100)
    assert list(shown.track(iter("ab"), "steps")) == ["a", "b"]
    assert written.getvalue().splitlines()[-1] == "steps 2"


def test_on_a_terminal_a_bar_is_drawn_and_goes_when_it_is_full():
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


def test_output_to_a_pipe_has_100_columns_and_no_colour(monkeypatch, capsys):
    monkeypatch.delenv("COLUMNS", raising=False)
    assert (module.out().width, module.out().color_system) == (100, None)
    module.out().print("word " * 30, style="red")
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 100
