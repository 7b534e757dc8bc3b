"""Editors that guess answers from the requests score no better than ``parrot``, or chance."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from attrs import evolve, frozen

from ke_core.app import installed_catalog
from ke_core.plugin import (
    Answer,
    Edit,
    EditorRequest,
    EditorSpec,
    Failure,
    Likelihood,
    Question,
    Reply,
    Score,
    Scored,
    Session,
)
from ke_core.plugins.catalog import Catalog, Registration
from ke_core.plugins.manager import Installed
from ke_core.results.folder import RunFolder
from ke_core.runner.evaluate import evaluate, prepare
from ke_core.runner.run import EvalRequest
from ke_core.runner.session import ModelChoice
from ke_core.spec.runspec import Plan
from ke_testing.fakes import SilentProgress

pytestmark = pytest.mark.integration

NAMES = re.compile(r"[A-Z][\w'.-]*(?: [A-Z][\w'.-]*)*")
ROLES = ("efficacy", "paraphrase", "locality", "multi-hop", "hop")
LIMIT = 60
HOPS: Mapping[str, Any] = {"dataset": "atlas"}
SINGLE: Mapping[str, Any] = {"dataset": "atlas", "options": {"atlas": {"view": "edits"}}, "metrics": ("classic",)}
CHANCE = 0.5
"""One of two continuations is right."""


class Guessing:
    """An edited model without a model. It answers like the parrot without its case's own edits."""

    details: Mapping[str, Any] = MappingProxyType({})

    def __init__(self, session: Session[Any], edits: Sequence[Edit]) -> None:
        self.session = session
        self.edits = list(edits)

    def answer(self, asks: Sequence[EditorRequest]) -> list[Reply]:
        return [self.scores(ask) if isinstance(ask, Likelihood) else Answer(text=self.guess(ask)) for ask in asks]

    def change(self, *, add: Sequence[Edit] = (), remove: Sequence[str] = ()) -> None:
        self.edits = [edit for edit in self.edits if edit.id not in remove] + list(add)

    def guess(self, ask: Question) -> str:
        return new(self.edits[-1]) if self.edits else ""

    def scores(self, ask: Likelihood) -> Reply:
        return declined()


class AlwaysTheFirst(Guessing):
    """Chooses the first continuation."""

    def scores(self, ask: Likelihood) -> Reply:
        return prefers(ask, 0)


class RoleFromIds(Guessing):
    """Guesses the role of a question from its ids, or from hashes of guessed ids."""

    def scores(self, ask: Likelihood) -> Reply:
        objects = {f" {new(edit)}" for edit in self.edits}
        known = [place for place, text in enumerate(ask.continuations) if text in objects]
        role = self.role(ask)
        if not role or not known:
            return prefers(ask, 0)
        return prefers(ask, known[0] if role != "locality" else 1 - known[0])

    def guess(self, ask: Question) -> str:
        role = self.role(ask)
        places = re.findall(r"\d+", ask.query) if role == "hop" else []
        return new(self.edits[min(int(places[0]), len(self.edits)) - 1]) if places else super().guess(ask)

    def role(self, ask: EditorRequest) -> str:
        for text in (ask.query, ask.id, ask.case):
            for role in ROLES:
                guesses = [role, *(f"{self.session.seed}/{role}{end}" for end in ("", "-1", "-scored"))]
                hashes = {
                    hashlib.new(kind, guess.encode()).hexdigest() for guess in guesses for kind in ("sha256", "md5")
                }
                if role in text or any(found.startswith(text) for found in hashes):
                    return role
        return ""


class OwnAsRetrieval(Guessing):
    """Finds the edits of a question by their ids in the question."""

    def guess(self, ask: Question) -> str:
        own = [edit for edit in self.edits if edit.id in ask.own]
        return new(own[-1]) if own else ""


class SeesTheHops(Guessing):
    """Reads the answer to a hop from the next question, and the start of a path from the multi-hop question."""

    def __init__(self, session: Session[Any], edits: Sequence[Edit]) -> None:
        super().__init__(session, edits)
        self.seen: list[EditorRequest] = []

    def answer(self, asks: Sequence[EditorRequest]) -> list[Reply]:
        self.seen += asks
        return super().answer(asks)

    def guess(self, ask: Question) -> str:
        mine = name_in(ask)
        others = [other for other in self.seen if name_in(other) and name_in(other) != mine]
        begins = any(mine in other.texts[0] for other in self.seen if other is not ask and other.texts != ask.texts)
        after = [name_in(other) for other in others if mine not in other.texts[0]]
        return after[0] if mine and begins and after else super().guess(ask)


class DeclinesWhatItDoesNotKnow(Guessing):
    """Gives log-probabilities only where the first continuation is an edit's new object."""

    def scores(self, ask: Likelihood) -> Reply:
        known = ask.continuations[0] in {f" {new(edit)}" for edit in self.edits}
        return prefers(ask, 0) if known else declined()


CHEATS = {
    "always-the-first": AlwaysTheFirst,
    "role-from-ids": RoleFromIds,
    "own-as-retrieval": OwnAsRetrieval,
    "sees-the-hops": SeesTheHops,
    "declines": DeclinesWhatItDoesNotKnow,
}


def new(edit: Edit) -> str:
    return edit.after.objects[0].label if edit.after and edit.after.objects else ""


def name_in(ask: EditorRequest) -> str:
    """Return the last name in a question, without its first word."""
    found = NAMES.findall(ask.texts[0].partition(" ")[2])
    return found[-1].rstrip("?.") if found else ""


def prefers(ask: Likelihood, place: int) -> Scored:
    count = len(ask.continuations)
    return Scored(logprobs=tuple(-0.1 if at == place else -9.0 for at in range(count)), tokens=(1,) * count)


def declined() -> Failure:
    return Failure(error="NoLikelihood", message="it would rather not say")


@frozen(kw_only=True)
class Cheat:
    edited: type[Guessing]

    def check(self, session: Session[Any], edits: Sequence[Edit]) -> Mapping[str, str]:
        return {}

    @contextmanager
    def edit(self, session: Session[Any], edits: Sequence[Edit]) -> Iterator[Guessing]:
        yield self.edited(session, edits)


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    """Return the installed plugins and the cheats."""
    installed = installed_catalog()
    here = Installed(name="cheats", module=__name__)
    cheats = {
        name: Registration(
            spec=EditorSpec(
                name=name,
                summary="cheats",
                build=lambda _config, kind=kind: Cheat(edited=kind),
                needs_model=False,
                masks=True,
                own_prompt=True,
            ),
            plugin=here,
        )
        for name, kind in CHEATS.items()
    }
    editors = {**installed.registrations["editor"], **cheats}
    return evolve(installed, registrations={**installed.registrations, "editor": editors})


def scores(catalog: Catalog, root: Path, editor: str, plan: Plan, **changes: Any) -> dict[tuple[str, str], Score]:
    """Return the scores after editing over all cases, by metric and aspect."""
    request = EvalRequest(editor=editor, model=ModelChoice(reference="none"), plan=plan, **changes)
    job = prepare(request, catalog, SilentProgress())
    finished = evaluate(job, RunFolder.create(root / f"{editor}-{plan.size}", job.spec))
    return {(one.metric, one.aspect): one for one in finished.scores if one.phase == "after" and not one.tags}


def cheated(catalog: Catalog, root: Path, plan: Plan, **asked: Any) -> dict[str, list[str]]:
    """Return the difference between each cheat and the parrot."""
    parrot = scores(catalog, root, "parrot", plan, **asked)
    found = {name: above(scores(catalog, root, name, plan, **asked), parrot) for name in CHEATS}
    return {name: places for name, places in found.items() if places}


def above(found: Mapping[tuple[str, str], Score], parrot: Mapping[tuple[str, str], Score]) -> list[str]:
    """Return the scores above the parrot's, or two standard errors above chance if it has no probabilities."""
    return [
        f"{place}: {score.value} of {score.n}"
        for place, score in found.items()
        if score.value is not None and score.n and not _as_low(score, parrot.get(place))
    ]


def _as_low(score: Score, parrot: Score | None) -> bool:
    if parrot is not None and parrot.value is not None:
        return score.value <= parrot.value
    difference = score.aspect.endswith("magnitude")  # of two probabilities: from -1 to 1, and 0 on average by chance
    return score.value <= (2 / math.sqrt(score.n) if difference else CHANCE + 1 / math.sqrt(score.n))


@pytest.mark.parametrize("size", [1, None], ids=["each-case-alone", "all-together"])
@pytest.mark.parametrize("asked", [HOPS, SINGLE], ids=["multi-hop", "classic"])
def test_no_cheat_scores_above_the_parrot_on_atlas(
    catalog: Catalog, tmp_path: Path, asked: Mapping[str, Any], size: int | None
) -> None:
    assert cheated(catalog, tmp_path, Plan(size=size, limit=LIMIT), **asked) == {}


@pytest.mark.parametrize("size", [1, None], ids=["each-case-alone", "all-together"])
def test_no_cheat_scores_above_the_parrot_on_mquake(
    catalog: Catalog, tmp_path: Path, ke_data_dir: Path, size: int | None
) -> None:
    asked = {"dataset": "mquake-cf-3k", "data_dir": str(ke_data_dir / "mquake")}
    assert cheated(catalog, tmp_path, Plan(size=size, limit=LIMIT), **asked) == {}


def test_declined_likelihoods_count_as_wrong(catalog: Catalog, tmp_path: Path) -> None:
    plan = Plan(limit=LIMIT)
    found = scores(catalog, tmp_path, "declines", plan, **SINGLE)
    every = scores(catalog, tmp_path, "always-the-first", plan, **SINGLE)
    for aspect in ("efficacy-probability", "paraphrase-probability", "locality-probability"):
        assert found["classic", aspect].n == every["classic", aspect].n > 0
    assert found["classic", "locality-probability"].value == 0


def test_own_edits_are_given_only_to_editors_that_declare_it(catalog: Catalog, tmp_path: Path) -> None:
    plan = Plan(size=None, limit=LIMIT)
    assert scores(catalog, tmp_path, "own-as-retrieval", plan, dataset="atlas")["multi-hop", "multi-hop"].value == 0
    assert scores(catalog, tmp_path, "parrot", plan, dataset="atlas")["multi-hop", "multi-hop"].value > 0
