"""The tasks of a run, loaded once, and the harness's evaluation of them."""

from __future__ import annotations

import io
import logging
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr
from difflib import get_close_matches
from functools import cache, partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from attrs import evolve, frozen
from lm_eval.api.model import LM
from lm_eval.defaults import DEFAULT_OTHER_SEED, DEFAULT_RANDOM_SEED
from lm_eval.evaluator import evaluate
from lm_eval.tasks import TaskManager

from ke_core.plugin import BadConfig, EditorRequest, Reply
from ke_plugin_lm_eval import LmEvalConfig
from ke_plugin_lm_eval.recorded import RecordedModel

SEED = DEFAULT_OTHER_SEED
"""The harness's default seed for the choice of few-shot examples."""


@frozen(kw_only=True, eq=False)
class Suite:
    """Loaded tasks. ``loaded``: what the harness's task manager returned. ``requests``: the requests of all tasks.

    ``letters``: multiple choice is answered by a letter.
    """

    loaded: Mapping[str, Any]
    limit: int
    letters: bool = False
    requests: tuple[EditorRequest, ...] = ()

    def model(self, replies: Mapping[str, Reply], *, greedy: bool = False) -> RecordedModel:
        """Return the model that answers from ``replies``."""
        return RecordedModel(replies, greedy=greedy, letters=self.letters)

    @property
    def lettered(self) -> frozenset[str]:
        """The names of tasks and groups whose answers are letters of options."""
        members = {name: group.get_all_tasks() for name, group in self._groups.items()}
        members |= {name: [task] for name, task in self.loaded["tasks"].items()}
        found = {name for name, some in members.items() if all(one.OUTPUT_TYPE == "multiple_choice" for one in some)}
        return frozenset(found) if self.letters else frozenset()

    @property
    def leaves(self) -> dict[str, tuple[str, ...]]:
        """The tasks behind each name: a task itself, or those of a group."""
        groups = {name: tuple(one.task_name for one in group.get_all_tasks()) for name, group in self._groups.items()}
        return {**groups, **{name: (name,) for name in self.loaded["tasks"]}}

    @property
    def _groups(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.loaded.get("groups", {})
        return found

    def run(self, model: LM) -> dict[tuple[str, str], float]:
        """Evaluate ``model`` with the harness. Return its numbers by name of the task or group, and metric.

        A metric is ``acc``, or ``exact_match/strict-match`` if the task filters its answers. A group with numbers of
        its own stands for its tasks.
        """
        for task in self.loaded["tasks"].values():
            task.set_fewshot_seed(seed=SEED)
        with quiet(), seeded():
            found = evaluate(model, self.loaded, limit=self.limit or None, bootstrap_iters=0, log_samples=False)
        groups = found.get("groups", {})
        covered = {leaf for name in groups for leaf in self.leaves[name]}
        tasks = {name: own for name, own in found["results"].items() if name in self.loaded["tasks"]}
        shown = {**groups, **{name: own for name, own in tasks.items() if name not in covered}}
        return {(name, metric): value for name, own in shown.items() for metric, value in numbers(own)}


def numbers(own: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Yield the metrics in a table row of the harness, whose keys are ``metric,filter``."""
    for key, value in own.items():
        metric, comma, kind = key.partition(",")
        if comma and not metric.endswith("_stderr") and not isinstance(value, str):
            yield (metric if kind == "none" else f"{metric}/{kind}"), float(value)


@cache
def suite_of(config: LmEvalConfig) -> Suite:
    """Load the tasks of ``config`` and collect their requests. Raises BadConfig."""
    suite = Suite(loaded=load(config), limit=config.limit, letters=config.choices == "generated")
    collecting = suite.model({})
    suite.run(collecting)
    return evolve(suite, requests=tuple(collecting.requests))


def load(config: LmEvalConfig) -> Mapping[str, Any]:
    """Load the tasks. Raises BadConfig for an unknown task, missing data, or a task that ``ke`` cannot run."""
    names = [name.strip() for name in config.tasks.split(",") if name.strip()]
    if not names:
        raise BadConfig("lm-eval.tasks is empty", hint="name at least one task")
    manager = manager_of(names, config.path)
    try:
        with quiet(), seeded():
            loaded: Mapping[str, Any] = manager.load(names)
    except (OSError, ValueError, RuntimeError, KeyError, ImportError) as error:
        words = " ".join(str(error).split())
        raise BadConfig(
            f"lm-eval.tasks: cannot load {config.tasks}: {words}",
            hint="most tasks download their data once: try again with a network and without HF_HUB_OFFLINE",
        ) from error
    for name, task in loaded["tasks"].items():
        _check(name, task)
        if config.fewshot is not None and task.get_config("num_fewshot") != 0:
            task.set_config(key="num_fewshot", value=config.fewshot)
        if task.get_config("num_fewshot") is None:
            task.set_config(key="num_fewshot", value=0)
        task.aggregation = partial(dict, {key: without_overflow(mean) for key, mean in task.aggregation().items()})
    return loaded


def without_overflow(mean: Callable[[Any], float]) -> Callable[[Any], float]:
    """Return ``mean`` with infinity for a number that is too large: the perplexity of a damaged model."""

    def guarded(items: Any) -> float:
        try:
            return mean(items)
        except OverflowError:
            return math.inf

    return guarded


def manager_of(names: Sequence[str], path: str) -> TaskManager:
    """Return the harness's task manager that knows ``names``. Raises BadConfig for an unknown task.

    The index of all the harness's tasks takes seconds, so it is read only if a name is not found without it.
    """
    folders = [str(files("ke_plugin_lm_eval").joinpath("tasks")), *([str(Path(path).expanduser())] if path else [])]
    own = TaskManager(include_path=folders, include_defaults=False)
    if set(names) <= set(own.all_tasks):
        return own
    every = TaskManager(include_path=folders)
    for name in names:
        if name not in every.all_tasks:
            near = get_close_matches(name, every.all_tasks, n=3)
            hint = f"did you mean {', '.join(near)}?" if near else "`lm-eval ls tasks` lists all tasks"
            raise BadConfig(f"lm-eval.tasks: unknown task {name!r}", hint=hint)
    return every


def _check(name: str, task: Any) -> None:
    """Raise BadConfig for a task that runs generated code or shows images."""
    for flag, why in (("UNSAFE_CODE", "runs code that the model writes"), ("MULTIMODAL", "needs images or sound")):
        if getattr(task, flag, False):
            raise BadConfig(f"lm-eval.tasks: {name} {why}", hint="choose another task: ke does not support it")


@contextmanager
def seeded() -> Iterator[None]:
    """Seed the global generators as the harness does, because some tasks shuffle their documents. Restore them after.

    The harness seeds torch too, but none of its tasks uses torch's generator.
    """
    states = random.getstate(), np.random.get_state()  # noqa: NPY002  the generator that tasks use
    random.seed(DEFAULT_RANDOM_SEED)
    np.random.seed(DEFAULT_OTHER_SEED)  # noqa: NPY002
    try:
        yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])  # noqa: NPY002


@contextmanager
def quiet() -> Iterator[None]:
    """Hide the harness's progress bars and notes. Errors are raised."""
    log = logging.getLogger("lm_eval")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with redirect_stderr(io.StringIO()):
            yield
    finally:
        log.setLevel(level)
