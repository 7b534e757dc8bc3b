"""The harness's scores of each model, from its recorded replies."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator

from attrs import frozen

from ke_core.plugin import ModelRecord, Value
from ke_plugin_lm_eval import LmEvalConfig
from ke_plugin_lm_eval.choices import KEPT
from ke_plugin_lm_eval.recorded import RecordedModel, problem_words
from ke_plugin_lm_eval.suite import Suite, suite_of

GREEDY_UNKNOWN = "the model does not return which token is the most probable (is_greedy)"
NOT_A_NUMBER = "the value is infinite or undefined"


@frozen
class LmEval:
    """Computes values from records."""

    config: LmEvalConfig

    def model_values(self, record: ModelRecord) -> Iterator[Value]:
        """Yield the number of each task and metric. One that lacks a reply or ``is_greedy`` is missing."""
        suite = suite_of(self.config)
        model = suite.model(record.replies)
        found = suite.run(model)
        other = suite.run(suite.model(record.replies, greedy=True)) if model.guessed else found
        reasons, lettered = reasons_by_name(suite, model), suite.lettered
        for place, value in found.items():
            name, metric = place
            if name in lettered:
                if metric not in KEPT:
                    continue
                metric = KEPT[metric]
            odd = "" if math.isfinite(value) else NOT_A_NUMBER  # before the comparison: NaN differs from itself
            unsure = GREEDY_UNKNOWN if other[place] != value else ""
            why = record.skipped or reasons.get(name, "") or odd or unsure
            yield Value(
                aspect=f"{name}/{metric}", value=None if why else value, phase=record.phase, skipped_because=why
            )


def reasons_by_name(suite: Suite, model: RecordedModel) -> dict[str, str]:
    """Return why a task or a group has no numbers, by its name."""
    sent = Counter(request.query.partition("/")[0] for request in model.requests)
    found = {}
    for name, leaves in suite.leaves.items():
        problems = [problem for leaf in leaves for problem in model.problems.get(leaf, ())]
        for words in problem_words(problems, sum(sent[leaf] for leaf in leaves)):
            found[name] = words
    return found
