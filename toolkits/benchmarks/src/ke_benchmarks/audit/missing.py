"""Questions that leave out a piece of their chain, and so ask for fewer hops than they rest on.

MQuAKE-Remastered found its 672 by hand, so this is a rule of our own, and no ground truth tells how good it is where
the corrected file is not at hand (``agreement`` scores it where it is). The rule learns from the dataset itself which
words speak for which relation: a word stands in a case's questions because of one of the chain's relations or by
itself, and each cause c gives it with a probability theta(c, word), independently (a noisy-or), fitted by expectation
maximization from a guess: a relation's own label speaks for it, which decides where the cases cannot. So "director"
is known to speak for the director, not for the performer whose song so often comes before. A hop is missing if none
of its case's wordings holds a word that its relation explains better than all else in that case together. The start
is missing if no wording holds one of its names.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from attrs import frozen

from ke_core.plugin import BadData, Case

WORD = re.compile(r"[^\W\d_]+")
ENDINGS = (
    "ations",
    "ation",
    "ments",
    "ship",
    "ment",
    "ings",
    "ing",
    "ers",
    "ors",
    "ed",
    "er",
    "or",
    "es",
    "s",
    "e",
    "y",
)
STEM = 4  # letters that stay
PLAIN = frozenset((
    "a", "an", "and", "are", "as", "at", "be", "been", "by", "can", "did", "do", "does", "for", "from", "had",
    "has", "have", "he", "her", "his", "how", "in", "is", "it", "its", "of", "on", "or", "s", "she", "that", "the",
    "their", "them", "they", "this", "to", "was", "were", "what", "when", "where", "which", "who", "whom", "whose",
    "will", "with",
))  # fmt: skip
"""English words that speak for no relation."""

ROUNDS, LEAST, SHARE = 30, 0.02, 0.5
LIKELY, UNLIKELY = 0.5, 0.05  # first guesses of theta
ITSELF = ""  # the cause of a word that no relation of the chain gives

Theta = Mapping[str, Mapping[str, float]]
"""Word to cause (relation key, or ITSELF) to the probability that this cause puts the word into a case's questions."""


@frozen(kw_only=True)
class MissingPieces:
    """A case whose questions leave out ``pieces``: labels of relations, or the start's."""

    case: str
    pieces: tuple[str, ...]
    texts: tuple[str, ...]


@frozen(kw_only=True)
class RuleAgreement:
    """Of ``compared`` cases: how many are ``flagged`` by the rule, were ``rewritten`` by others, and ``both``."""

    compared: int
    both: int
    flagged: int
    rewritten: int


def texts_of(case: Case) -> tuple[str, ...]:
    """The wordings of the case's multi-hop questions."""
    queries = (query for probe in case.probes for query in probe.queries if query.hops)
    return tuple(dict.fromkeys(text for query in queries for text in query.texts))


def missing(cases: Iterable[Case]) -> tuple[tuple[MissingPieces, ...], int]:
    """The cases whose questions leave out a piece, and how many were looked at: those with multi-hop questions."""
    asked = [(case, found) for case in cases if (found := texts_of(case)) and case.facts_after]
    theta = learn([(words(case, texts), _relations(case)) for case, texts in asked])
    flagged = []
    for case, texts in asked:
        pieces = _absent(case, texts, theta)
        if pieces:
            flagged.append(MissingPieces(case=case.id, pieces=pieces, texts=texts))
    return tuple(flagged), len(asked)


def agreement(cases: Iterable[Case], flagged: Iterable[MissingPieces], corrected: Iterable[Case]) -> RuleAgreement:
    """How far the rule agrees with those who corrected the questions, on the cases that ``corrected`` has too.

    A case is found again by the labels along its chains, since a corrected file may give other ids; it was rewritten
    if a wording differs. Raises BadData where no case is found again.
    """
    theirs = {_labels(case): frozenset(texts_of(case)) for case in corrected}
    known = {case.id: theirs[_labels(case)] != set(texts_of(case)) for case in cases if _labels(case) in theirs}
    if not known:
        raise BadData("no case has its chain in the corrected dataset", hint="--corrected is of the same cases")
    ours = {one.case for one in flagged} & known.keys()
    both = sum(known[case] for case in ours)
    return RuleAgreement(compared=len(known), both=both, flagged=len(ours), rewritten=sum(known.values()))


def words(case: Case, texts: Iterable[str]) -> frozenset[str]:
    """Stems of the words of ``texts`` that may speak for a relation: without the start's name."""
    text = "\n".join(texts).casefold()
    for name in sorted(case.facts_after[0].subject.names, key=len, reverse=True):
        text = text.replace(name.casefold(), " ")
    return stems(text)


def stems(text: str) -> frozenset[str]:
    """Stems of the words of ``text`` but for the plain ones."""
    return frozenset(stem(word) for word in WORD.findall(text.casefold()) if word not in PLAIN)


def stem(word: str) -> str:
    """The word without its first fitting ending, if four letters stay."""
    return next(
        (word.removesuffix(end) for end in ENDINGS if word.endswith(end) and len(word) - len(end) >= STEM), word
    )


def learn(seen: Sequence[tuple[Collection[str], Mapping[str, str]]]) -> Theta:
    """Fit the noisy-or to (words, relations with labels) of many cases. A word of one case alone says nothing.

    Expectation maximization: with P(word | chain) = 1 - prod(1 - theta(c)) over the chain's causes, the cause c was
    at work with probability theta(c) / P where the word is there, and not where it is not; theta(c) becomes its mean.
    """
    cases = Counter({ITSELF: len(seen)})
    together: dict[str, Counter[frozenset[str]]] = {}
    named: dict[str, frozenset[str]] = {}
    for held, relations in seen:
        causes = frozenset((ITSELF, *relations))
        cases.update(relations.keys())
        for relation, label in relations.items():
            named.setdefault(relation, stems(label))
        for word in held:
            together.setdefault(word, Counter())[causes] += 1
    return {
        word: _fit(chains, cases, {relation for relation, label in named.items() if word in label})
        for word, chains in together.items()
        if chains.total() > 1
    }


def _fit(chains: Mapping[frozenset[str], int], cases: Mapping[str, int], guessed: Collection[str]) -> dict[str, float]:
    ordered = [(sorted(causes), n) for causes, n in chains.items()]
    theta = {cause: LIKELY if cause in guessed else UNLIKELY for causes, _n in ordered for cause in causes}
    for _round in range(ROUNDS):
        expected = dict.fromkeys(theta, 0.0)
        for causes, n in ordered:
            absent = 1.0
            for cause in causes:
                absent *= 1 - theta[cause]
            for cause in causes:
                expected[cause] += n * theta[cause] / (1 - absent)
        theta = {cause: min(expected[cause] / cases[cause], 1.0) for cause in theta}
    return theta


def _absent(case: Case, texts: Sequence[str], theta: Theta) -> tuple[str, ...]:
    start, relations = case.facts_after[0].subject, _relations(case)
    joined = "\n".join(texts).casefold()
    pieces = [] if any(name.casefold() in joined for name in start.names) else [start.label]
    spoken_for = {
        relation
        for word in words(case, texts)
        for relation in relations
        if _speaks(theta.get(word, {}), relation, relations)
    }
    return tuple(pieces + [label for relation, label in relations.items() if relation not in spoken_for])


def _speaks(theta: Mapping[str, float], relation: str, relations: Iterable[str]) -> bool:
    own = theta.get(relation, 0.0)
    return own >= LEAST and own >= SHARE * (theta.get(ITSELF, 0.0) + sum(theta.get(other, 0.0) for other in relations))


def _relations(case: Case) -> dict[str, str]:
    """Key to label of the chain's relations; two hops of one relation speak with the same words."""
    return {fact.relation.key: fact.relation.label for fact in case.facts_after}


def _labels(case: Case) -> tuple[tuple[str, ...], ...]:
    """The things along the old chain and along the new one."""
    return tuple(
        tuple(label for fact in path for label in (fact.subject.label, *(entity.label for entity in fact.objects)))
        for path in (case.facts_before, case.facts_after)
    )
