"""A benchmark of two cases for the core's own tests, the contracts and the documentation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from attrs import frozen

from ke_core.plugin import (
    EFFICACY,
    Answer,
    Case,
    CaseRecord,
    DatasetInfo,
    DatasetSpec,
    Decoding,
    Edit,
    Entity,
    Fact,
    Gold,
    Judgment,
    Material,
    Outcome,
    Phase,
    Probe,
    Prompt,
    Query,
    Verdict,
    contradicting,
    option,
)
from ke_testing.examples import MOVE_GATE, MOVE_TOWER

COUNTRY_OF = {"Paris": "France", "Rome": "Italy", "Berlin": "Germany", "Madrid": "Spain"}


@frozen(kw_only=True)
class ToyConfig:
    """One option."""

    mask: bool = option("hide edits that contradict a case's own path", default=False)


@frozen(kw_only=True)
class Toy:
    """Two monuments move to other cities, and therefore to other countries."""

    config: ToyConfig = ToyConfig()

    def cases(self) -> Iterator[Case]:
        """Return two two-hop cases with one edit each."""
        for number, edit in enumerate((MOVE_TOWER, MOVE_GATE), start=1):
            yield _case(str(number), edit)

    def prompt(self, query: Query, style: str) -> Prompt | None:
        """Return a zero-shot prompt, or the bare cloze; multi-hop questions only in the style ``cot``."""
        decoding = Decoding(max_tokens=8, stop=("\n",))
        if query.form == "cloze":
            return Prompt(text=query.texts[0], decoding=decoding) if style == "direct" else None
        if style == "cot" and not query.hops:
            return None
        think = " Let us think." if style == "cot" else ""
        return Prompt(text=f"Q: {query.texts[0]}{think} A:", decoding=decoding)

    def split(self, k: int, seed: int) -> Mapping[str, str] | None:
        """Return None: no split of its own."""
        del k, seed
        return None

    def hides(self, case: Case, bank: Mapping[str, Edit], *, edited: bool) -> frozenset[str]:
        """Return the edits that contradict the case's path, if ``mask`` is set."""
        if not self.config.mask:
            return frozenset()
        return contradicting(case.facts_after if edited else case.facts_before, bank)

    def material(self) -> Mapping[str, Material]:
        """Return ``answers``: ``case/query`` to the gold answer of the edited world."""
        answers = {
            f"{case.id}/{query.id}": query.gold.entities[0].label
            for case in self.cases()
            for probe in case.probes
            for query in probe.queries
        }
        return {"answers": Material(value=answers, oracle=True)}

    def info(self) -> DatasetInfo:
        """Return the description."""
        return DatasetInfo(title="toy", license="Apache-2.0", source="ke_testing.toy", sha256="0" * 64)


def toy_spec(metrics: tuple[str, ...] = (), judge: str = "") -> DatasetSpec:
    """Return the spec for tests."""
    return DatasetSpec(
        name="toy",
        summary="two cases",
        config=ToyConfig,
        build=lambda config: Toy(config=config),
        aspects=(EFFICACY, "instance", "multi-hop"),
        styles=("direct", "cot"),
        metrics=metrics,
        judge=judge,
        hides=lambda config: config.mask,
    )


def toy_record(verdict: Verdict = Verdict.RIGHT) -> CaseRecord:
    """Return case 1 with one verdict for all answers, in the styles ``direct`` and ``cot``."""
    case = next(Toy().cases())
    outcome = Outcome(reply=Answer(text="Italy"), judgment=Judgment(verdict=verdict))
    phases: tuple[Phase, ...] = ("before", "after")
    outcomes = {
        (phase, style, query.id): outcome
        for phase in phases
        for probe in case.probes
        if probe.asked(phase)
        for query in probe.queries
        for style in (("direct", "cot") if query.hops else ("direct",))
    }
    return CaseRecord(case=case, batch="0", outcomes=outcomes)


def _case(name: str, edit: Edit) -> Case:
    assert edit.before is not None
    assert edit.after is not None
    subject, old, new = edit.before.subject, edit.before.objects[0], edit.after.objects[0]
    hops_before = (_where(edit, gold=old, pre_edit=None, id_="hop-1-before"), _country(old, "hop-2-before"))
    hops = (_where(edit, gold=new, pre_edit=old, id_="hop-1"), _country(new, "hop-2"))
    wordings = (f"In which country is {subject.label}?", f"What country does {subject.label} stand in?")
    questions = tuple(
        Query(
            id=f"multi-hop-{n}",
            texts=(wordings[n], *(w for w in wordings if w != wordings[n])),
            gold=_gold(COUNTRY_OF[new.label]),
            pre_edit=_gold(COUNTRY_OF[old.label]),
            hops=hops,
            hops_before=hops_before,
        )
        for n in range(len(wordings))
    )
    return Case(
        id=name,
        edits=(edit,),
        probes=(
            Probe(id="efficacy-1", aspect=EFFICACY, queries=hops[:1], edits=(edit.id,)),
            Probe(id="instance-before", aspect="instance", queries=hops_before, require="all", phase="before"),
            Probe(id="instance-after", aspect="instance", queries=hops, require="all", edits=(edit.id,)),
            Probe(id="multi-hop", aspect="multi-hop", queries=questions, phase="both", edits=(edit.id,)),
        ),
        facts_before=_path(edit.before, old),
        facts_after=_path(edit.after, new),
        tags={"hops": "2", "edits": "1"},
    )


def _where(edit: Edit, *, gold: Entity, pre_edit: Entity | None, id_: str) -> Query:
    assert edit.question is not None
    assert edit.cloze is not None
    return Query(
        id=id_,
        texts=(edit.question,),
        cloze=edit.cloze.prompt,
        gold=Gold(entities=(gold,)),
        pre_edit=Gold(entities=(pre_edit,)) if pre_edit else None,
        edit=edit.id if pre_edit else None,
    )


def _country(city: Entity, id_: str) -> Query:
    return Query(id=id_, texts=(f"In which country is {city.label}?",), gold=_gold(COUNTRY_OF[city.label]))


def _gold(label: str) -> Gold:
    return Gold(entities=(Entity(label=label),))


def _path(first: Fact, city: Entity) -> tuple[Fact, ...]:
    country = Entity(label=COUNTRY_OF[city.label])
    return first, Fact(subject=city, relation=first.relation, objects=(country,))
