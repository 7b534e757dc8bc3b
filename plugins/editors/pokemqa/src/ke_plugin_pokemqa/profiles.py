"""How the detector is built and trained: as published, and small.

*What is trained.* The published detector fine-tunes two DistilBERTs, 130 million parameters, for up to 1,000 epochs.
The small one leaves the encoder frozen, so that every training text is read once, and trains on its vectors:

- the pre-detector: an offset for statements (they name an object, questions do not) and a scale, so that p = 1/2 lies
  where in-scope pairs end. d + 1 numbers. A full or low-rank matrix in their place fits the training subjects and takes
  F1 on others down (measured on MQuAKE-CF-3k: 0.96 before, 0.92 after 200 steps);
- the disambiguator: a classifier of two layers on what the two vectors have in common, and on which words the two
  sentences share. A sentence vector keeps the relation well and names badly ("Pius VI" is near "Pius III"); the
  published one reads the words, so this one gets their overlap.

*Who decides.* As published, the pre-detector is trained on random negatives and lets neighbors through; the
disambiguator sees only several candidates. Here it also judges a sole candidate (``confirm``), and learns from
negatives that the pre-detector finds near (``hard``).

*Which weights are kept.* The published validation adds recall (the own edit above all others) and block rate (the best
other below 1/2). Neither asks that the own edit reaches 1/2, so that a detector that finds nothing validates best.
Here both are validated by their losses (``select``).
"""

from __future__ import annotations

from typing import Any, Literal

from attrs import asdict, frozen


@frozen(kw_only=True)
class Schedule:
    """``batch``: pairs (pre-detector) or records (disambiguator) a step. ``validate``: epochs between validations.

    ``patience``: validations without a better one after which it stops; ``epochs``: it stops at the latest then.
    """

    batch: int
    lr: float
    epochs: int
    validate: int
    patience: int


@frozen(kw_only=True)
class Recipe:
    """``tune``: train a head on frozen vectors, or everything. ``negatives``: a positive pair of the pre-detector.

    ``select``: what its best weights are told by: the validation loss, or (published) recall and block rate.
    ``hard``: the disambiguator's negative is one of that many nearest in the batch, and so many nearest validate it;
    0: any. ``loss``: two-class cross-entropy, or (published) two binary ones. ``confirm``: it also judges a sole
    candidate.
    """

    encoder: str
    tune: Literal["head", "all"]
    pre: Schedule
    judge: Schedule
    negatives: int = 20
    select: Literal["loss", "rates"]
    hard: int
    loss: Literal["two-class", "binary"]
    confirm: bool

    def as_json(self) -> dict[str, Any]:
        """Every setting."""
        return asdict(self)


PROFILES = {
    "small": Recipe(
        encoder="minilm-l6",
        tune="head",
        pre=Schedule(batch=512, lr=1e-2, epochs=30, validate=1, patience=5),
        judge=Schedule(batch=128, lr=2e-3, epochs=60, validate=2, patience=5),
        select="loss",
        hard=10,
        loss="two-class",
        confirm=True,
    ),
    "published": Recipe(
        encoder="distilbert-base-cased",
        tune="all",
        pre=Schedule(batch=1024, lr=1e-5, epochs=1000, validate=20, patience=5),
        judge=Schedule(batch=256, lr=1e-5, epochs=500, validate=10, patience=10),
        select="rates",
        hard=0,
        loss="binary",
        confirm=False,
    ),
}

MINUTES = {"small": 3, "published": 600}
"""What a training is advised to have; it stops by itself before. ``published`` is reckoned, on a GPU."""
