"""Judge finished runs with judges that ask a model, and score them."""

from __future__ import annotations

from attrs import define, evolve

from ke_core.app import (
    RECORDS,
    Catalog,
    Component,
    Index,
    JudgeModel,
    OpenJudge,
    RunFolder,
    dataset_judge,
    judge_run,
    open_judge,
    recorded_run,
    score_folder,
)
from ke_plugin_reproduce.cells import same_model
from ke_plugin_reproduce.requests import RequiredRun


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
        prefixes = {self.catalog.spec("metric", name).prefix for name in request.metrics}
        options = {prefix: given for prefix, given in request.options.items() if prefix in prefixes}
        score_folder(folder, self.catalog, judge=need.judge, metrics=request.metrics, options=options, known=known)

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
