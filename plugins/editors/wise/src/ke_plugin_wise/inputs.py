"""The texts of an edit: its request after sampled left contexts, and an unrelated text."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

from attrs import field, frozen

from ke_core.plugin import SLOT, Session
from ke_weights.plugin import OpenModel, Rewrite, answer_ids, context_templates, derived_seed, edit_room, read_corpus

LENGTHS = (6, 11)
"""Tokens of the left contexts: a word, and 5 or 10 after it."""
MARGIN = 2
"""Tokens that a period and a merge may add to a left context."""
WORDS = range(5, 31)
"""Words of an unrelated text: a sentence with fewer is not used, and a longer one is cut."""
SENTENCE = re.compile(r"(?<=[.;?!]) ")


@frozen(kw_only=True)
class TrainingInputs:
    """Token ids of an edit's prompts, of its target, and of an unrelated text."""

    prompts: tuple[tuple[int, ...], ...] = field(repr=False)
    target: tuple[int, ...]
    unrelated: tuple[int, ...]


@frozen(kw_only=True)
class TrainingTexts:
    """Left contexts, the bare one first, and documents for unrelated texts."""

    templates: tuple[str, ...]
    documents: tuple[str, ...] = field(repr=False)

    def of(self, model: OpenModel, edit: Rewrite, seed: int, number: int) -> TrainingInputs:
        """Return the inputs of ``edit``, the edit with that ``number`` in a sequence."""
        prompts = [template.removesuffix(SLOT) + edit.prompt for template in self.templates]
        return TrainingInputs(
            prompts=tuple(tuple(model.encode(prompt)) for prompt in prompts),
            target=answer_ids(model, edit.prompt, edit.target),
            unrelated=tuple(model.encode(unrelated(self.documents, seed_of(seed, "unrelated", number)))),
        )


def training_texts(session: Session[OpenModel], contexts: int, corpus: str) -> TrainingTexts:
    """Return the texts. The unedited model samples ``contexts`` left contexts, of 5 and of 10 tokens after a word."""
    with session.model.unedited():
        templates = context_templates(session, lengths=[(length, contexts // 2) for length in LENGTHS])
    return TrainingTexts(templates=templates, documents=read_corpus(corpus).documents)


def room(model: OpenModel, contexts: int) -> int:
    """Return the maximum number of tokens of a request, which must also fit after its left contexts."""
    return edit_room(model) - (max(LENGTHS) + MARGIN if contexts else 0)


def unrelated(documents: Sequence[str], seed: int) -> str:
    """Return a sampled sentence of ``documents``."""
    rng = random.Random(seed)  # noqa: S311  no cryptography
    document = documents[rng.randrange(len(documents))]
    sentences = [words for words in map(str.split, SENTENCE.split(document)) if len(words) >= WORDS.start]
    return " ".join(rng.choice(sentences or [document.split()])[: WORDS.stop - 1])


def seed_of(seed: int, what: str, number: int) -> int:
    """Return a seed for the N-th choice of a kind in a run with this seed."""
    return derived_seed(seed=seed, what=what, number=number)
