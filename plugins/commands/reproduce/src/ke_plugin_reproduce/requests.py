"""Plan the runs of a cell with the available models and data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from attrs import define, evolve, field, fields_dict, frozen

from ke_core.app import (
    DATA_DIR,
    Catalog,
    EvalRequest,
    ModelChoice,
    Options,
    Plan,
    ResolvedComponent,
    resolve_component,
    split_options,
    with_flag,
)
from ke_core.plugin import BadConfig, BadData, Case, Dataset, JudgeSpec, KEError, canonical, digest, to_json
from ke_plugin_reproduce.cells import Datasets
from ke_plugin_reproduce.reading import ABSENT, HINT, CellPlan, RunNumber, cells
from ke_plugin_reproduce.sweep import identity
from ke_plugin_reproduce.table import PaperModel, Pick, Reproduction, Setup


@frozen(kw_only=True)
class Resources:
    """The models, the data and the limit of cases. ``judge_model``: the model of judges that need one.

    ``fallback``: the dataset that replaces missing ones.
    """

    models: tuple[ModelChoice, ...]
    judge_model: ModelChoice | None = None
    limit: int | None = None
    fallback: str = ""
    data_dir: str = ""


@frozen(kw_only=True)
class RequiredRun:
    """One run. ``judge``: a judge with its own model, which judges the run afterwards instead of the request's judge.

    ``options``: the options of that judge.
    """

    request: EvalRequest
    judge: str = ""
    options: Options = field(factory=dict)

    @property
    def key(self) -> str:
        """A SHA-256 that is equal for all cells that use this run, and for other data folders and devices."""
        return digest([identity(self.request), self.judge, self.options])

    @property
    def words(self) -> str:
        """The displayed name: ``memit on mquake-cf-3k, k = 1, with smollm2-135m``."""
        request = self.request
        k = f"k = {request.plan.size}" + (" edited" if request.plan.protocol == "sample" else "")
        return f"{request.editor} on {request.dataset}, {k}, with {request.model.reference}"


@frozen(kw_only=True)
class PartPlan:
    """One number of a cell: its runs, or the datasets that are counted, or ``why`` there are none."""

    wanted: RunNumber
    needs: tuple[RequiredRun, ...] = ()
    why: str = ""
    notes: tuple[str, ...] = ()


@define
class DatasetCache:
    """The available datasets. Each is searched, fetched and read once."""

    catalog: Catalog
    _datasets: Datasets = field(factory=Datasets)
    _holds: dict[str, bool] = field(factory=dict)
    _missing: dict[str, BadData] = field(factory=dict)

    def cases(self, request: EvalRequest) -> list[Case]:
        """Return all cases of a dataset. Raises UnknownComponent, BadData."""
        return self._open(*self._chosen(request))[1]

    def holds(self, request: EvalRequest) -> bool:
        """Return whether all files of the dataset are available, including prompts."""
        chosen, key = self._chosen(request)
        if key not in self._holds:
            try:
                self._holds[key] = bool(self._open(chosen, key)[0].info().sha256)
            except BadData:
                self._holds[key] = False
        return self._holds[key]

    def _open(self, chosen: ResolvedComponent[Any], key: str) -> tuple[Dataset, list[Case]]:
        if key in self._missing:
            raise self._missing[key]
        try:
            return self._datasets.read(chosen)
        except BadData as error:
            self._missing[key] = error
            raise

    def _chosen(self, request: EvalRequest) -> tuple[ResolvedComponent[Any], str]:
        """Return the dataset with its options, and a key of both."""
        spec = self.catalog.spec("dataset", request.dataset)
        options = with_flag(spec, request.options, DATA_DIR, request.data_dir)
        found = resolve_component(
            self.catalog, "dataset", request.dataset, with_flag(spec, options, "prompts", request.prompts)
        )
        return found, canonical([request.dataset, to_json(found.config)])


@define
class Planner:
    """Plans the cells of one table."""

    table: Reproduction
    catalog: Catalog
    resources: Resources
    datasets: DatasetCache

    def rows(self) -> list[list[tuple[PartPlan, ...]]]:
        """Return the parts of every cell, row by row. Options of unused components are omitted."""
        return [[tuple(self._part(cell, wanted) for wanted in cell.wanted) for cell in row] for row in self._cells]

    def _part(self, cell: CellPlan, wanted: RunNumber) -> PartPlan:
        mapped = self._models.get(cell.model, MappedModel())
        if wanted.printed == ABSENT:
            return PartPlan(wanted=wanted)
        if why := cell.row.unclear or mapped.why:
            return PartPlan(wanted=wanted, why=why)
        notes = dict.fromkeys((*cell.notes, *([mapped.note] if mapped.note else [])))
        needs: list[RequiredRun] = []
        for each in wanted.setups:
            setup = evolve(each, options={**mapped.options, **each.options})
            try:
                need, differences = self._needed(setup, wanted.pick, mapped.choice)
            except KEError as error:
                return PartPlan(wanted=wanted, why=str(error))
            if need not in needs:  # one dataset may take the place of several
                needs.append(need)
            notes |= dict.fromkeys(differences)
        return PartPlan(wanted=wanted, needs=tuple(needs), notes=tuple(notes))

    def _needed(self, setup: Setup, pick: Pick, model: ModelChoice | None) -> tuple[RequiredRun, list[str]]:
        """Return the run of a cell and its differences from the paper."""
        asks_model = self._asks_model(setup.judge)
        if asks_model and self.resources.judge_model is None:
            raise BadConfig(f"judge {setup.judge} needs a model", hint="add --judge-model [SOURCE:]ID")
        if pick.source == "scores" and not setup.editor:
            raise BadConfig("the cell has no editor", hint=HINT)
        request = self._request(setup, pick, model, later=setup.judge if asks_model else "")
        request, notes = self._available(request)
        if pick.source == "scores":
            request, cut = _cut(request, len(self.datasets.cases(request)))
            notes += cut
        if not asks_model:
            return RequiredRun(request=request), notes
        return RequiredRun(request=request, judge=setup.judge, options=self._of_judge(setup)), notes

    def _request(self, setup: Setup, pick: Pick, model: ModelChoice | None, *, later: str) -> EvalRequest:
        """Return the run of a cell. ``later``: the judge that follows."""
        return EvalRequest(
            editor=setup.editor,
            dataset=setup.dataset,
            model=_typed(model or self.resources.models[0], setup.dtype),
            options=self._options(evolve(setup, judge="") if later else setup),
            plan=Plan(
                protocol=setup.protocol,
                size=setup.edited if setup.protocol == "sample" or pick.source == "audit" else setup.batch,
                limit=self.resources.limit if pick.source == "scores" else None,
                eval_limit=setup.eval_limit,
            ),
            styles=setup.styles,
            edited_form=setup.edited_form,
            judge="" if later else setup.judge,
            metrics=self._metrics,
            seed=setup.seed,
            prompts=setup.prompts,
            data_dir=self.resources.data_dir,
        )

    def _available(self, request: EvalRequest) -> tuple[EvalRequest, list[str]]:
        """Return the settings with the dataset or its replacement. Raises KEError if both are missing."""
        if request.prompts and not self.datasets.holds(request) and self.datasets.holds(evolve(request, prompts="")):
            return evolve(request, prompts=""), [f"{request.prompts} prompts are missing: our own are used"]
        try:
            self.datasets.cases(request)
        except BadData:
            if not self.resources.fallback:
                raise
        else:
            return request, []
        name = self.resources.fallback
        unknown = self.catalog.spec("dataset", request.dataset).prefix
        kept = {prefix: given for prefix, given in request.options.items() if prefix != unknown}
        where = request.data_dir if DATA_DIR in fields_dict(self.catalog.spec("dataset", name).config) else ""
        other = evolve(request, dataset=name, options=kept, prompts="", data_dir=where)
        return other, [f"{name} in place of {request.dataset}"]

    def _options(self, setup: Setup) -> dict[str, dict[str, str]]:
        """Return the table's options for the components of this run."""
        used = {self._prefix("editor", setup.editor), self._prefix("dataset", setup.dataset)}
        used |= {self._prefix("metric", name) for name in self._metrics} | {self._prefix("judge", setup.judge)}
        return {prefix: dict(values) for prefix, values in self._split(setup).items() if prefix in used}

    @staticmethod
    def _split(setup: Setup) -> dict[str, dict[str, str]]:
        return split_options(f"{name}={value}" for name, value in setup.options.items())

    def _of_judge(self, setup: Setup) -> Options:
        prefix = self._prefix("judge", setup.judge)
        return {name: values for name, values in self._split(setup).items() if name == prefix}

    def _prefix(self, kind: str, name: str) -> str:
        return self.catalog.spec(kind, name).prefix if name else ""

    def _asks_model(self, judge: str) -> bool:
        if not judge:
            return False
        spec = self.catalog.spec("judge", judge)
        return isinstance(spec, JudgeSpec) and spec.needs_model

    @cached_property
    def _cells(self) -> list[list[CellPlan]]:
        return list(cells(self.table))

    @cached_property
    def _metrics(self) -> tuple[str, ...]:
        """Return all metrics of the table. Every run is scored with them."""
        wanted = [wanted for row in self._cells for cell in row for wanted in cell.wanted]
        named = (name for each in wanted for setup in each.setups for name in (*setup.metrics, each.pick.metric))
        return tuple(dict.fromkeys(name for name in named if name))

    @cached_property
    def _models(self) -> Mapping[str, MappedModel]:
        return map_models(self.table.models, self.resources.models)


def _typed(model: ModelChoice, dtype: str) -> ModelChoice:
    return evolve(model, how=evolve(model.how, dtype=dtype)) if dtype else model


def _cut(request: EvalRequest, cases: int) -> tuple[EvalRequest, list[str]]:
    """Limit the number of edited cases to the number of cases; a sample keeps its fraction, so that controls remain."""
    plan = request.plan
    if plan.size is None:
        return request, []
    taken, size = min(cases, plan.limit or cases), min(cases, plan.size)
    size = max(1, round(size * taken / cases)) if plan.protocol == "sample" else min(size, taken)
    if size == plan.size:
        return request, []
    return evolve(request, plan=evolve(plan, size=size)), [f"k = {size}, not {plan.size}"]


@frozen(kw_only=True)
class MappedModel:
    """The model that is used for a model of the paper, with notes about the difference, or ``why`` there is none.

    ``options``: the paper's options for this model.
    """

    choice: ModelChoice | None = None
    options: Mapping[str, str] = field(factory=dict)
    note: str = ""
    why: str = ""


def map_models(models: Mapping[str, PaperModel], given: Sequence[ModelChoice]) -> dict[str, MappedModel]:
    """Return a model for every label. A model of the paper is used for itself.

    One other model replaces all remaining ones. Several others replace one each, in the order of the file, so that a
    figure over sizes uses small, medium and large models.
    """
    own = {label: choice for label, model in models.items() for choice in given if choice.reference in model.ids}
    others = [choice for choice in given if choice not in own.values()]
    free = [label for label, model in models.items() if label not in own and not model.gone]
    pairs = dict.fromkeys(free, others[0]) if len(others) == 1 else dict(zip(free, others, strict=False))
    return {label: _mapped(label, model, own.get(label), pairs.get(label)) for label, model in models.items()}


def _mapped(label: str, model: PaperModel, own: ModelChoice | None, other: ModelChoice | None) -> MappedModel:
    if own is not None:
        dtype = own.how.dtype
        changed = f"{label} in {dtype}, not {model.dtype}" if model.dtype and model.dtype != dtype else ""
        chosen = evolve(own, how=evolve(own.how, chat=model.chat))
        return MappedModel(choice=chosen, options=model.options, note=changed)
    if model.gone:
        return MappedModel(why=f"{label}: {model.gone}")
    if other is None:
        return MappedModel(why=f"no --model for {label}" + (f" ({model.ids[0]})" if model.ids else ""))
    return MappedModel(choice=other, note=f"{other.reference} in place of {label}")
