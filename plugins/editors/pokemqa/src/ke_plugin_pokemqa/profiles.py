"""Architecture and training of the detector: profiles ``paper`` and ``default``.

*Architecture.* The published detector fine-tunes two DistilBERTs, 130 million parameters, for up to 1,000 epochs. The
default one freezes the encoder, so every training text is embedded once, and trains on the embeddings:

- the pre-detector: an offset for statements (they name an object, questions do not) and a scale, which puts p = 1/2
  where in-scope pairs end. d + 1 parameters. A full or low-rank matrix instead fits the training subjects and reduces
  F1 on others (measured on MQuAKE-CF-3k: 0.96 before, 0.92 after 200 steps);
- the disambiguator: a two-layer classifier on products and differences of both vectors and on the words that the two
  sentences share. Sentence embeddings represent relations well and names badly ("Pius VI" is near "Pius III"). The
  published disambiguator reads the words; this one gets their overlap.

*Division of labor.* The published pre-detector is trained on random negatives and accepts near misses, and the
disambiguator only sees several candidates. The default one also checks a single candidate (``confirm``) and is trained
on negatives that the pre-detector finds near (``hard``).

*Selection of weights.* The published validation adds recall (the right edit above all others) and block rate (the best
other edit below 1/2). Neither requires the right edit to reach 1/2, so a detector that finds nothing validates best.
The default profile validates both networks by their losses (``select``).
"""

from __future__ import annotations

from typing import Literal

from attrs import evolve, frozen

from ke_plugin_pokemqa import PokemqaConfig


@frozen(kw_only=True)
class Schedule:
    """Training schedule of one network.

    ``batch``: pairs (pre-detector) or records (disambiguator) per step. ``validate``: epochs between validations.
    ``patience``: stop after this many validations without improvement. ``epochs``: maximum number of epochs.
    """

    batch: int
    lr: float
    epochs: int
    validate: int
    patience: int


@frozen(kw_only=True)
class Recipe:
    """Architecture and training of a detector.

    ``tune``: train a head on frozen embeddings, or everything. ``negatives``: per positive pair of the pre-detector.
    ``select``: criterion of the best weights: the validation loss, or (published) recall and block rate. ``hard``:
    sample the disambiguator's negative from this many nearest in the batch, and validate on as many; 0: any. ``loss``:
    two-class cross-entropy, or (published) two binary ones. ``confirm``: the disambiguator also checks a single
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


PROFILES = {
    "default": Recipe(
        encoder="minilm-l6",
        tune="head",
        pre=Schedule(batch=512, lr=1e-2, epochs=30, validate=1, patience=5),
        judge=Schedule(batch=128, lr=2e-3, epochs=60, validate=2, patience=5),
        select="loss",
        hard=10,
        loss="two-class",
        confirm=True,
    ),
    "paper": Recipe(
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


def recipe_of(config: PokemqaConfig) -> Recipe:
    """Return the profile's settings, with the encoder of the options if there is one."""
    recipe = PROFILES[config.profile]
    return evolve(recipe, encoder=config.encoder) if config.encoder else recipe


MINUTES = {"default": 3, "paper": 600}
"""Recommended training minutes; training usually stops earlier. ``paper`` is estimated, on a GPU."""
