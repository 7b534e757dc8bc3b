"""Which hops of which cases the edits of other cases rewrite: MQuAKE-Remastered section 3, its tables 1, 2, 8 and 9."""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence

from attrs import frozen

from ke_benchmarks.audit.bank import AuditBank, Rule, edits_with_facts, shared_labels
from ke_core.plugin import BadConfig, Case, Fact


@frozen(kw_only=True)
class ContaminatedHop:
    """A hop that edits of other cases rewrite. ``hop`` counts from 1; ``by`` are those cases, in file order."""

    case: str
    hop: int
    fact: Fact
    by: tuple[str, ...]


@frozen(kw_only=True)
class Contamination:
    """What happens when the edits of ``edited`` cases are made together: hits of the others, and among themselves."""

    edited: tuple[str, ...]
    on_unedited: tuple[ContaminatedHop, ...]
    on_edited: tuple[ContaminatedHop, ...]


def tally(hits: Collection[ContaminatedHop]) -> tuple[int, int]:
    """(contaminated cases, contaminated sub-questions): a hop counts once, however many edits hit it."""
    return len({hit.case for hit in hits}), len(hits)


def draw(cases: Sequence[Case], k: int, seed: int) -> tuple[str, ...]:
    """The ids of ``k`` cases, drawn as the published lists were: ``random.seed``, then ``random.sample`` of the ids.

    Raises BadConfig if there are not so many cases.
    """
    if not 0 <= k <= len(cases):
        raise BadConfig(f"cannot edit {k} of {len(cases)} cases", hint=f"--num-edited takes numbers up to {len(cases)}")
    return tuple(random.Random(seed).sample([case.id for case in cases], k))  # noqa: S311  not a secret


def contamination(cases: Sequence[Case], edited: Collection[str], rule: Rule = "question") -> Contamination:
    """The hops that the edits of the cases ``edited`` rewrite, of every case.

    The path of an edited case is ``facts_after``, of any other ``facts_before``. A hop whose fact the case edits
    itself is its own affair, whatever others make of it: that is a conflict (``conflicts``).
    """
    chosen = frozenset(edited)
    bank = AuditBank.of((case for case in cases if case.id in chosen), rule, shared_labels(cases))
    on_unedited: list[ContaminatedHop] = []
    on_edited: list[ContaminatedHop] = []
    for case in cases:
        inside = case.id in chosen
        own = {bank.key(fact) for _edit, fact in edits_with_facts(case)} if inside else set()
        for hop, fact in enumerate(case.facts_after if inside else case.facts_before, start=1):
            against = bank.against(fact)
            if against and bank.key(fact) not in own:
                by = tuple(dict.fromkeys(name for names in against.values() for name in names))
                (on_edited if inside else on_unedited).append(ContaminatedHop(case=case.id, hop=hop, fact=fact, by=by))
    return Contamination(edited=tuple(edited), on_unedited=tuple(on_unedited), on_edited=tuple(on_edited))
