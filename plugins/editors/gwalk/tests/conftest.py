"""Edits with triples, and a replay of a walk with a scripted model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from ke_core.plugin import Cloze, Edit, Entity, Fact, Question, Relation, Reply
from ke_plugin_gwalk import GwalkConfig
from ke_plugin_gwalk.editor import Gwalk
from ke_testing.examples import question
from ke_testing.fakes import ScriptedModel, answer_from_script

CITIZEN = Relation(
    label="country of citizenship", id="P27", cloze="{} is a citizen of", question="What is the country of {}?"
)
LANGUAGE = Relation(label="official language", id="P37", cloze="The official language of {} is")


def make_edit(relation: Relation, subject: str, new: str, *, old: str = "Nowhere", name: str = "") -> Edit:
    template = relation.cloze or "{} is"
    statement = f"{template.replace('{}', subject)} {new}"
    fact = {
        when: Fact(subject=Entity(label=subject), relation=relation, objects=(Entity(label=label),))
        for when, label in (("before", old), ("after", new))
    }
    return Edit(
        id=name or f"{subject}-{relation.key}-{new}",
        statement=statement,
        cloze=Cloze(template=template, subject=subject),
        question=f"Which {relation.label} has {subject}?",
        **fact,
    )


MIRA = make_edit(CITIZEN, "Mira Toll", "Boland", old="Aland", name="mira")
BOLAND = make_edit(LANGUAGE, "Boland", "Arabic", old="Bolish", name="boland")
ASK = question("What is the official language of the country of Mira Toll?")


@pytest.fixture
def edits() -> tuple[Edit, Edit]:
    """Mira Toll is a citizen of Boland; Boland speaks Arabic."""
    return MIRA, BOLAND


@pytest.fixture
def ask() -> Question:
    """A two-hop question."""
    return ASK


@pytest.fixture
def edit_of() -> Callable[..., Edit]:
    return make_edit


@pytest.fixture
def relations() -> tuple[Relation, Relation]:
    return CITIZEN, LANGUAGE


@pytest.fixture
def replay() -> Callable[..., tuple[Reply, ScriptedModel]]:
    """Return a function: the reply to a question, and the model, whose script must be used up."""

    def run(
        *script: str | Exception, edits: Sequence[Edit] = (MIRA, BOLAND), ask: Any = ASK, **options: Any
    ) -> tuple[Reply, ScriptedModel]:
        made = {"threshold": "0.6", **options}
        session = {"material": made.pop("material", None), "encoder": made.pop("vectors", None)}
        return answer_from_script(Gwalk(config=GwalkConfig(**made)), script, ask, edits, **session)

    return run
