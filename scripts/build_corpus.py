"""Build the default corpus for the key covariance: an excerpt of WordNet's glosses.

    apt-get download wordnet-base && dpkg-deb -x wordnet-base_*.deb wordnet
    python scripts/build_corpus.py wordnet/usr/share/wordnet toolkits/weights/src/ke_weights/wordnet.txt

The same WordNet 3.0 gives the same file. ``--words`` makes a larger one (docs/statistics.md). Distribute the file with
its license, ``wordnet.LICENSE``.
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path

FILES = ("data.noun", "data.verb", "data.adj", "data.adv")
WORDS = 75_000  # about 100,000 tokens of a byte-pair tokenizer
PARAGRAPH = 1_500  # characters: long enough that few tokens stand at the start of a text
SEED = 1
# A statistic needs no coarse language.
UNSUITABLE = (
    "slur",
    "obscen",
    "offensive",
    "vulgar",
    "disparag",
    "derogat",
    "sexual",
    "intercourse",
    "genital",
    "excre",
)


def glosses(path: Path) -> list[str]:
    """Return the glosses of one data file as sentences, in file order (license lines start with two spaces)."""
    lines = path.read_text(encoding="ascii").splitlines()
    found = (line.split("|", 1)[1].strip() for line in lines if not line.startswith("  "))
    return [gloss[:1].upper() + gloss[1:] + "." for gloss in found if not any(word in gloss for word in UNSUITABLE)]


def excerpt(all_glosses: list[str], words: int) -> list[str]:
    """Glosses drawn without replacement until they hold ``words`` words, back in their first order.

    Neighbors in WordNet are kin in meaning, so that a paragraph of the excerpt still has a subject.
    """
    order = list(range(len(all_glosses)))
    random.Random(SEED).shuffle(order)  # noqa: S311  a sample of text, not a secret
    drawn: list[int] = []
    held = 0
    for index in order:
        if held >= words:
            break
        drawn.append(index)
        held += len(all_glosses[index].split())
    return [all_glosses[index] for index in sorted(drawn)]


def paragraphs(sentences: list[str]) -> list[str]:
    """Join sentences until each paragraph has ``PARAGRAPH`` characters: one document per line."""
    found: list[str] = []
    current = ""
    for sentence in sentences:
        current = f"{current} {sentence}".strip()
        if len(current) >= PARAGRAPH:
            found.append(current)
            current = ""
    return [*found, current] if current else found


def main() -> None:
    """Read the four data files and write the corpus."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("wordnet", type=Path, help="the folder with data.noun and the other data files")
    parser.add_argument("to", type=Path, help="the text file to write")
    parser.add_argument("--words", type=int, default=WORDS, help="minimum number of words, if available (%(default)s)")
    given = parser.parse_args()
    every = [gloss for name in FILES for gloss in glosses(given.wordnet / name)]
    documents = paragraphs(excerpt(every, given.words))
    random.Random(SEED).shuffle(documents)  # noqa: S311  so that any beginning of the file mixes nouns, verbs, adjectives
    given.to.write_text("\n".join(documents) + "\n", encoding="utf-8")
    print(
        f"{len(documents)} documents, {sum(len(d.split()) for d in documents)} words, {given.to.stat().st_size} bytes"
    )


if __name__ == "__main__":
    main()
