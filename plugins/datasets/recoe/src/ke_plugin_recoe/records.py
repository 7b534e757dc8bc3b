"""The records of a ReCoE file, spelt as in the release, checked field by field: nothing of a data file is trusted."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Literal

from attrs import asdict, field, frozen, make_class

from ke_core.plugin import all_said, labelled, said, some_said

Scheme = Literal["superlative", "comparative", "counting", "sorting", "aggregation", "subtraction"]
UNCHANGED = "unchanged_facts"
DIRECT = ("direct_facts", "direct_counterfactuals")
"""Members of ``facts_per_choice`` and ``counterfactuals_per_choice`` that hold what states the answer itself."""
COMPONENTS = 2
"""A sum or a difference is of so many facts at least."""
BY_CHOICE = ("superlative", "comparative")
"""Schemes whose facts always belong to one of two choices."""
NUMBER = re.compile(r"[+-]?(\d+|\d{1,3}(,\d{3})+)(\.\d+)?\Z")
WORDS = "zero one two three four five six seven eight nine ten eleven twelve".split()  # noqa: SIM905  shorter


@frozen(kw_only=True)
class Triple:
    """(subject; relation; object), as OpenIE has them: a subject may be a clause, and objects are often not unique."""

    subject: str
    relation: str
    object: str

    @property
    def place(self) -> tuple[str, str]:
        """Subject and relation, letters' case and spaces aside."""
        return plain(self.subject), plain(self.relation)

    def __str__(self) -> str:
        """As it stands in the file."""
        return f"({self.subject}; {self.relation}; {self.object})"


def parse_triple(text: str) -> Triple:
    """A triple from its text. Semicolons inside parentheses join; what follows the second belongs to the object.

    Raises ValueError where there are not three parts that are not blank.
    """
    inside = text.strip()
    if inside.startswith("(") and inside.endswith(")"):
        inside = inside[1:-1]
    depth, parts = 0, [""]
    for letter in inside:
        depth += (letter == "(") - (letter == ")")
        if letter == ";" and depth <= 0 and len(parts) < 3:
            parts.append("")
        else:
            parts[-1] += letter
    match [part.strip() for part in parts]:
        case [str(subject), str(relation), str(object_)] if subject and relation and object_:
            return Triple(subject=subject, relation=relation, object=object_)
    raise ValueError(f"{text!r} is no (subject; relation; object)")


@frozen(kw_only=True)
class Stated:
    """One fact: a sentence, and what it says in atoms, each as a sentence and as a triple."""

    fact: str = field(validator=said)
    links: tuple[str, ...] = ()
    atomic_facts: tuple[str, ...] = field(validator=some_said)
    atomic_triples: tuple[str, ...] = field(validator=some_said)

    def __attrs_post_init__(self) -> None:
        """A triple for every sentence."""
        if len(self.atomic_facts) != len(self.atomic_triples):
            raise ValueError(
                f"{len(self.atomic_facts)} atomic_facts and {len(self.atomic_triples)} atomic_triples must be as many"
            )
        for text in self.atomic_triples:
            parse_triple(text)

    def atoms(self) -> Iterator[tuple[str, Triple]]:
        """Sentence and triple of each atomic fact."""
        return zip(self.atomic_facts, map(parse_triple, self.atomic_triples), strict=True)


Group = tuple[Stated, ...]


@frozen(kw_only=True)
class Record:
    """One datapoint. ``scheme`` is in files of one's own; in the release it is the folder's name."""

    question: str = field(validator=labelled)
    answer: str = field(validator=labelled)
    counterfactual_answer: str = field(validator=labelled)
    answer_alias: tuple[str, ...] = field(validator=all_said)
    counterfactual_answer_alias: tuple[str, ...] = field(validator=all_said)
    facts_per_choice: Mapping[str, Group]
    counterfactuals_per_choice: Mapping[str, Group]
    scheme: Scheme | None = None

    def __attrs_post_init__(self) -> None:
        """An answer that stays is no counterfactual, and neither are facts that stay."""
        if plain(self.answer) == plain(self.counterfactual_answer):
            raise ValueError("counterfactual_answer is the answer")
        if self.scheme in BY_CHOICE:
            check_choices(self)
        if not any(self.facts_per_choice.values()):
            raise ValueError("facts_per_choice holds no fact")
        held = {plain(sentence) for fact in self.facts() for sentence in fact.atomic_facts}
        if all(plain(sentence) in held for fact in self.counterfactuals() for sentence in fact.atomic_facts):
            raise ValueError("counterfactuals_per_choice changes nothing")

    def facts(self) -> Iterator[Stated]:
        """What supports the answer, without what states it (the direct fact)."""
        yield from self._indirect(self.facts_per_choice, self.answer)

    def counterfactuals(self) -> Iterator[Stated]:
        """What supports the counterfactual answer, and only that is edited (section 4.1 of the paper)."""
        yield from self._indirect(self.counterfactuals_per_choice, self.counterfactual_answer)

    def unchanged(self) -> Group:
        """Facts that stay: context, no edits. Absent is as good as none."""
        return self.counterfactuals_per_choice.get(UNCHANGED, ())

    def _indirect(self, groups: Mapping[str, Group], answer: str) -> list[Stated]:
        """Without the one fact that states the answer, where nothing marks it and the sum or difference of two is left.

        A component may equal the answer too: the direct fact is the one that says most of what is asked.
        """
        own = [fact for name, group in groups.items() if name not in (UNCHANGED, *DIRECT) for fact in group]
        if self.scheme not in ("aggregation", "subtraction") or any(name in groups for name in DIRECT):
            return own
        stating = [at for at, fact in enumerate(own) if _states(fact, answer)]
        if not stating or len(own) < COMPONENTS + 1:
            return own
        asked = _words(self.question)
        direct = max(stating, key=lambda at: len(asked & _words(own[at].fact)))
        return own[:direct] + own[direct + 1 :]

    def json(self) -> dict[str, Any]:
        """JSON values in the file's format; counterfactuals have no links."""
        made = asdict(self)
        for group in made["counterfactuals_per_choice"].values():
            for fact in group:
                del fact["links"]
        return made


def check_choices(record: Record) -> None:
    """Both choices have facts and counterfactuals. Raises ValueError."""
    for name, groups in (("facts", record.facts_per_choice), ("counterfactuals", record.counterfactuals_per_choice)):
        for choice in (1, 2):
            if not groups.get(f"choice_{choice}_{name}"):
                raise ValueError(f"{name}_per_choice has no choice_{choice}_{name}")


@frozen(kw_only=True)
class Own(Record):
    """A record of a file of one's own: it names its scheme."""

    scheme: Scheme


@cache
def of_scheme(scheme: Scheme) -> type[Record]:
    """A record of the release, whose scheme is the folder it lies in."""
    kind: Any = Scheme  # a form of typing, which attrs takes as well as a class
    made: type[Record] = make_class(
        scheme.title(),
        {"scheme": field(default=scheme, type=kind)},
        bases=(Record,),
        frozen=True,
        kw_only=True,
        slots=True,
    )
    return made


def number_of(text: str) -> str:
    """The number that a text is, in digits without separators; empty if it is anything else."""
    found = plain(text).removesuffix(".")
    if found in WORDS:
        return str(WORDS.index(found))
    return found.replace(",", "") if NUMBER.match(found) else ""


def plain(text: str) -> str:
    """Letters' case and spaces aside."""
    return " ".join(text.split()).casefold()


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.casefold()))


def _states(fact: Stated, answer: str) -> bool:
    """Whether a fact holds the answer's number, as the one fact of a sum or difference does."""
    number = number_of(answer)
    return bool(number) and any(number_of(triple.object) == number for _sentence, triple in fact.atoms())
