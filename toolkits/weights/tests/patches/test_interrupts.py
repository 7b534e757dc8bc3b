"""Ctrl-C at any point leaves the model unchanged."""

import random
import signal
import time
from contextlib import ExitStack, contextmanager

import pytest

from ke_testing.interrupts import Interrupter, first_and_last, points_of
from ke_weights.hooks import Hooks, frozen_module
from ke_weights.patches import applied, reverted
from ke_weights.patches.checkpoint import read_history, write_checkpoint

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("interruptible", "one_thread")]
TRIES = 500
PACKAGES = frozenset({"contextlib", "ke_core", "ke_plugin_hf", "ke_weights", "test_interrupts"})


@pytest.fixture
def model(opened):
    return opened()


@pytest.fixture
def patch(model, kit):
    return kit.make_patch(model, {name: kit.low_rank() for name in kit.weights["llama"]})


def left_altered(model, run, moments):
    """Yield the points at which an interrupt was lost or left the model changed."""
    before = dict(model.state())
    for at in moments:
        interrupter = Interrupter(packages=PACKAGES, at=at)
        raised = interrupter.interrupts(run)
        after = dict(model.state())
        if not raised or after != before or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            yield interrupter.seen[at : at + 1], raised, [name for name in before if before[name] != after.get(name)]


def test_interrupted_patch_restores_the_model(model, patch):
    def run():
        with applied(model, patch):
            pass

    moments = first_and_last(points_of(run, PACKAGES))
    assert len(moments) > 100
    assert not list(left_altered(model, run, moments))


def opening(model, patch, kit):
    """Return functions that open and close each context that changes a model."""
    layer = model.module.get_submodule(kit.weights["llama"][0].rpartition(".")[0])

    def chain():
        with model.chained() as chain, ExitStack() as stack:
            for _ in range(2):
                stack.enter_context(model.patch()).add(kit.weights["llama"][0], kit.low_rank())
                chain.settle()
                chain.keep()

    def hooks():
        with frozen_module(model.module), Hooks() as hooks:
            hooks.before(layer, lambda _args, _more: None)
            hooks.after(layer, lambda _output: None)
            hooks.change(layer, lambda output: output)
            hooks.stop_after(layer)

    def stack():
        with applied(model, patch), model.recording():
            pass

    return {"chain": chain, "hooks": hooks, "stack": stack}


@pytest.mark.parametrize("which", ["chain", "hooks", "stack"])
def test_other_interrupted_contexts_restore_the_model(model, patch, kit, which):
    model.module.requires_grad_(requires_grad=True)
    run = opening(model, patch, kit)[which]
    assert not list(left_altered(model, run, first_and_last(points_of(run, PACKAGES))))


def test_interrupted_revert_restores_the_model(model, patch, tmp_path, opened):
    folder = tmp_path / "edited"
    with applied(model, patch) as weights:
        write_checkpoint(model, folder, base=patch.info.base, patches=[patch], originals=weights.originals())
    edited, past = opened(path=folder), read_history(folder)

    def run():
        with reverted(edited, past, []):
            pass

    assert not list(left_altered(edited, run, first_and_last(points_of(run, PACKAGES))))


@contextmanager
def alarms():
    """Use SIGALRM instead of Ctrl-C, because a timer can send it at any point. Earlier timers are restored."""
    left, _interval = signal.getitimer(signal.ITIMER_REAL)
    pressed = []

    def alarm(number, frame):
        pressed.append(number)
        if len(pressed) < 3:  # the first two only, so that the test goes on
            signal.getsignal(signal.SIGINT)(signal.SIGINT, frame)

    before = signal.signal(signal.SIGALRM, alarm)
    try:
        yield pressed
    finally:
        signal.setitimer(signal.ITIMER_REAL, left)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("again", [0.0, 0.0002])
def test_patch_interrupted_at_random_points_restores_the_model(model, patch, again):
    """``again``: seconds until a second interrupt."""
    draw, before = random.Random(0), dict(model.state())
    started = time.perf_counter()
    with applied(model, patch):
        pass
    seconds = time.perf_counter() - started
    altered = raised = 0
    with alarms() as pressed:
        for _ in range(TRIES):
            pressed.clear()
            try:
                try:
                    signal.setitimer(signal.ITIMER_REAL, draw.uniform(1e-6, seconds), again)
                    with applied(model, patch):
                        pass
                    while len(pressed) < (2 if again else 1):
                        pass
                finally:
                    signal.setitimer(signal.ITIMER_REAL, 0)
            except KeyboardInterrupt:
                raised += 1
            altered += dict(model.state()) != before
    assert (altered, raised) == (0, TRIES)
