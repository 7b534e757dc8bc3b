"""IKE (Zheng et al. 2023): a context that demonstrates how to use a new fact.

::

    a new fact, and its own sentence with the new object        copy
    a new fact, and a paraphrase of it with the new object      update      k of these, 1:3:4,
    a new fact, and a sentence about another subject,           retain      the nearest to the edit last
    with its unchanged object
    the edit, and its own sentence                              copy
    the edit, and the question                                  the model continues here

Nothing is omitted to make the context fit: the model raises an error if a prompt is too long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import cycle, islice
from random import Random

from attrs import frozen

from ke_core.plugin import BadConfig, Hit, Nearest, Procedure
from ke_plugin_ike.corpus import Demonstration, DemonstrationCorpus, Kind

FACT, ANSWERED = "{fact}", "{prompt} {answer}"
FILE = "demonstration.txt"
RATIO: tuple[Kind, ...] = ("retain", "update", "retain", "copy", "retain", "update", "retain", "update")
"""Copy, update and retain as 1:3:4, mixed so that the ratio holds approximately for any number."""

Facts = Sequence[str]
Select = Callable[[DemonstrationCorpus, frozenset[str], Facts, int, Random], Procedure[list[Demonstration]]]


def by_ratio(
    corpus: DemonstrationCorpus, excluded: frozenset[str], facts: Facts, k: int, chance: Random
) -> Procedure[list[Demonstration]]:
    """As in the paper: one demonstration of each of the ``k`` nearest records, kinds shuffled, nearest last."""
    enough = k * corpus.widest  # this many sentences belong to at least k records
    hits: tuple[Hit, ...] = yield Nearest(memory=corpus.memory, text=" ".join(facts), k=enough, hidden=excluded)
    records = list(dict.fromkeys(corpus.demonstrations[hit.id].record for hit in hits))[:k]
    kinds = list(islice(cycle(RATIO), len(records)))
    chance.shuffle(kinds)
    shown = [chance.choice(corpus.of(*pair, excluded)) for pair in zip(records, kinds, strict=True)]
    return shown[::-1]


def by_distance(
    corpus: DemonstrationCorpus, excluded: frozenset[str], facts: Facts, k: int, chance: Random
) -> Procedure[list[Demonstration]]:
    """As in EasyEdit: the ``k`` nearest demonstrations of any kind, nearest first."""
    del chance  # nothing is sampled
    hits: tuple[Hit, ...] = yield Nearest(memory=corpus.memory, text=" ".join(facts), k=k, hidden=excluded)
    return [corpus.demonstrations[hit.id] for hit in hits]


@frozen(kw_only=True)
class IkeProfile:
    """A published version: number and selection of demonstrations, and whether a copy of the edit follows."""

    k: int
    select: Select
    copies_edit: bool


PROFILES = {
    "paper": IkeProfile(k=32, select=by_ratio, copies_edit=True),
    "easyedit": IkeProfile(k=16, select=by_distance, copies_edit=False),
}


@frozen(kw_only=True)
class DemonstrationFormat:
    """``fact`` is a line with ``{fact}``; ``text`` precedes the prompt in the second line."""

    fact: str
    text: str

    def block(self, facts: Iterable[str], prompt: str, answer: str = "") -> str:
        """Return one demonstration; without an answer, the start of the model's part, without trailing space."""
        lines = [self.fact.replace(FACT, fact) for fact in facts]
        return "\n".join([*lines, f"{self.text}{prompt} {answer}".rstrip()])


def read_layout(written: str) -> DemonstrationFormat:
    """Parse a ``demonstration.txt``. Raises BadConfig if it is not two such lines."""
    lines = written.splitlines()
    if len(lines) != 2 or lines[0].count(FACT) != 1 or not lines[1].endswith(ANSWERED):
        raise BadConfig(
            f"ike.prompts: {FILE} has the wrong format",
            hint=f"write two lines: one with {FACT}, one that ends with {ANSWERED}",
        )
    return DemonstrationFormat(fact=lines[0], text=lines[1].removesuffix(ANSWERED))


@frozen(kw_only=True)
class IkeContext:
    """Builds the context of any edits, with ``k`` demonstrations, or fewer if there are fewer."""

    corpus: DemonstrationCorpus
    layout: DemonstrationFormat
    profile: IkeProfile
    k: int
    seed: int

    def before(self, facts: Facts, excluded: frozenset[str], query: str, known: str = "") -> Procedure[str]:
        """Return the prompt that asks ``query`` with ``facts``, without trailing space.

        The demonstrations depend on the facts only, so all queries about an edit share a prefix. ``excluded``: ids of
        the demonstrations about active edits. ``known``: the answer before the edits, shown as the answer without a
        fact.
        """
        chance = Random(f"{self.seed}/{facts}")  # noqa: S311  not for security
        shown = (yield from self.profile.select(self.corpus, excluded, facts, self.k, chance)) if self.k else []
        blocks = [self.layout.block((each.fact,), each.prompt, each.answer) for each in shown]
        if self.profile.copies_edit:
            blocks += [self.layout.block((fact,), fact) for fact in facts]
        if known:
            blocks.append(self.layout.block((), query, known))
        return "\n\n".join([*blocks, self.layout.block(facts, query)])
