"""Ctrl-C waits while a context opens or closes, and is raised afterwards."""

import signal
import threading
from contextlib import ExitStack, contextmanager
from weakref import WeakKeyDictionary

import pytest

from ke_core.interrupts import UninterruptibleContext, uninterruptible, uninterruptible_context
from ke_core.spec.errors import ToldToEnd
from ke_testing.interrupts import Interrupter, points_of

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("interruptible")]


def press(number=signal.SIGINT):
    signal.raise_signal(number)


class Change(UninterruptibleContext["Change"]):
    """Logs its steps, and calls ``opening`` and ``closing`` half-way."""

    def __init__(self, opening=lambda: None, closing=lambda: None):
        self.opening, self.closing, self.done = opening, closing, []

    def _begin(self):
        self.done.append("begin")
        self.opening()
        self.done.append("begun")
        return self

    def _end(self, _error):
        self.done.append("end")
        self.closing()
        self.done.append("ended")


WHOLE = ["begin", "begun", "end", "ended"]


def test_an_interrupt_while_a_context_opens_closes_it_and_skips_the_body():
    change = Change(opening=press)
    with pytest.raises(KeyboardInterrupt), change:
        pytest.fail("the body ran")
    assert change.done == WHOLE


def test_an_interrupt_while_a_context_closes_is_raised_afterwards():
    change = Change(closing=press)
    with pytest.raises(KeyboardInterrupt), change:
        pass
    assert change.done == WHOLE


def test_an_interrupt_of_the_body_is_raised_at_once():
    change = Change()
    rest = []

    def body():
        press()
        rest.append("ran")

    with pytest.raises(KeyboardInterrupt), change:
        body()
    assert (rest, change.done) == ([], WHOLE)


def test_a_second_interrupt_waits_until_the_context_has_closed():
    change = Change(closing=lambda: (press(), press()))
    with pytest.raises(KeyboardInterrupt), change:
        press()
    assert change.done == WHOLE


def test_an_interrupt_follows_the_error_of_the_body():
    with pytest.raises(KeyboardInterrupt) as caught, Change(closing=press):
        raise ZeroDivisionError
    assert isinstance(caught.value.__context__, ZeroDivisionError)


def test_an_interrupt_follows_the_error_of_opening():
    def fails():
        press()
        raise ZeroDivisionError

    with pytest.raises(KeyboardInterrupt) as caught, Change(opening=fails):
        pytest.fail("the body ran")
    assert isinstance(caught.value.__context__, ZeroDivisionError)


def test_an_interrupt_waits_until_the_outer_context_has_closed():
    inner = Change(closing=press)

    def both():
        with inner:
            pass

    outer = Change(closing=both)
    with pytest.raises(KeyboardInterrupt), outer:
        pass
    assert (inner.done, outer.done) == (WHOLE, WHOLE)


def test_an_uninterruptible_function_raises_the_interrupt_when_it_returns():
    done = []

    @uninterruptible
    def twice():
        done.append(1)
        press()
        done.append(2)

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        twice()
    assert done == [1, 2]
    assert signal.getsignal(signal.SIGINT) is before


def test_the_handler_is_installed_for_open_contexts_only():
    before = signal.getsignal(signal.SIGINT)
    with Change():
        installed = signal.getsignal(signal.SIGINT)
        assert installed != before
        with Change():
            assert signal.getsignal(signal.SIGINT) == installed
        assert signal.getsignal(signal.SIGINT) == installed
    assert signal.getsignal(signal.SIGINT) is before
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_handler_installed_in_a_context_stays():
    def later(_number, _frame):
        pass

    with Change():
        signal.signal(signal.SIGINT, later)
    assert signal.getsignal(signal.SIGINT) is later


def test_a_handler_that_raises_nothing_is_called_once_and_the_body_runs():
    seen = []
    signal.signal(signal.SIGINT, lambda number, _frame: seen.append(number))
    ran = []
    with Change(opening=lambda: (press(), press())) as change:
        ran.append(list(change.done))
    assert (ran, seen, change.done) == ([["begin", "begun"]], [signal.SIGINT], WHOLE)


def test_a_context_that_outlives_its_outer_context_stays_protected():
    outer, inner = Change(), Change(closing=press)
    with pytest.raises(KeyboardInterrupt), ExitStack() as stack, outer:
        stack.enter_context(inner)
    assert inner.done == WHOLE


def test_a_context_left_open_does_not_unprotect_the_next():
    left_open = Change()
    left_open.__enter__()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a library may install its own handler
    change = Change(opening=press)
    with pytest.raises(KeyboardInterrupt), change:
        pytest.fail("the body ran")
    assert change.done == WHOLE


def test_a_context_closed_in_another_thread_does_not_unprotect_the_next():
    closed_elsewhere = Change()
    closed_elsewhere.__enter__()
    thread = threading.Thread(target=closed_elsewhere.__exit__, args=(None, None, None))
    thread.start()
    thread.join()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    change = Change(closing=press)
    with pytest.raises(KeyboardInterrupt), change:
        pass
    assert change.done == WHOLE


def test_an_ignored_interrupt_stays_ignored():
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    change = Change(closing=press)
    with change:
        press()
    assert change.done == WHOLE
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_sigterm_with_a_handler_waits_too():
    def told(_number, _frame):
        raise ToldToEnd("the launcher ends this process")

    before = signal.signal(signal.SIGTERM, told)
    try:
        change = Change(closing=lambda: press(signal.SIGTERM))
        with pytest.raises(ToldToEnd), change:
            pass
        assert change.done == WHOLE
        assert signal.getsignal(signal.SIGTERM) is told
    finally:
        signal.signal(signal.SIGTERM, before)


def test_in_another_thread_nothing_is_installed():
    before, found = signal.getsignal(signal.SIGINT), []

    def work():
        with Change() as change:
            found.append(signal.getsignal(signal.SIGINT))
        found.append(change.done)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [before, WHOLE]


def test_a_thread_does_not_receive_the_interrupt_that_waits_in_the_main_thread():
    found = []

    def work():
        with Change() as change:
            pass
        found.append(change.done)

    def closing():
        press()
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()

    with pytest.raises(KeyboardInterrupt), Change(closing=closing):
        pass
    assert found == [WHOLE]


@uninterruptible_context
def made(changes):
    """A context from a generator."""
    change = Change()
    changes.append(change)
    with change:
        yield change


@contextmanager
def plain(changes):
    """An unprotected context, as other authors write them."""
    with made(changes) as change:
        yield change


def entered(changes):
    with ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(plain(changes))


def nested(changes):
    with plain(changes), made(changes):
        pass


@pytest.mark.parametrize("run", [nested, entered])
def test_interrupts_at_any_line_close_contexts_and_are_raised(run):
    packages = frozenset({"contextlib", "ke_core", __name__.partition(".")[0]})
    points = points_of(lambda: run([]), packages)
    assert len(points) > 50
    for at, point in enumerate(points):
        changes = []
        assert Interrupter(packages=packages, at=at).interrupts(lambda changes=changes: run(changes))
        assert all(change.done in ([], WHOLE) for change in changes), point


def test_an_interrupt_in_the_callback_of_a_weak_reference_is_not_lost():
    class Key:
        pass

    kept = WeakKeyDictionary()

    def run():
        with Change():
            key = Key()
            kept[key] = 1
            del key

    points = points_of(run, frozenset({"weakref"}))
    removing = [at for at, (_file, _line, event) in enumerate(points) if event == "call"]
    assert Interrupter(packages=frozenset({"weakref"}), at=removing[-1]).interrupts(run)
