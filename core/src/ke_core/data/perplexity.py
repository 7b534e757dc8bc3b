"""How probable are the sentences that held before an edit, and those that hold after it: probes of two aspects.

========================== ===== =============================================================================
aspect                     phase queries
========================== ===== =============================================================================
perplexity-facts           both  each atomic sentence of the facts: its first word is given, the rest is scored
perplexity-counterfactuals both  the same of the counterfactual facts
========================== ===== =============================================================================

The first word is given since a model without a start token gives it no probability. The metric ``fact-perplexity``
reads them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ke_core.data.queries import Gold, Probe, Query

FACTS_PERPLEXITY, COUNTERFACTUALS_PERPLEXITY = "perplexity-facts", "perplexity-counterfactuals"


def perplexity_probes(
    facts: Iterable[str], counterfactuals: Iterable[str], *, edits: tuple[str, ...] = ()
) -> tuple[Probe, ...]:
    """A probe for each side. Sentences of one word have nothing to score and are left out; so is a side without any.

    Each query's text is the sentence's first word, as a cloze, which is put as it stands.
    """
    sides = {FACTS_PERPLEXITY: facts, COUNTERFACTUALS_PERPLEXITY: counterfactuals}
    return tuple(
        Probe(id=aspect, aspect=aspect, queries=queries, require="all", phase="both", edits=edits)
        for aspect, sentences in sides.items()
        if (queries := tuple(_scored(aspect, sentences)))
    )


def _scored(aspect: str, sentences: Iterable[str]) -> Iterator[Query]:
    for number, sentence in enumerate(dict.fromkeys(" ".join(sentence.split()) for sentence in sentences), start=1):
        first, _space, rest = sentence.partition(" ")
        if rest:
            yield Query(id=f"{aspect}-{number}", texts=(first,), form="cloze", gold=Gold(), continuations=(f" {rest}",))
