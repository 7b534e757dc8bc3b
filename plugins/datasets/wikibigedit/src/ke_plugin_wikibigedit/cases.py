"""Convert records to cases. Questions that a record lacks (null) are absent, not wrong."""

from __future__ import annotations

from typing import Any

from attrs import evolve, field, frozen

from ke_benchmarks import FORCED, both_phases, question_edit, scored_query, text_edit
from ke_core.plugin import EFFICACY, LOCALITY, PARAPHRASE, PORTABILITY, Case, Edit, Entity, Gold, Query

PERSONAS = "personas"


def one_layout(raw: Any) -> Any:
    """Return a record with all of its persona questions in one list. The files name them in several ways."""
    if not isinstance(raw, dict):
        return raw
    asked = [value for name, value in raw.items() if name.startswith(PERSONAS) and value is not None]
    return raw | {PERSONAS: asked}


def case(name: str, record: WikibigeditRecord, step: str, decoy: str) -> Case:
    """Convert one editable record. ``step``: its interval. ``decoy``: the target of another record."""
    tags = {"timestep": step, **({"change": text(record.tag)} if has(record.tag) else {})}
    gold = Gold(entities=(Entity(label=text(record.ans)),))
    edit = _edit(record)
    ids = (edit.id,)
    own = Query(id="edit", texts=(text(record.update),), gold=gold, edit=edit.id, tags=tags)
    probes = [*both_phases(EFFICACY, (own,), ids), *both_phases(EFFICACY + FORCED, (scored_query(own, decoy),), ids)]
    wordings = {"rephrase": text(record.rephrase)}
    wordings |= {f"persona-{at}": found.strip() for at, found in enumerate(record.personas, start=1)}
    for label, wording in wordings.items():
        if wording:
            kind = {"wording": label.partition("-")[0]}
            again = evolve(own, id=label, texts=(wording,), edit=None, tags=tags | kind)
            probes += both_phases(PARAPHRASE, (again,), ids, name=f"{PARAPHRASE}-{label}")
            probes += both_phases(PARAPHRASE + FORCED, (scored_query(again, decoy),), ids, name=f"{label}{FORCED}")
    for aspect, label, question, answer in (
        (PORTABILITY, "multi-hop", record.mhop, record.mhop_ans),
        (LOCALITY, "near", record.loc, record.loc_ans),
    ):
        if has(question) and has(answer):
            right = Gold(entities=(Entity(label=text(answer)),))
            probes += both_phases(aspect, (Query(id=label, texts=(text(question),), gold=right, tags=tags),), ids)
    return Case(
        id=name, edits=(edit,), probes=tuple(probes), facts_after=(edit.after,) if edit.after else (), tags=tags
    )


def _edit(record: WikibigeditRecord) -> Edit:
    """Return the edit, without a subject if the record names none."""
    if has(record.subject):
        return question_edit(text(record.update), text(record.subject), Entity(label=text(record.ans)))
    return text_edit(text(record.update), text(record.ans))


def has(value: str | None) -> bool:
    """Return whether a field has a text. Published records have null, and blank texts."""
    return bool(value and value.strip())


def text(value: str | None) -> str:
    """Return the text of a field, or an empty text."""
    return (value or "").strip()


@frozen(kw_only=True)
class WikibigeditRecord:
    """One change. ``update``: its question; ``ans``: the new answer. The old answer is not published."""

    tag: str | None = None
    subject: str | None
    update: str | None
    rephrase: str | None
    personas: tuple[str, ...] = field(factory=tuple)
    ans: str | None
    loc: str | None
    loc_ans: str | None
    mhop: str | None
    mhop_ans: str | None

    @property
    def is_editable(self) -> bool:
        """Whether it has a question and an answer."""
        return has(self.update) and has(self.ans)
