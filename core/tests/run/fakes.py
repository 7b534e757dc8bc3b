"""A small evaluation: a model of cities, correct and faulty editors, a benchmark of towers.

``conftest.py`` loads it as the fixture ``fakes``. As a script, it is the process that tests kill.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attrs import evolve, field, frozen

from ke_core.engine.passthrough import PassthroughModel
from ke_core.runner.plan import groups
from ke_core.runner.resolve import ResolvedComponent
from ke_core.runner.run import Measure, OpenJudge, ResolvedRun
from ke_core.spec.codec import digest
from ke_core.spec.dataset_info import DatasetInfo
from ke_core.spec.errors import EditFailed
from ke_core.spec.facts import Entity
from ke_core.spec.prompts import Decoding, Prompt
from ke_core.spec.protocols import Material
from ke_core.spec.queries import EFFICACY, Case, Gold, Probe, Query
from ke_core.spec.requests import Generate
from ke_core.spec.results import Answer, Failure, Judgment, Value, Verdict
from ke_core.spec.runspec import Component, DataRef, ModelRef, Plan, RunSpec
from ke_core.spec.specs import DatasetSpec, EditorSpec, JudgeSpec, MetricSpec
from ke_testing.examples import city_edit
from ke_testing.fakes import EchoModel, cut, make_session

PARIS, ROME = Entity(label="Paris"), Entity(label="Rome")


class CityModel(EchoModel):
    """A model whose weights map towers to cities. ``log``: prompts and edits in order. ``calls``
    counts calls of ``generate``. ``hooks`` can be left behind."""

    id = "fake:cities"

    def __init__(self, towers: int, sleep: float = 0.0) -> None:
        self.weights = {f"Tower {n}": "Paris" for n in range(1, towers + 1)}
        self.hooks: list[str] = []
        self.log: list[tuple[str, str]] = []
        self.calls = 0
        self.sleep = sleep
        self.read = digest(self.weights)

    @property
    def digest(self) -> str:
        return self.read

    def state(self) -> Mapping[str, object]:
        self.read = digest(self.weights)
        return {**{f"weight {name}": city for name, city in self.weights.items()}, "hooks": tuple(self.hooks)}

    @contextmanager
    def patch(self) -> Iterator[CityModel]:
        saved = dict(self.weights)
        try:
            yield self
        finally:
            self.weights = saved

    def generate(self, requests: Sequence[Generate]) -> list[Any]:
        time.sleep(self.sleep)
        self.calls += 1
        return [self._one(request) for request in requests]

    def _one(self, request: Generate) -> Any:
        self.log.append(("ask", request.prompt))
        if "Nobody" in request.prompt:
            return ValueError("nobody is there")
        tower = next((name for name in sorted(self.weights, key=len, reverse=True) if name in request.prompt), "")
        city = self.weights.get(tower, "nowhere")
        return cut(
            f" {'Italy' if city == 'Rome' else 'France'}" if "country" in request.prompt else f" {city}", request
        )


@frozen(kw_only=True)
class EditorOptions:
    gold: bool = False
    layers: tuple[int, ...] = (1, 2)


class Overwrite:
    """A weight editor with an optional flaw."""

    def __init__(self, flaw: str = "", refuses: frozenset[str] = frozenset()) -> None:
        self.flaw = flaw
        self.refuses = refuses

    def check(self, session, edits):
        return {edit.id: "no such tower" for edit in edits if edit.id in self.refuses}

    @contextmanager
    def edit(self, session, edits):
        model = session.model
        model.log.append(("edit", " ".join(edit.id for edit in edits)))
        if self.flaw == "fails":
            raise EditFailed("the update is larger than the weight")
        with model.patch():
            for edit in edits:
                model.weights[edit.after.subject.label] = edit.after.objects[0].label
            yield self.edited(session, edits)
        if self.flaw == "cheats":
            model.weights["Tower 1"] = "Berlin"
        if self.flaw == "hook":
            model.hooks.append("trace")

    def edited(self, session, edits):
        return PassthroughModel(session, {"norm": len(edits)})


class Notes(Overwrite):
    """A memory editor that answers questions about its edits from memory, without a model."""

    def __init__(self, seen: list, reply=None) -> None:
        super().__init__()
        self.seen = seen
        self.reply = reply or (lambda ask: Answer(text="Rome" if ask.own else "Paris"))

    @contextmanager
    def edit(self, session, edits):
        yield self

    details: Mapping[str, Any] = {}

    def answer(self, asks):
        self.seen.append(list(asks))
        return [self.reply(ask) for ask in asks]


@frozen(kw_only=True)
class TowersOptions:
    n: int = 6
    data_dir: str = ""
    mask: bool = False


def tower(n: int) -> Case:
    """Tower n moves from Paris to Rome, and so from France to Italy."""
    name = f"Tower {n}"
    edit = city_edit(Entity(label=name), PARIS, ROME)
    where = Query(
        id="where", texts=(f"In which city is {name}?",), cloze=f"{name} is located in", edit=edit.id,
        gold=gold("Rome"), pre_edit=gold("Paris"),
    )  # fmt: skip
    country = Query(id="country", texts=(f"In which country is {name}?",), gold=gold("Italy"), pre_edit=gold("France"))
    known = Query(id="known", texts=(f"In which city was {name}?",), gold=gold("Paris"))
    return Case(
        id=str(n),
        edits=(edit,),
        probes=(
            Probe(id="efficacy", aspect=EFFICACY, queries=(where,), edits=(edit.id,), given=(known,)),
            Probe(id="instance", aspect="instance", queries=(where,), phase="both"),
            Probe(id="multi-hop", aspect="multi-hop", queries=(country,), phase="both"),
        ),
        tags={"hops": str(2 + n % 2)},
    )


def tower_of(ask: Any) -> str:
    """Return the id of the case of a question, whose own ids are opaque."""
    return ask.texts[0].partition("Tower ")[2].split()[0].rstrip("?")


def gold(name: str) -> Gold:
    return Gold(entities=(Entity(label=name),))


@frozen(kw_only=True)
class Towers:
    made: tuple[Case, ...]
    parts: Mapping[str, str] | None = None
    mask: bool = False

    def cases(self):
        return iter(self.made)

    def prompt(self, query, style):
        decoding = Decoding(max_tokens=4, stop=("\n",))
        if query.form == "cloze":
            return Prompt(text=query.texts[0], decoding=decoding) if style == "direct" else None
        if style == "cot" and query.edit is not None:
            return None
        return Prompt(text=f"{style} Q: {query.texts[0]} A:", decoding=decoding)

    def split(self, k, seed):
        return self.parts

    def hides(self, case, bank, *, edited):
        return frozenset(bank) - {edit.id for edit in case.edits} if self.mask else frozenset()

    def material(self):
        return {"answers": Material(value=1, oracle=True), "shots": Material(value=2)}

    def info(self):
        return DatasetInfo(title="towers", license="none", source="here", sha256=digest(len(self.made)))


class Exact:
    """Judges RIGHT, PRE_EDIT or WRONG by the label."""

    def judge(self, session, items):
        return [Judgment(verdict=self.verdict(item)) for item in items]

    @staticmethod
    def verdict(item):
        if item.reply.text == item.query.gold.entities[0].label:
            return Verdict.RIGHT
        pre_edit = item.query.pre_edit and item.query.pre_edit.entities[0].label
        return Verdict.PRE_EDIT if item.reply.text == pre_edit else Verdict.WRONG


class Share:
    """The fraction of right answers, with one value for every question."""

    def values(self, record):
        if record.skipped:
            yield Value(aspect="right", value=None, skipped_because=record.skipped)
        for (phase, style, _query), outcome in record.outcomes.items():
            right = outcome.judgment.verdict is Verdict.RIGHT
            yield Value(aspect="right", value=float(right), phase=phase, style=style)


OVERWRITE = EditorSpec(
    name="overwrite", summary="changes weights", config=EditorOptions, build=lambda _config: Overwrite(),
    needs_weights=True, edited_form="cloze", oracle=lambda config: ("answers",) if config.gold else (),
)  # fmt: skip
NOTES = EditorSpec(
    name="notes",
    summary="keeps notes",
    build=lambda _config: Notes([]),
    masks=True,
    own_prompt=True,
    uses_own_edits=True,
)
TOWERS = DatasetSpec(
    name="towers", summary="towers that move", config=TowersOptions, styles=("direct", "cot"), metrics=("share",),
    judge="exact", hides=lambda config: config.mask,
    build=lambda config: Towers(made=tuple(tower(n) for n in range(1, config.n + 1)), mask=config.mask),
)  # fmt: skip
EXACT = JudgeSpec(name="exact", summary="by label", build=lambda _config: Exact())
SHARE = MetricSpec(name="share", summary="of right answers", build=lambda _config: Share(), by=("hops",))


def component(name: str, **options: Any) -> Component:
    return Component(name=name, distribution="fakes", version="1", options=options)


def as_method(editor: Any, spec: EditorSpec) -> ResolvedComponent[EditorSpec]:
    """Return the component of ``editor``."""
    spec = evolve(spec, build=lambda _config: editor)
    return ResolvedComponent(spec=spec, config=spec.config(), component=component(spec.name))


def make_job(towers: int = 6, editor: Any = None, *, model: Any = None, **changes: Any) -> ResolvedRun:
    """Create a run without a catalog. ``changes``: fields of the run or of its specification."""
    model = model or CityModel(towers)
    editor_spec = changes.pop("editor_spec", OVERWRITE)
    cases = changes.pop("cases", tuple(tower(n) for n in range(1, towers + 1)))
    own = {name: changes.pop(name) for name in tuple(changes) if name in ("dataset", "hides")}
    spec = RunSpec(
        ke="0",
        model=ModelRef(source="fake", id="cities"),
        editor=component(editor_spec.name),
        dataset=DataRef(component=component("towers"), sha256="0"),
        styles=("direct", "cot"),
        plan=Plan(),
        edited_form=editor_spec.edited_form,
        joint=not editor_spec.one_at_a_time,
        own_edits=editor_spec.uses_own_edits,
    )
    spec = evolve(spec, **changes)
    dataset = own.get("dataset", Towers(made=cases))
    return ResolvedRun(
        spec=spec,
        session=make_session(model),
        method=as_method(editor or Overwrite(), editor_spec),
        dataset=dataset,
        cases=cases,
        groups=tuple(groups(cases, spec.plan, spec.seed, dataset.split)),
        hides=own.get("hides", False),
        judging=OpenJudge(component=component("exact"), judge=Exact()),
        measures=(Measure(component=component("share"), spec=SHARE, metric=Share()),),
    )


def slow_job(sleep: float) -> ResolvedRun:
    """Create the run that is killed: 32 batches of three, ``sleep`` seconds per model call."""
    return make_job(96, model=CityModel(96, sleep=sleep), plan=Plan(size=3))


@frozen(kw_only=True)
class Failing:
    """Replies with a failure to the cases in ``these``."""

    these: frozenset[str] = field(factory=frozenset)
    message: str = "gone"

    def __call__(self, ask):
        return Failure(error="ServerGone", message=self.message) if tower_of(ask) in self.these else Answer(text="Rome")


if __name__ == "__main__":
    from ke_core.results.folder import RunFolder
    from ke_core.runner.evaluate import evaluate

    job = slow_job(0.3)
    evaluate(job, RunFolder.create(Path(sys.argv[1]), job.spec))
