"""Build the requests of a case for each model and style. They never contain gold answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from attrs import evolve, frozen

from ke_core.runner.run import ResolvedRun
from ke_core.spec.facts import Edit
from ke_core.spec.prompts import Prompt
from ke_core.spec.protocols import Dataset
from ke_core.spec.queries import Case, Form, Phase, Probe, Query
from ke_core.spec.records import OWN
from ke_core.spec.requests import EditorRequest, Likelihood, Question


@frozen(kw_only=True)
class RequestGroup:
    """The requests of one case in one phase and style. They are asked, recorded and resumed together."""

    case: str
    phase: Phase
    style: str
    questions: tuple[EditorRequest, ...]


@frozen(kw_only=True)
class RequestBuilder:
    """Builds the requests of one run. ``hides``: the dataset hides edits from some cases."""

    dataset: Dataset
    styles: tuple[str, ...]
    edited_form: Form
    own_prompt: bool = False
    hides: bool = False

    @classmethod
    def of(cls, run: ResolvedRun) -> RequestBuilder:
        """Create it for ``run``."""
        return cls(
            dataset=run.dataset,
            styles=run.spec.styles,
            edited_form=run.spec.edited_form,
            own_prompt=run.editor_spec.own_prompt,
            hides=run.hides,
        )

    def before(self, case: Case) -> list[RequestGroup]:
        """Return the requests to the unedited model, with conditions, in the dataset's styles."""
        return [self._unit(case, "before", style) for style in self.styles]

    def control(self, case: Case) -> list[RequestGroup]:
        """Return the requests to the unedited model with the editor's own prompts: those to the edited model.

        Conditions are only asked in the dataset's styles, so that they are the same for every editor.
        """
        unit = self._unit(case, "before", OWN)
        later = {query.id for query in queries_of(case, "after")}
        return [evolve(unit, questions=tuple(question for question in unit.questions if question.query in later))]

    def after(self, case: Case, bank: Mapping[str, Edit], *, edited: bool) -> list[RequestGroup]:
        """Return the requests to the edited model. ``bank``: the applied edits by id. Controls own none of them.

        A case's own edits are never hidden from it, because the requests are about them.
        """
        own = tuple(edit.id for edit in case.edits if edit.id in bank) if edited else ()
        hidden = self.dataset.hides(case, bank, edited=edited) - frozenset(own) if self.hides else frozenset()
        styles = (OWN,) if self.own_prompt else self.styles
        return [self._unit(case, "after", style, edited=edited, own=own, hidden=hidden) for style in styles]

    def _unit(
        self,
        case: Case,
        phase: Phase,
        style: str,
        *,
        edited: bool = False,
        own: tuple[str, ...] = (),
        hidden: frozenset[str] = frozenset(),
    ) -> RequestGroup:
        questions: list[EditorRequest] = []
        for query in queries_of(case, phase):
            put = in_form(query, phase, self.edited_form, edited=edited)
            prompt = self._prompt(put, style)
            if prompt is None:
                continue
            given = Question(
                id=f"{case.id}/{phase}/{style}/{query.id}",
                case=case.id,
                query=put.id,
                texts=put.texts,
                form=put.form,
                prompt=prompt,
                own=own,
                hidden=hidden,
            )
            questions.append(self._likelihood(given, put, style) if put.continuations else given)
        return RequestGroup(case=case.id, phase=phase, style=style, questions=tuple(questions))

    def _likelihood(self, question: Question, query: Query, style: str) -> Likelihood:
        """Return the request for the continuations of ``query``, each after its own context or all after the prompt."""
        prompts = [self._prompt(evolve(query, texts=(text,)), style) for text in query.contexts]
        return Likelihood(
            id=question.id,
            case=question.case,
            query=query.id,
            texts=query.contexts or query.texts,
            form=query.form,
            prompt="" if prompts else question.prompt.text,
            continuations=query.continuations,
            prompts=tuple(prompt.text for prompt in prompts if prompt is not None),
            own=question.own,
            hidden=question.hidden,
        )

    def _prompt(self, query: Query, style: str) -> Prompt | None:
        """Return the prompt in a style. An editor with its own prompts gets the first style's, for its decoding."""
        for name in self.styles if style == OWN else (style,):
            prompt = self.dataset.prompt(query, name)
            if prompt is not None:
                return prompt
        return None


def queries_of(case: Case, phase: Phase) -> Iterator[Query]:
    """Yield the queries of that phase, each id once. The unedited model also gets the conditions of the probes."""
    return (query for query, _probe in asked_by_id(case, phase).values())


def asked_by_id(case: Case, phase: Phase) -> dict[str, tuple[Query, Probe | None]]:
    """Return the queries of that phase by id, with the probe that determines the right answer: None for conditions."""
    found: dict[str, tuple[Query, Probe | None]] = {}
    for probe in case.probes:
        for query in probe.queries if probe.asked(phase) else ():
            found.setdefault(query.id, (query, probe))
        for query in probe.given if phase == "before" else ():
            found.setdefault(query.id, (query, None))
    return found


def in_form(query: Query, phase: Phase, edited_form: Form, *, edited: bool) -> Query:
    """Return ``query`` in the form in which it is sent: an edited fact after its edit has the run's ``edited_form``."""
    if query.edit is None or query.cloze is None or edited_form == "question":
        return query
    if phase == "before" or not edited:
        return query
    return evolve(query, form="cloze", texts=(query.cloze,))
