"""Hops that the edits of other cases rewrite: MQuAKE-Remastered, section 3, tables 1, 2, 8 and 9."""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence

from attrs import frozen

from ke_benchmarks.audit.bank import AuditBank, Rule, edits_with_facts, shared_labels
from ke_core.plugin import BadConfig, Case, Fact


@frozen(kw_only=True)
class ContaminatedHop:
    """A hop that edits of other cases rewrite. ``hop`` counts from 1; ``by``: those cases, in file order."""

    case: str
    hop: int
    fact: Fact
    by: tuple[str, ...]


@frozen(kw_only=True)
class Contamination:
    """Contamination if the edits of ``edited`` cases are applied together: of unedited cases, and of edited ones."""

    edited: tuple[str, ...]
    on_unedited: tuple[ContaminatedHop, ...]
    on_edited: tuple[ContaminatedHop, ...]


def tally(hits: Collection[ContaminatedHop]) -> tuple[int, int]:
    """Return (contaminated cases, contaminated sub-questions). A hop counts once, however many edits rewrite it."""
    return len({hit.case for hit in hits}), len(hits)


def draw(cases: Sequence[Case], k: int, seed: int) -> tuple[str, ...]:
    """Return the ids of ``k`` cases, sampled like the published lists: ``random.seed``, then ``random.sample`` of the
    ids.

    Raises BadConfig if there are fewer cases.
    """
    if not 0 <= k <= len(cases):
        raise BadConfig(
            f"cannot edit {k} of {len(cases)} cases", hint=f"use --num-edited with numbers up to {len(cases)}"
        )
    return tuple(random.Random(seed).sample([case.id for case in cases], k))  # noqa: S311  not a secret


def contamination(cases: Sequence[Case], edited: Collection[str], rule: Rule = "question") -> Contamination:
    """Return the hops of every case that the edits of the cases ``edited`` rewrite.

    The path of an edited case is ``facts_after``, of any other ``facts_before``. Hops that the case itself edits are
    not included: contradictions with other edits are conflicts (``conflicts``).
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
