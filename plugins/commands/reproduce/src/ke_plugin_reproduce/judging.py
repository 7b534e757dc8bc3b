"""Judge and score finished runs as a table requests it."""

from __future__ import annotations

from attrs import define, evolve

from ke_core.app import (
    RECORDS,
    Catalog,
    Component,
    EvalRequest,
    Index,
    JudgeModel,
    OpenJudge,
    RunFolder,
    build_metrics,
    dataset_judge,
    judge_and_metrics,
    judge_run,
    open_judge,
    read_scores,
    recorded_run,
    resolve_component,
    score_run,
)
from ke_core.plugin import BadRun
from ke_plugin_reproduce.cells import same_model
from ke_plugin_reproduce.requests import RequiredRun


def score_as_requested(folder: RunFolder, request: EvalRequest, catalog: Catalog) -> None:
    """Judge and score a run again unless its scores are of the judge, the metrics and the options of ``request``.

    A later ``ke judge`` or ``ke score`` replaces the scores, and the specification of a run names neither.
    """
    dataset = resolve_component(catalog, "dataset", request.dataset, request.options)
    judge, metrics = judge_and_metrics(
        catalog, dataset.spec.for_config(dataset.config), request.options, judge=request.judge, metrics=request.metrics
    )
    try:
        scored = read_scores(folder)
    except BadRun:  # missing, damaged or older than the records
        scored = None
    if scored and (scored.judge, *scored.metrics) == (judge.component, *(metric.component for metric in metrics)):
        return
    known = recorded_run(folder, catalog, request.data_dir)
    judge_run(folder, known.cases, open_judge(judge, catalog, None))
    with folder.writing():
        score_run(folder, known.cases, build_metrics(metrics), judge=judge.spec.name)


@define(kw_only=True)
class ModelJudges:
    """Judges that ask one model. It is loaded once, and only if a run has replies that the judge has not judged."""

    catalog: Catalog
    asking: JudgeModel
    _opened: OpenJudge | None = None

    def score(self, folder: RunFolder, need: RequiredRun) -> None:
        """Judge a run with the judge of ``need``, and score it with the metrics and options of its request."""
        request = need.request
        known = recorded_run(folder, self.catalog, request.data_dir)
        chosen = dataset_judge(self.catalog, known.spec, need.judge, need.options)
        if not self._judged(folder, chosen.component):
            self._opened = opened = self._opened or open_judge(chosen, self.catalog, self.asking)
            assert opened.session is not None
            component = evolve(chosen.component, model=opened.component.model)
            judge = evolve(opened, judge=chosen.built, component=component, scored=chosen.spec.scored)
            judge_run(folder, known.cases, judge, self.asking)
        # not score_folder, which keeps the options of the last scores
        _judge, metrics = judge_and_metrics(
            self.catalog, known.spec, request.options, judge=request.judge, metrics=request.metrics
        )
        with folder.writing():
            score_run(folder, known.cases, build_metrics(metrics), judge=need.judge)

    def _judged(self, folder: RunFolder, judge: Component) -> bool:
        """Return whether ``judge`` is the last judge of a run and has judged every reply.

        Only the name of its model is compared, because the digest is unknown before the model is loaded.
        """
        index = Index.of(folder.path / RECORDS)
        if not index.judges:
            return False
        key, last = [*index.judges.items()][-1]
        return (
            last.model is not None
            and same_model(self.asking.model.named(self.catalog), last.model)
            and evolve(last, model=None) == judge
            and not index.count(key)
        )
