"""From which score on a relation counts as found, or an entity.

The published 0.845 is a raw dot product of Contriever's unnormalized vectors; with another encoder it says nothing.
There a threshold is calibrated on wordings of everyday relations that belong to no benchmark: what a model might
write, the relation's name and its sentence. Each phrase is looked up twice: among all relations, where its own
should be found, and among all but its own, where nothing should be. Entities are, where they are found so, by other
ways to write the names of well-known ones. How well a threshold tells them apart is said of
relations that it was not made from: each is left out in turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from ke_core.plugin import BadConfig, Details, Encoder
from ke_plugin_gwalk import CALIBRATED, PUBLISHED, GwalkConfig
from ke_plugin_gwalk.graph import wordings

Scores = NDArray[np.float32]
CONTRIEVER, SCORE = "contriever-msmarco", 0.845
FEWEST = 8  # pairs: fewer tell nothing about the scale of an encoder's scores


@frozen(kw_only=True)
class Calibration:
    """The threshold, and the mean of the shares of phrases found rightly and refused rightly (leave-one-out)."""

    threshold: float
    accuracy: float
    pairs: int

    @property
    def details(self) -> Details:
        """For the record."""
        return {"pairs": self.pairs, "balanced_accuracy": round(self.accuracy, 4)}


def fixed(config: GwalkConfig) -> float | None:
    """The threshold that the options give; None where it is calibrated.

    Raises BadConfig for the published one with an encoder that it was not published for.
    """
    if config.threshold == CALIBRATED:
        return None
    value = SCORE if config.threshold == PUBLISHED else float(config.threshold)
    if value == SCORE and PurePath(config.encoder).name != CONTRIEVER:
        raise _foreign(config)
    return value


def refuse_unit(config: GwalkConfig, encoder: Encoder) -> None:
    """Raises BadConfig for the published threshold with vectors of unit length, whatever the encoder is called."""
    if fixed(config) == SCORE and np.allclose(np.linalg.norm(encoder.embed([CONTRIEVER]), axis=1), 1.0, atol=1e-3):
        raise _foreign(config)


def _foreign(config: GwalkConfig) -> BadConfig:
    return BadConfig(
        f"gwalk.threshold {SCORE} is published for {CONTRIEVER} and means nothing for {config.encoder}",
        hint="use -o gwalk.threshold=calibrated, or a number of your own for this encoder; "
        f"a folder with {CONTRIEVER} bears its name",
    )


def of_relations(encoder: Encoder, pairs: str, *, bare: bool) -> Calibration:
    """That of relations. Raises BadConfig. ``pairs``: a line a relation, ``phrase | name | sentence with {}``."""
    known = _read("pairs.txt", pairs, "phrase | name | sentence with {}")
    words = [(template,) if bare else wordings(name, template) for _phrase, name, template in known]
    return calibrate(encoder, [phrase for phrase, _name, _template in known], words)


def of_entities(encoder: Encoder, names: str) -> Calibration:
    """That of entities. Raises BadConfig. ``names``: a line an entity, ``another way to write it | name``."""
    known = _read("names.txt", names, "another way to write it | name")
    return calibrate(encoder, [other for other, _name in known], [(name,) for _other, name in known])


def calibrate(encoder: Encoder, phrases: Sequence[str], words: Sequence[Sequence[str]]) -> Calibration:
    """The threshold at which most ``phrases`` find their own ``words``, and are refused where those are absent.

    Between two scores the middle is taken; of equally good places the one with the widest gap.
    """
    owner = np.array([at for at, own in enumerate(words) for _word in own])
    rows = encoder.embed([word for own in words for word in own])
    scores = encoder.embed(phrases) @ rows.T
    own = owner[None, :] == np.arange(len(phrases))[:, None]
    right, wrong = _best(scores, own)
    without = [np.ix_(np.arange(len(phrases)) != at, owner != at) for at in range(len(phrases))]
    held_out = np.array([_between(*_best(scores[rest], own[rest])) for rest in without])
    return Calibration(
        threshold=round(_between(right, wrong), 4), accuracy=_balanced(right, wrong, held_out), pairs=len(phrases)
    )


def _best(scores: Scores, own: NDArray[np.bool_]) -> tuple[Scores, Scores]:
    """Each phrase's best score among its ``own`` rows, and among all others."""
    return np.where(own, scores, -np.inf).max(axis=1), np.where(own, -np.inf, scores).max(axis=1)


def _balanced(right: Scores, wrong: Scores, at: NDArray[np.float64] | float) -> float:
    """The mean of the shares of ``right`` scores at or above ``at``, and of ``wrong`` ones below."""
    return float(np.mean(right >= at) + np.mean(wrong < at)) / 2


def _between(right: Scores, wrong: Scores) -> float:
    """The place that best tells ``right`` scores, at or above it, from ``wrong`` ones, below it."""
    marks = np.unique(np.concatenate([right, wrong]).astype(float))
    low, high = marks[:-1], marks[1:]
    places = (low + high) / 2 if len(marks) > 1 else marks
    good = np.array([_balanced(right, wrong, at) for at in places])
    best = np.flatnonzero(np.isclose(good, good.max()))
    gaps = (high - low)[best] if len(marks) > 1 else np.zeros(1)
    return float(places[best[int(np.argmax(gaps))]])


def _read(file: str, text: str, form: str) -> list[list[str]]:
    """The lines, each in as many parts as ``form``; where that has a {}, the part at its place has one too."""
    wanted, found = form.split("|"), list[list[str]]()
    for number, line in enumerate(text.splitlines(), start=1):
        parts = [part.strip() for part in line.split("|")]
        fits = len(parts) == len(wanted) and all(parts)
        if not fits or any(part.count("{}") != like.count("{}") for part, like in zip(parts, wanted, strict=True)):
            raise BadConfig(f"{file}, line {number}: not of the form asked for", hint=f"write: {form}")
        found.append(parts)
    if len(found) < FEWEST:
        raise BadConfig(f"{file} has {len(found)} lines", hint=f"a calibration needs {FEWEST} or more")
    return found
