"""Questions that omit a part of their chain, and so ask for fewer hops than intended.

MQuAKE-Remastered found its 672 cases manually. This rule is our own; ``agreement`` measures it on the corrected file
if you have it. The rule learns from the dataset which words indicate which relation. A word occurs in a case's
questions because of one of the chain's relations or independently. Each cause c produces it with probability
theta(c, word), independently (a noisy-or), fitted by expectation maximization. The initial guess is that a relation's
own label indicates it, which decides where the cases cannot. For example, "director" is then known to indicate the
director, not the performer of the song that often comes before. A hop is missing if no wording of its case contains a
word that its relation explains better than everything else in that case. The start is missing if no wording contains
one of its names.
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
STEM = 4  # minimum letters of a stem
PLAIN = frozenset((
    "a", "an", "and", "are", "as", "at", "be", "been", "by", "can", "did", "do", "does", "for", "from", "had",
    "has", "have", "he", "her", "his", "how", "in", "is", "it", "its", "of", "on", "or", "s", "she", "that", "the",
    "their", "them", "they", "this", "to", "was", "were", "what", "when", "where", "which", "who", "whom", "whose",
    "will", "with",
))  # fmt: skip
"""English words that indicate no relation."""

ROUNDS, LEAST, SHARE = 30, 0.02, 0.5
LIKELY, UNLIKELY = 0.5, 0.05  # initial values of theta
ITSELF = ""  # the cause of a word that no relation of the chain produces

Theta = Mapping[str, Mapping[str, float]]
"""Word to cause (relation key, or ITSELF) to the probability that this cause produces the word in a case's questions.
"""


@frozen(kw_only=True)
class MissingPieces:
    """A case whose questions omit ``pieces``: labels of relations, or of the start."""

    case: str
    pieces: tuple[str, ...]
    texts: tuple[str, ...]


@frozen(kw_only=True)
class RuleAgreement:
    """Of ``compared`` cases: how many the rule ``flagged``, how many others have ``rewritten``, and ``both``."""

    compared: int
    both: int
    flagged: int
    rewritten: int


def texts_of(case: Case) -> tuple[str, ...]:
    """Return the wordings of the case's multi-hop questions."""
    queries = (query for probe in case.probes for query in probe.queries if query.hops)
    return tuple(dict.fromkeys(text for query in queries for text in query.texts))


def missing(cases: Iterable[Case]) -> tuple[tuple[MissingPieces, ...], int]:
    """Return the cases whose questions omit a part, and the number of cases with multi-hop questions."""
    asked = [(case, found) for case in cases if (found := texts_of(case)) and case.facts_after]
    theta = learn([(words(case, texts), _relations(case)) for case, texts in asked])
    flagged = []
    for case, texts in asked:
        pieces = _absent(case, texts, theta)
        if pieces:
            flagged.append(MissingPieces(case=case.id, pieces=pieces, texts=texts))
    return tuple(flagged), len(asked)


def agreement(cases: Iterable[Case], flagged: Iterable[MissingPieces], corrected: Iterable[Case]) -> RuleAgreement:
    """Compare the rule with manual corrections, on the cases that ``corrected`` contains too.

    Cases are matched by the labels of their chains, because a corrected file may have other ids. A case was rewritten
    if a wording differs. Raises BadData if no case matches.
    """
    theirs = {_labels(case): frozenset(texts_of(case)) for case in corrected}
    known = {case.id: theirs[_labels(case)] != set(texts_of(case)) for case in cases if _labels(case) in theirs}
    if not known:
        raise BadData("no case has its chain in the corrected dataset", hint="--corrected must contain the same cases")
    ours = {one.case for one in flagged} & known.keys()
    both = sum(known[case] for case in ours)
    return RuleAgreement(compared=len(known), both=both, flagged=len(ours), rewritten=sum(known.values()))


def words(case: Case, texts: Iterable[str]) -> frozenset[str]:
    """Return stems of the words in ``texts`` that may indicate a relation, without the start's name."""
    text = "\n".join(texts).casefold()
    for name in sorted(case.facts_after[0].subject.names, key=len, reverse=True):
        text = text.replace(name.casefold(), " ")
    return stems(text)


def stems(text: str) -> frozenset[str]:
    """Return stems of the words in ``text``, without function words."""
    return frozenset(stem(word) for word in WORD.findall(text.casefold()) if word not in PLAIN)


def stem(word: str) -> str:
    """Remove the first matching ending of a word if at least four letters remain."""
    return next(
        (word.removesuffix(end) for end in ENDINGS if word.endswith(end) and len(word) - len(end) >= STEM), word
    )


def learn(seen: Sequence[tuple[Collection[str], Mapping[str, str]]]) -> Theta:
    """Fit the noisy-or to (words, relations with labels) of many cases. Words of a single case are ignored.

    Expectation maximization: with P(word | chain) = 1 - prod(1 - theta(c)) over the chain's causes, the cause c was
    active with probability theta(c) / P if the word occurs, otherwise not; theta(c) becomes its mean.
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
    """Return key to label of the chain's relations. Two hops of one relation share their words."""
    return {fact.relation.key: fact.relation.label for fact in case.facts_after}


def _labels(case: Case) -> tuple[tuple[str, ...], ...]:
    """Return the labels of the entities of the old and of the new chain."""
    return tuple(
        tuple(label for fact in path for label in (fact.subject.label, *(entity.label for entity in fact.objects)))
        for path in (case.facts_before, case.facts_after)
    )
