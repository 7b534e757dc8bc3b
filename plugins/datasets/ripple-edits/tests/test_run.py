"""An evaluation of one record: conditions are sent to the unedited model, and their results reach the metric."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from ke_core.app import Catalog, EvalRequest, ModelChoice, Registration, RunFolder, evaluate, installed_catalog
from ke_core.plugin import (
    Answer,
    Edit,
    EditorSpec,
    Entity,
    Generate,
    Gold,
    Item,
    PassthroughModel,
    Query,
    Session,
    Verdict,
)
from ke_core.runner.evaluate import prepare
from ke_testing.fakes import EchoModel, SilentProgress, cut

SPOUSE = "The name of the spouse of Al Dun is"
KNOWN = {SPOUSE: "Ada Moe", "The name of the child of Bea Dun is": "Cy", "The gender of Al Dun is": "male"}
EDITED = {
    SPOUSE: "Bea Dun",
    "The name of the child of the spouse of Al Dun is": "Cy",
    "The name of the spouse of Al X is": "Bea Dun",
}


class Couple(EchoModel):
    """A model of some sentences. ``log``: whether it was edited, and the prompt, for each request."""

    def __init__(self) -> None:
        self.facts = dict(KNOWN)
        self.log: list[tuple[bool, str]] = []

    @property
    def digest(self) -> str:
        return str(sorted(self.facts.items()))

    def state(self) -> dict[str, object]:
        return dict(self.facts)

    def generate(self, requests: Sequence[Generate]) -> list[Any]:
        self.log += [(self.facts != KNOWN, request.prompt) for request in requests]
        return [cut(f" {self.facts.get(request.prompt, 'nobody')} and so on", request) for request in requests]


class Marry:
    """An editor that adds other sentences."""

    def check(self, session: Session[Any], edits: Sequence[Edit]) -> dict[str, str]:
        return {}

    @contextmanager
    def edit(self, session: Session[Any], edits: Sequence[Edit]) -> Iterator[PassthroughModel]:
        session.model.facts |= EDITED
        try:
            yield PassthroughModel(session)
        finally:
            session.model.facts = dict(KNOWN)


def catalog() -> Catalog:
    found = installed_catalog()
    spec = EditorSpec(name="marry", summary="s", build=lambda _config: Marry())
    registration = Registration(spec=spec, plugin=found.registration("dataset", "ripple-edits").plugin)
    editors = {**found.registrations["editor"], "marry": registration}
    return evolve(found, registrations={**found.registrations, "editor": editors})


@pytest.fixture
def ran(tmp_path: Path, record: dict[str, Any]) -> tuple[Couple, dict[tuple[str, str], Any]]:
    path, model = tmp_path / "own.json", Couple()
    path.write_text(json.dumps([record]), encoding="utf-8")
    request = EvalRequest(
        editor="marry",
        dataset="ripple-edits",
        model=ModelChoice(reference="hf:none"),
        options={"ripple-edits": {"file": str(path)}},
    )
    job = prepare(request, catalog(), SilentProgress(), model=model)
    finished = evaluate(job, RunFolder.create(tmp_path / "run", job.spec))
    assert finished.failures == 0
    return model, {
        (s.aspect, s.tags.get("criterion", "")): s for s in finished.scores if not set(s.tags) - {"criterion"}
    }


def test_conditions_reach_the_metric(ran: tuple[Couple, dict[tuple[str, str], Any]]) -> None:
    """LG is wrong; CI is right and its condition met; SA's condition (the new object before the edit) is not met; RS is
    right and has no condition.
    """
    _model, scores = ran
    each = {aspect: (score.value, score.skipped) for (aspect, criterion), score in scores.items() if not criterion}
    assert each["edit-success"] == (1, 0)
    assert each["logical-generalization"] == (0, 0)
    assert each["compositionality-1"] == (1, 0)
    assert each["subject-aliasing"] == (None, 1)
    assert each["relation-specificity"] == (1, 0)
    assert each["executed"] == (3 / 4, 0)
    assert each["ripple"][0] == pytest.approx(2 / 3)
    assert scores["ripple", ""].note == "3 of 6 were observed; one unit, no interval"


def test_conditions_are_sent_to_the_unedited_model_only(ran: tuple[Couple, dict[tuple[str, str], Any]]) -> None:
    """No test is sent before the edit, no condition after it, and nothing twice."""
    model, _scores = ran
    before, after = (sorted(prompt for edited, prompt in model.log if edited is when) for when in (False, True))
    assert before == [
        "The name of the child of Bea Dun is", SPOUSE, "The name of the spouse of Al X is",
    ]  # fmt: skip
    assert after == [
        "The gender of Al Dun is",
        "The name of the child of the spouse of Al Dun is",
        SPOUSE,
        "The name of the spouse of Al X is",
        "The name of the spouse of Bea Dun is",
    ]


def test_answer_in_the_prompt_does_not_count() -> None:
    """The prompt contains the answer, the completion does not."""
    judge = catalog().spec("judge", "containment")
    query = Query(
        id="q", texts=("Al Dun, husband of Bea, is",), form="cloze", gold=Gold(entities=(Entity(label="Bea"),))
    )
    item = Item(query=query, reply=Answer(text="a baker", raw="Al Dun, husband of Bea, is a baker"))
    (judged,) = judge.build(judge.config()).judge(None, [item])
    assert judged.verdict is Verdict.WRONG
