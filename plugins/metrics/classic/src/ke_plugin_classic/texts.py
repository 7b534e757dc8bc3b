"""Similarity of generated texts about a subject and reference texts (Meng et al. 2022, ROME, section 3.3)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from attrs import field, frozen

from ke_core.plugin import BadConfig, read_json, words

HINT = (
    "expected JSON like attribute_snippets.json of ROME: "
    '[{"relation_id": "P103", "target_id": "Q150", "samples": [{"text": "..."}]}]'
)
Place = tuple[str, str]


@frozen(kw_only=True)
class ReferenceTexts:
    """Texts about entities that really have an object, by relation and object, with document frequencies of words."""

    texts: Mapping[Place, str] = field(factory=dict)
    spread: Mapping[str, int] = field(factory=dict)
    count: int = 0

    def similarity(self, text: str, place: Place) -> float | None:
        """Return the cosine similarity of the texts, each word weighted by count times log((1 + N) / (1 + df)) + 1.

        Words of no reference text do not count, as in ROME's code. None if there is no reference text.
        """
        if place not in self.texts:
            return None
        one, other = self._weighed(text), self._weighed(self.texts[place])
        both = math.fsum(weight * other.get(word, 0.0) for word, weight in one.items())
        length = math.sqrt(math.fsum(w * w for w in one.values()) * math.fsum(w * w for w in other.values()))
        return both / length if length else 0.0

    def _weighed(self, text: str) -> dict[str, float]:
        return {
            word: times * (math.log((1 + self.count) / (1 + self.spread[word])) + 1)
            for word, times in Counter(words(text)).items()
            if word in self.spread
        }


def _of_option(message: str, *, hint: str) -> BadConfig:
    return BadConfig(f"classic.references: {message}", hint=hint)


def read(source: str) -> ReferenceTexts:
    """Read a file of references. Raises BadConfig for another format."""
    raw = read_json(Path(source).expanduser(), error=_of_option, hint=HINT)
    found: dict[Place, list[str]] = {}
    try:
        for one in raw:
            texts = found.setdefault((one["relation_id"], one["target_id"]), [])
            texts += [str(sample["text"]) for sample in one["samples"]]
    except (KeyError, TypeError) as error:
        raise BadConfig(f"classic.references: {source} is not a file of references", hint=HINT) from error
    if not found:
        raise BadConfig(f"classic.references: {source} is empty", hint=HINT)
    every = [text for texts in found.values() for text in texts]
    spread = Counter(word for text in every for word in set(words(text)))
    return ReferenceTexts(
        texts={place: " ".join(texts) for place, texts in found.items() if texts}, spread=spread, count=len(every)
    )
