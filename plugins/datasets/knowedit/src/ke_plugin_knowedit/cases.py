"""Convert records to cases. Every question goes to both models; locality compares their answers without gold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from attrs import evolve, field, frozen

from ke_benchmarks import (
    FORCED,
    both_phases,
    cloze_edit,
    not_blank,
    one_of,
    question_edit,
    scored_query,
    text_edit,
    truth_names,
)
from ke_core.plugin import (
    EFFICACY,
    FLUENCY,
    LOCALITY,
    PARAPHRASE,
    PORTABILITY,
    Case,
    Edit,
    Entity,
    Form,
    Gold,
    Probe,
    Query,
)

OPENING = "opening"
"""The id of the query whose text is continued for fluency."""
CRITERION, LOGICAL = "criterion", "logical-generalization"
"""The tag that names the kind of a portability or locality question, and one of its values."""


@frozen(kw_only=True)
class KnoweditItem:
    """A question of one kind. ``objects``: groups of names, one for each object."""

    kind: str
    prompt: str = field(validator=not_blank)
    objects: tuple[tuple[str, ...], ...]


@frozen(kw_only=True)
class KnoweditRecord:
    """One record in the common layout of ``ke_plugin_knowedit.layouts``.

    ``targets``: other texts that are right after the edit, too. ``old``: the pre-edit answer.
    """

    subject: str
    prompt: str = field(validator=not_blank)
    target: str
    targets: tuple[str, ...] = ()
    old: tuple[tuple[str, ...], ...] = ()
    rephrase: str = ""
    portability: tuple[KnoweditItem, ...] = ()
    locality: tuple[KnoweditItem, ...] = ()


@frozen(kw_only=True)
class KnoweditCases:
    """Converts records. ``objects``: which of several right objects an answer must name."""

    objects: Literal["any", "all"] = "any"
    fluency: bool = False

    def case(self, name: str, record: KnoweditRecord, decoy: str) -> Case:
        """Convert one record. ``decoy``: the target of another record."""
        edit, own = edit_of(record), own_query(record)
        ids = (edit.id,)
        asked = {EFFICACY: (evolve(own, edit=edit.id),), EFFICACY + FORCED: (scored_query(own, decoy),)}
        if record.rephrase.strip():
            again = evolve(own, id="rephrase", texts=(record.rephrase.strip(),), form=form_of(record.rephrase))
            asked |= {PARAPHRASE: (again,), PARAPHRASE + FORCED: (scored_query(again, decoy),)}
        if self.fluency:
            opening = Query(id=OPENING, texts=own.texts, form="cloze", gold=Gold())
            asked[FLUENCY] = (opening,)
        probes = [probe for aspect, queries in asked.items() for probe in both_phases(aspect, queries, ids)]
        return Case(
            id=name,
            edits=(edit,),
            probes=(*probes, *self._portability(record, ids), *self._locality(record, ids)),
            facts_before=(edit.before,) if edit.before else (),
            facts_after=(edit.after,) if edit.after else (),
        )

    def _portability(self, record: KnoweditRecord, edits: tuple[str, ...]) -> Iterator[Probe]:
        """Yield a probe for each question. Questions without an answer are left out."""
        for place, item in enumerate(record.portability, start=1):
            query = self._query(item, f"portability-{place}")
            if query.gold.entities:
                yield from both_phases(PORTABILITY, (query,), edits, name=query.id)

    def _locality(self, record: KnoweditRecord, edits: tuple[str, ...]) -> Iterator[Probe]:
        """Yield a probe for each kind, whose value is the fraction of unchanged answers. They need no right answer."""
        kinds: dict[str, list[Query]] = {}
        for place, item in enumerate(record.locality, start=1):
            kinds.setdefault(item.kind, []).append(self._query(item, f"locality-{place}"))
        for kind, queries in kinds.items():
            yield from both_phases(LOCALITY, queries, edits, name=f"{LOCALITY}-{_tag(kind)}")

    def _query(self, item: KnoweditItem, name: str) -> Query:
        tags = {CRITERION: _tag(item.kind)}
        gold = one_of((*names, *(word for one in names for word in truth_names(one))) for names in item.objects)
        # the objects of a logical generalization are wordings of one answer, such as "no" and "is not alive"
        require = "any" if tags[CRITERION] == LOGICAL else self.objects
        asked = Gold() if gold is None else evolve(gold, require=require)
        return Query(id=name, texts=(item.prompt.strip(),), form=form_of(item.prompt), gold=asked, tags=tags)


def edit_of(record: KnoweditRecord) -> Edit:
    """Return the edit: of a fact, or of a text if the record names no subject."""
    prompt, target, old = record.prompt.strip(), record.target.strip(), _old(record)
    if not record.subject.strip():
        return text_edit(prompt, target, old=old.entities[0].label if old else "")
    new, before = Entity(label=target), old.entities[0] if old else None
    if form_of(prompt) == "question":
        return question_edit(prompt, record.subject.strip(), new, before)
    return cloze_edit(prompt, record.subject.strip(), new, before)


def own_query(record: KnoweditRecord) -> Query:
    """Return the question of the edit's own fact."""
    new = one_of([(record.target,), *((text,) for text in record.targets)])
    assert new is not None
    prompt = record.prompt.strip()
    return Query(id="edit", texts=(prompt,), form=form_of(prompt), gold=new, pre_edit=_old(record))


def form_of(prompt: str) -> Form:
    """Return whether a prompt is a question or a text to continue."""
    return "question" if prompt.rstrip().endswith("?") else "cloze"


def _old(record: KnoweditRecord) -> Gold | None:
    """Return the pre-edit answer, unless it is a spelling of the new one."""
    old = one_of(record.old)
    new = {text.strip().casefold() for text in (record.target, *record.targets)}
    if old is None or any(name.casefold() in new for entity in old.entities for name in entity.names):
        return None
    return old


def _tag(kind: str) -> str:
    return kind.lower().replace("_", "-")
