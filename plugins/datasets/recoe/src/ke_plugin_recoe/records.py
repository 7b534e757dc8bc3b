"""The records of ReCoE. ``ke_plugin_recoe.layouts`` reads them from the published files and from your own."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import repeat
from typing import Any, Literal

from attrs import asdict, field, frozen, validators

from ke_benchmarks import has_label, not_blank
from ke_core.plugin import one_slot

Scheme = Literal["superlative", "comparative", "counting", "sorting", "aggregation", "subtraction"]
UNCHANGED = "unchanged_facts"
DIRECT = ("direct_facts", "direct_counterfactuals")
"""Groups of facts that state the answer itself. They are never edited."""
BRACKET = "closing bracket of a triple added"
JOINED = "triple with more than three parts: the last ones joined, not edited"
NUMBER = re.compile(r"[+-]?(\d+|\d{1,3}(,\d{3})+)(\.\d+)?\Z")
WORDS = "zero one two three four five six seven eight nine ten eleven twelve".split()  # noqa: SIM905  shorter


@frozen(kw_only=True)
class OpenIETriple:
    """(subject; relation; object), as in OpenIE: a subject may be a clause, and objects are often not unique.

    ``note``: how its text was repaired; empty if it needed no repair.
    """

    subject: str
    relation: str
    object: str
    note: str = field(default="", eq=False)

    @property
    def place(self) -> tuple[str, str]:
        """Subject and relation, ignoring case and spaces."""
        return plain(self.subject), plain(self.relation)

    def __str__(self) -> str:
        """Return the triple as in the files."""
        return f"({self.subject}; {self.relation}; {self.object})"


def parse_triple(text: str) -> OpenIETriple:
    """Parse a triple. Semicolons inside parentheses are not separators; parts after the third belong to the object.

    Several spaces become one, because the parts become prompts. Raises ValueError if subject, relation or object is
    missing.
    """
    inside, note = _unwrapped(" ".join(text.split()))
    depth, parts = 0, [""]
    for letter in inside:
        depth += (letter == "(") - (letter == ")")
        if letter == ";" and depth <= 0:
            parts.append("")
        else:
            parts[-1] += letter
    subject, relation, *objects = map(str.strip, (*parts, "", ""))
    objects = [part for part in objects if part]
    if not (subject and relation and objects):
        raise ValueError(f"{text!r} is not a (subject; relation; object)")
    return OpenIETriple(
        subject=subject, relation=relation, object="; ".join(objects), note=JOINED if len(objects) > 1 else note
    )


def _unwrapped(text: str) -> tuple[str, str]:
    """Return the text without its outer parentheses, and a note if the closing one is missing."""
    depth = 0
    for at, letter in enumerate(text if text.startswith("(") else ""):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return (text[1:at] if text[at + 1 :] in ("", ".") else text), ""
    return (text[1:], BRACKET) if depth else (text, "")


@frozen(kw_only=True)
class Atom:
    """An atomic fact. ``cloze``: its sentence up to the object, with ``{}`` for the subject; empty if unknown."""

    sentence: str
    triple: OpenIETriple
    cloze: str = ""


@frozen(kw_only=True)
class StatedFact:
    """One fact: a sentence, and its atomic facts, each as a sentence and as a triple.

    ``atomic_clozes``: the cloze of each atomic fact. The published files have none.
    """

    fact: str = field(validator=not_blank)
    links: tuple[str, ...] = ()
    atomic_facts: tuple[str, ...]
    atomic_triples: tuple[str, ...]
    atomic_clozes: tuple[str, ...] = field(default=(), validator=validators.deep_iterable(one_slot))

    def __attrs_post_init__(self) -> None:
        """Check that there is a cloze for each sentence, or none."""
        if self.atomic_clozes and len(self.atomic_clozes) != len(self.atomic_facts):
            raise ValueError(f"{len(self.atomic_facts)} atomic_facts have {len(self.atomic_clozes)} atomic_clozes")

    @property
    def sentences(self) -> tuple[str, ...]:
        """Return the atomic sentences that are not blank."""
        return tuple(text for text in self.atomic_facts if text.strip())

    def atoms(self) -> Iterator[Atom]:
        """Yield the atomic facts with a readable triple: none if the numbers of sentences and triples differ."""
        if len(self.atomic_facts) != len(self.atomic_triples):
            return
        clozes = self.atomic_clozes or repeat("")
        for sentence, text, cloze in zip(self.atomic_facts, self.atomic_triples, clozes, strict=False):
            try:
                triple = parse_triple(text)
            except ValueError:
                continue
            if sentence.strip():
                yield Atom(sentence=sentence, triple=triple, cloze=cloze)


Group = tuple[StatedFact, ...]


@frozen(kw_only=True)
class RecoeRecord:
    """One record. ``notes``: repairs made by the loader."""

    question: str = field(validator=has_label)
    answer: str = field(validator=has_label)
    counterfactual_answer: str = field(validator=has_label)
    answer_alias: tuple[str, ...]
    counterfactual_answer_alias: tuple[str, ...]
    facts_per_choice: Mapping[str, Group]
    counterfactuals_per_choice: Mapping[str, Group]
    scheme: Scheme
    notes: tuple[str, ...] = ()

    @property
    def answers_equal(self) -> bool:
        """Return whether both answers are equal."""
        return folded(self.answer) == folded(self.counterfactual_answer)

    def facts(self) -> Iterator[StatedFact]:
        """Yield the facts that support the answer, without direct facts, which state it."""
        return _indirect(self.facts_per_choice)

    def counterfactuals(self) -> Iterator[StatedFact]:
        """Yield the facts that support the counterfactual answer. Only these are edited (section 4.1 of the paper)."""
        return _indirect(self.counterfactuals_per_choice)

    def unchanged(self) -> Group:
        """Return the unchanged facts: context, not edits."""
        return self.counterfactuals_per_choice.get(UNCHANGED, ())

    def json(self) -> dict[str, Any]:
        """Return JSON values in the format of the README, without fields that are always empty there."""
        made = asdict(self)
        del made["notes"]
        for side in ("facts_per_choice", "counterfactuals_per_choice"):
            for fact in (fact for group in made[side].values() for fact in group):
                if not fact["atomic_clozes"]:
                    del fact["atomic_clozes"]
                if side == "counterfactuals_per_choice":
                    del fact["links"]
        return made


def number_of(text: str) -> str:
    """Return the number that a text is, in digits without separators, or an empty text."""
    found = plain(text).removesuffix(".")
    if found in WORDS:
        return str(WORDS.index(found))
    return found.replace(",", "") if NUMBER.match(found) else ""


def plain(text: str) -> str:
    """Normalize case and spaces."""
    return " ".join(text.split()).casefold()


def folded(name: str) -> str:
    """Return a normal form shared by the spellings of a name or a number."""
    number = number_of(name)
    return str(float(number)) if number else plain(name)


def _indirect(groups: Mapping[str, Group]) -> Iterator[StatedFact]:
    return (fact for name, group in groups.items() if name not in (UNCHANGED, *DIRECT) for fact in group)
