"""The minimum score of a relation or an entity.

The published 0.845 is a dot product of Contriever's unnormalized vectors and has no meaning for other encoders. For
them, the threshold is calibrated on everyday relations that belong to no benchmark: a phrase that a model might write,
the relation's name and its sentence. Each phrase is looked up among all relations, where its own should be found, and
among all except its own, where none should be found. Entities are calibrated on other names of well-known ones. The
accuracy of a threshold is leave-one-out.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from ke_core.plugin import BadConfig, Details, Encoder
from ke_plugin_gwalk import CALIBRATED, PAPER, GwalkConfig
from ke_plugin_gwalk.graph import wordings

Scores = NDArray[np.float32]
CONTRIEVER, SCORE = "contriever-msmarco", 0.845
FEWEST = 8  # minimum number of pairs for a calibration


@frozen(kw_only=True)
class MeasuredThreshold:
    """The threshold, and the mean of the fractions of phrases found and refused correctly (leave-one-out)."""

    threshold: float
    accuracy: float
    pairs: int

    @property
    def details(self) -> Details:
        """JSON values for the record."""
        return {"pairs": self.pairs, "balanced_accuracy": round(self.accuracy, 4)}


def fixed(config: GwalkConfig) -> float | None:
    """Return the threshold that the options set; None if it is calibrated.

    Raises BadConfig for the published threshold with another encoder than the published one.
    """
    if config.threshold == CALIBRATED:
        return None
    value = SCORE if config.threshold == PAPER else float(config.threshold)
    if value == SCORE and PurePath(config.encoder).name != CONTRIEVER:
        raise _wrong_encoder(config)
    return value


def refuse_unit(config: GwalkConfig, encoder: Encoder) -> None:
    """Raise BadConfig for the published threshold with vectors of unit length, whatever the encoder's name."""
    if fixed(config) == SCORE and np.allclose(np.linalg.norm(encoder.embed([CONTRIEVER]), axis=1), 1.0, atol=1e-3):
        raise _wrong_encoder(config)


def _wrong_encoder(config: GwalkConfig) -> BadConfig:
    return BadConfig(
        f"gwalk.threshold={SCORE} is for the encoder {CONTRIEVER}, not {config.encoder}",
        hint="use -o gwalk.threshold=calibrated, or a number for this encoder; "
        f"if it is {CONTRIEVER}, rename its folder to {CONTRIEVER}",
    )


def of_relations(encoder: Encoder, pairs: str, *, released: bool) -> MeasuredThreshold:
    """Calibrate relations. ``pairs``: one per line, ``phrase | name | sentence with {}``. Raises BadConfig."""
    known = _read("pairs.txt", pairs, "phrase | name | sentence with {}")
    words = [(template,) if released else wordings(name, template) for _phrase, name, template in known]
    return calibrate(encoder, [phrase for phrase, _name, _template in known], words)


def of_entities(encoder: Encoder, names: str) -> MeasuredThreshold:
    """Calibrate entities. ``names``: one per line, ``another way to write it | name``. Raises BadConfig."""
    known = _read("names.txt", names, "another way to write it | name")
    return calibrate(encoder, [other for other, _name in known], [(name,) for _other, name in known])


def calibrate(encoder: Encoder, phrases: Sequence[str], words: Sequence[Sequence[str]]) -> MeasuredThreshold:
    """Return the threshold at which most ``phrases`` find their own ``words``, and are refused without them.

    The threshold is the middle between two scores; among equally good places, the one with the widest gap.
    """
    owner = np.array([at for at, own in enumerate(words) for _word in own])
    rows = encoder.embed([word for own in words for word in own])
    scores = encoder.embed(phrases) @ rows.T
    own = owner[None, :] == np.arange(len(phrases))[:, None]
    right, wrong = _best(scores, own)
    without = [np.ix_(np.arange(len(phrases)) != at, owner != at) for at in range(len(phrases))]
    held_out = np.array([_between(*_best(scores[rest], own[rest])) for rest in without])
    return MeasuredThreshold(
        threshold=round(_between(right, wrong), 4), accuracy=_balanced(right, wrong, held_out), pairs=len(phrases)
    )


def _best(scores: Scores, own: NDArray[np.bool_]) -> tuple[Scores, Scores]:
    """Return each phrase's best score among its ``own`` rows, and among all others."""
    return np.where(own, scores, -np.inf).max(axis=1), np.where(own, -np.inf, scores).max(axis=1)


def _balanced(right: Scores, wrong: Scores, at: NDArray[np.float64] | float) -> float:
    """Return the mean of the fractions of ``right`` scores at or above ``at``, and of ``wrong`` ones below."""
    return float(np.mean(right >= at) + np.mean(wrong < at)) / 2


def _between(right: Scores, wrong: Scores) -> float:
    """Return the place that best separates ``right`` scores (at or above it) from ``wrong`` ones (below it)."""
    marks = np.unique(np.concatenate([right, wrong]).astype(float))
    low, high = marks[:-1], marks[1:]
    places = (low + high) / 2 if len(marks) > 1 else marks
    good = np.array([_balanced(right, wrong, at) for at in places])
    best = np.flatnonzero(np.isclose(good, good.max()))
    gaps = (high - low)[best] if len(marks) > 1 else np.zeros(1)
    return float(places[best[int(np.argmax(gaps))]])


def _read(file: str, text: str, form: str) -> list[list[str]]:
    """Return the lines, each split into as many parts as ``form``, with a {} wherever it has one."""
    wanted, found = form.split("|"), list[list[str]]()
    for number, line in enumerate(text.splitlines(), start=1):
        parts = [part.strip() for part in line.split("|")]
        fits = len(parts) == len(wanted) and all(parts)
        if not fits or any(part.count("{}") != like.count("{}") for part, like in zip(parts, wanted, strict=True)):
            raise BadConfig(f"{file}, line {number}: wrong format: {line!r}", hint=f"write {form}")
        found.append(parts)
    if len(found) < FEWEST:
        raise BadConfig(f"{file} has only {len(found)} lines", hint=f"a calibration needs at least {FEWEST}")
    return found
