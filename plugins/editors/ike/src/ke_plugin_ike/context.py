"""IKE (Zheng et al. 2023): a context that shows a model what to do with a new fact.

::

    a new fact, and its own sentence with the new object        copy
    a new fact, and a paraphrase of it with the new object      update      k of these, 1:3:4,
    a new fact, and a sentence about another subject,           retain      the nearest to the edit last
    with the object that it always had
    the edit, and its own sentence                              copy
    the edit, and the question                                  the model goes on from here

Nothing of it is ever left out to make it fit: the model says when a prompt is longer than its context.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import cycle, islice
from random import Random

from attrs import frozen

from ke_core.plugin import Hit, Nearest, Procedure
from ke_plugin_ike.corpus import Demonstration, DemonstrationCorpus, Kind
from ke_plugin_ike.layout import DemonstrationFormat

RATIO: tuple[Kind, ...] = ("retain", "update", "retain", "copy", "retain", "update", "retain", "update")
"""Copy, update and retain as 1:3:4; mixed, so that the ratio roughly holds for any number of them."""

Facts = Sequence[str]
Select = Callable[[DemonstrationCorpus, frozenset[str], Facts, int, Random], Procedure[list[Demonstration]]]


def by_ratio(
    corpus: DemonstrationCorpus, barred: frozenset[str], facts: Facts, k: int, chance: Random
) -> Procedure[list[Demonstration]]:
    """The paper's: one demonstration of each of the ``k`` nearest records, kinds shuffled; the nearest last."""
    enough = k * corpus.widest  # so many sentences are of k records at least
    hits: tuple[Hit, ...] = yield Nearest(memory=corpus.memory, text=" ".join(facts), k=enough, hidden=barred)
    records = list(dict.fromkeys(corpus.demonstrations[hit.id].record for hit in hits))[:k]
    kinds = list(islice(cycle(RATIO), len(records)))
    chance.shuffle(kinds)
    shown = [chance.choice(corpus.of(*pair, barred)) for pair in zip(records, kinds, strict=True)]
    return shown[::-1]


def by_distance(
    corpus: DemonstrationCorpus, barred: frozenset[str], facts: Facts, k: int, chance: Random
) -> Procedure[list[Demonstration]]:
    """EasyEdit's: the ``k`` nearest demonstrations of whatever kind; nearest first."""
    del chance  # nothing is left to it
    hits: tuple[Hit, ...] = yield Nearest(memory=corpus.memory, text=" ".join(facts), k=k, hidden=barred)
    return [corpus.demonstrations[hit.id] for hit in hits]


@frozen(kw_only=True)
class IkeProfile:
    """Where the published variants differ: how many are shown, which, and whether a copy of the edit follows."""

    k: int
    select: Select
    copies_edit: bool


PROFILES = {
    "paper": IkeProfile(k=32, select=by_ratio, copies_edit=True),
    "easyedit": IkeProfile(k=16, select=by_distance, copies_edit=False),
}


@frozen(kw_only=True)
class IkeContext:
    """Makes the context of any edits. ``k`` demonstrations are shown, fewer where there are fewer."""

    corpus: DemonstrationCorpus
    layout: DemonstrationFormat
    profile: IkeProfile
    k: int
    seed: int

    def before(self, facts: Facts, barred: frozenset[str], query: str, known: str = "") -> Procedure[str]:
        """The prompt that asks ``query`` under ``facts``; it has no space at its end, and an answer begins with one.

        The demonstrations depend on the facts alone, so that all queries about an edit share one prefix.
        ``barred``: ids of the demonstrations that tell of an edit in force. ``known``: what was right before the facts;
        it is shown as the answer to the query under no fact.
        """
        chance = Random(f"{self.seed}/{facts}")  # noqa: S311  an order, no secret
        shown = (yield from self.profile.select(self.corpus, barred, facts, self.k, chance)) if self.k else []
        blocks = [self.layout.block((each.fact,), each.prompt, each.answer) for each in shown]
        if self.profile.copies_edit:
            blocks += [self.layout.block((fact,), fact) for fact in facts]
        if known:
            blocks.append(self.layout.block((), query, known))
        return "\n\n".join([*blocks, self.layout.block(facts, query)])
