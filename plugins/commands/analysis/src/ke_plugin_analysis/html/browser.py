"""Convert the cases of runs to JSON values for the list of cases: questions, answers, judgments and their reasons.

A case of several runs is listed once, with the answers of each run. Texts that many questions share, such as few-shot
examples and edits, are stored once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attrs import define, field, frozen

from ke_core.app import OWN, in_form, sanitize
from ke_core.plugin import (
    PHASES,
    Answer,
    Case,
    Dataset,
    Edit,
    Entity,
    Failure,
    Finding,
    Form,
    Gold,
    Judgment,
    Phase,
    Probe,
    Query,
    Reply,
    Scored,
    Verdict,
)
from ke_plugin_analysis.answers import AnsweredCase, QueryKey, RunDataset

Json = dict[str, Any]
NAMES = 12  # displayed names of an entity; some entities have fifty
MEASURED = "measured"
"""The verdict of log-probabilities, which most judges do not judge."""


@frozen(kw_only=True)
class BrowsedRun:
    """A run with its cases. ``same``: an id of its benchmark, equal for runs over the same cases.

    ``edited_form``: the form of the prompt for an edited fact, cloze or question.
    """

    label: str
    same: str
    edited_form: Form
    answers: Mapping[str, AnsweredCase]
    material: RunDataset


@define
class SharedTexts:
    """Texts that several answers of a list share. Equal texts of prompts have the same number.

    ``facts``: the statement of each edit, by benchmark and id. ``retrieved``: the facts that answers retrieved.
    """

    prompts: dict[str, int] = field(factory=dict)
    facts: dict[str, str] = field(factory=dict)
    retrieved: set[str] = field(factory=set)

    def number(self, text: str) -> int:
        """Return the number of a part of a prompt."""
        return self.prompts.setdefault(sanitize(text), len(self.prompts))


def browser(runs: Sequence[BrowsedRun]) -> Json:
    """Return ``{runs, texts, facts, cases, missing}``. Control characters in texts are escaped."""
    texts = SharedTexts()
    cases = [*listed_cases(runs, texts)]
    return {**about_runs(runs), "texts": list(texts.prompts), "facts": texts.facts, "cases": cases}


def about_runs(runs: Sequence[BrowsedRun]) -> Json:
    """Return ``{runs, missing}``: labels, and the reason for each run whose benchmark is missing.

    Answers of a run without its benchmark are listed without questions.
    """
    return {
        "runs": [sanitize(run.label) for run in runs],
        "missing": [f"{sanitize(run.label)}: {sanitize(run.material.why_not)}" for run in runs if run.material.why_not],
    }


def listed_cases(runs: Sequence[BrowsedRun], texts: SharedTexts) -> Iterator[Json]:
    """Yield every case with its answers. One case is in memory at a time."""
    for number, same in enumerate(dict.fromkeys(run.same for run in runs)):
        for name, case, dataset in _listed([run for run in runs if run.same == same]):
            yield _case(_ListedCase(name=name, benchmark=number, case=case, dataset=dataset), runs, texts)


@frozen(kw_only=True)
class _ListedCase:
    """A case to list. ``case`` is None if the benchmark is missing."""

    name: str
    benchmark: int
    case: Case | None
    dataset: Dataset | None


def _listed(runs: Sequence[BrowsedRun]) -> Iterator[tuple[str, Case | None, Dataset | None]]:
    """Yield the answered cases of any run, in the order of the benchmark."""
    known = next((run.material for run in runs if run.material.dataset is not None), RunDataset())
    answered = dict.fromkeys(name for run in runs for name in run.answers)
    for case in known.cases:
        if case.id in answered:
            del answered[case.id]
            yield case.id, case, known.dataset
    for name in answered:
        yield name, None, None


def _case(one: _ListedCase, runs: Sequence[BrowsedRun], texts: SharedTexts) -> Json:
    own = [(number, run, run.answers[one.name]) for number, run in enumerate(runs) if one.name in run.answers]
    queries = _queries(one.case) if one.case is not None else {}
    places = dict.fromkeys(place for _number, _run, answered in own for place in answered.replies)
    named = dict.fromkeys(query for query, _phase, _style in places)
    order = [*(name for name in queries if name in named), *(name for name in named if name not in queries)]
    made: Json = {"id": sanitize(one.name), "tags": {}, "edits": []}
    if one.case is not None:
        made["tags"] = {sanitize(tag): sanitize(value) for tag, value in one.case.tags.items()}
        made["edits"] = [_edit(edit, texts.facts, one.benchmark) for edit in one.case.edits]
    made["queries"] = [{"id": sanitize(name), **_query(queries.get(name, ()))} for name in order]
    made["answers"] = []
    for number, run, answered in own:
        for at, name in enumerate(order):
            query = queries[name][0][1] if name in queries else None
            for style in dict.fromkeys(style for of, _phase, style in places if of == name):
                pair: Json = {
                    phase: _answered(answered, (name, phase, style), one.benchmark, texts.retrieved)
                    | _prompt(one.dataset, _in_form(query, phase, run, answered), style, texts)
                    for phase in PHASES
                    if (name, phase, style) in answered.replies
                }
                if pair:
                    made["answers"].append({"run": number, "query": at, "style": sanitize(style), **pair})
    made["notes"] = [[number, sanitize(line)] for number, _run, answered in own for line in _notes(answered, one.case)]
    return made


def _notes(answered: AnsweredCase, case: Case | None) -> Iterator[str]:
    yield from answered.problems
    for edit in case.edits if case is not None else ():
        if edit.id in answered.refused:
            yield f"the edit {edit.statement!r} was refused: {answered.refused[edit.id]}"
    if answered.rounds > 1:
        yield f"evaluated {answered.rounds} times: the last answers are shown"


def _queries(case: Case) -> dict[str, list[tuple[str, Query, Probe]]]:
    """Return aspect, query and probe by query id. Some queries belong to several probes."""
    found: dict[str, list[tuple[str, Query, Probe]]] = {}
    for probe in case.probes:
        for query in probe.queries:
            found.setdefault(query.id, []).append((probe.aspect, query, probe))
        for query in probe.given:
            found.setdefault(query.id, []).append((f"{probe.aspect} (condition)", query, probe))
    return found


def _query(found: Sequence[tuple[str, Query, Probe]]) -> Json:
    if not found:
        return {"aspects": [], "text": ""}
    _aspect, query, probe = found[0]
    made: Json = {"aspects": list(dict.fromkeys(sanitize(aspect) for aspect, _query, _probe in found))}
    made |= {"text": sanitize(query.texts[0]), "gold": _names(query.gold)}
    if query.pre_edit is not None and probe.phase != "before":
        made["pre_edit"] = _names(query.pre_edit)
    if query.continuations:
        contexts = query.contexts or ("",) * len(query.continuations)
        pairs = zip(contexts, query.continuations, strict=True)
        made["continuations"] = [sanitize(context + text) for context, text in pairs]
    return made


def _in_form(query: Query | None, phase: Phase, run: BrowsedRun, answered: AnsweredCase) -> Query | None:
    return query and in_form(query, phase, run.edited_form, edited=answered.edited)


def _prompt(dataset: Dataset | None, query: Query | None, style: str, texts: SharedTexts) -> Json:
    """Return the numbers of the prompt's texts: the shared beginning, the question and the rest.

    Empty for prompts that are not recorded: an editor's own prompts.
    """
    if query is None or dataset is None or style == OWN:
        return {}
    prompt = dataset.prompt(query, style)
    if prompt is None:
        return {}
    before, question, after = prompt.text.rpartition(query.texts[0]) if query.texts[0] else (prompt.text, "", "")
    return {"prompt": [texts.number(part) for part in (before, question, after) if part]}


def _names(gold: Gold) -> str:
    return sanitize(gold.words(_named))


def _named(entity: Entity) -> str:
    others = [alias for alias in dict.fromkeys(entity.aliases) if alias != entity.label]
    more = len(others) - NAMES
    shown = ", ".join(others[:NAMES]) + (f" and {more} more" if more > 0 else "")
    return f"{entity.label} (also {shown})" if others else entity.label


def _edit(edit: Edit, facts: dict[str, str], benchmark: int) -> Json:
    facts[f"{benchmark} {sanitize(edit.id)}"] = sanitize(edit.statement)
    return {"text": sanitize(edit.statement), "was": sanitize(edit.old_target)}


def _answered(answered: AnsweredCase, place: QueryKey, benchmark: int, retrieved: set[str]) -> Json:
    """Return a reply with its verdict. Add the facts of its steps to ``retrieved``."""
    reply, judgment = answered.replies[place], answered.judgments.get(place)
    measured = isinstance(reply, Scored) and (judgment is None or judgment.verdict is Verdict.UNSURE)
    made = _reply(reply, benchmark)
    retrieved.update(name for step in made.get("steps", ()) for name in step["retrieved"])
    return made | ({"verdict": MEASURED} if measured else _verdict(judgment))


def _reply(reply: Reply, benchmark: int) -> Json:
    if isinstance(reply, Failure):
        return {"ended": "failure", "text": sanitize(f"{reply.error}: {reply.message}")}
    if isinstance(reply, Scored):
        return {"ended": "scored", "logprobs": list(reply.logprobs)}
    return _answer(reply, benchmark)


def _answer(reply: Answer, benchmark: int) -> Json:
    made: Json = {"text": sanitize(reply.text)}
    if reply.raw.strip() != reply.text:
        made["raw"] = sanitize(reply.raw)
    if reply.outcome != "answered":
        made["ended"] = reply.outcome
    if reply.steps:
        made["steps"] = [
            {
                "kind": sanitize(step.kind),
                "text": sanitize(step.text),
                "answer": sanitize(step.answer),
                "retrieved": [f"{benchmark} {sanitize(name)}" for name in step.retrieved],
                "scores": [round(score, 4) for score in step.scores],
            }
            for step in reply.steps
        ]
    if reply.cost.calls:
        made["cost"] = [reply.cost.calls, reply.cost.prompt_tokens, reply.cost.tokens]
    return made


def _verdict(judgment: Judgment | None) -> Json:
    if judgment is None:
        return {}
    return {"verdict": judgment.verdict.value, "why": [_why(finding) for finding in judgment.findings]}


def _why(finding: Finding) -> list[str]:
    """Return label, item and note of a finding."""
    return [sanitize(finding.label), sanitize(finding.item), sanitize(finding.note)]
