"""Load a detector from a checkpoint of ``ke train pokemqa``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from attrs import frozen

from ke_core.plugin import BadConfig, Details, Encoder, Session
from ke_memory.plugin import SentenceEncoder
from ke_plugin_pokemqa import PokemqaConfig
from ke_plugin_pokemqa.learner import kept, load_weights
from ke_plugin_pokemqa.networks import CrossJudge, FirstToken, PairJudge, fine_tunable
from ke_plugin_pokemqa.profiles import MINUTES, recipe_of
from ke_plugin_pokemqa.scope import Detector, Side, Vectors
from ke_plugin_pokemqa.words import WordCounts
from ke_weights import Checkpoint, read_checkpoint, trained_folder

NETWORKS = ("pre", "judge")
PAIRS = 256
"""Pairs scored at once."""


@frozen(kw_only=True, eq=False)
class TrainedDetector:
    """A detector, and the record of its origin, without what only the training needs."""

    detector: Detector
    record: Details


def trained(session: Session[Any], config: PokemqaConfig) -> TrainedDetector:
    """Load the detector of the options, else the one in the cache. Raises BadConfig if none fits."""
    made = recipe_of(config)
    encoder = session.encoder(made.encoder)
    place = _place(encoder, config)
    given, folder = config.checkpoint, folder_of(session, config)
    how = how_to_train(config)
    found = read_checkpoint(folder)
    if found is None:
        where = f"in {folder}" if given else f"for the encoder {made.encoder}, profile {config.profile}"
        raise BadConfig(
            f"pokemqa needs a trained scope detector: none found {where}",
            hint=f"train one with {how}, or use -o pokemqa.detector=nearest",
        )
    if found.about.get("editor") != "pokemqa":
        raise BadConfig(
            f"{folder} was trained for {found.about.get('editor')}, not for pokemqa", hint=f"train one with {how}"
        )
    if dict(found.about["place"]) != place:
        was = found.about["place"]
        raise BadConfig(
            f"the detector in {folder} was trained with profile {was['profile']} and encoder {was['encoder']}, not "
            f"{config.profile} and {made.encoder} ({encoder.id})",
            hint=f"set that profile and encoder, or train another with {how} --out FOLDER",
        )
    _refuse_untrained(found, folder, config)
    built = _head(encoder, found.tensors) if made.tune == "head" else _whole(encoder, found.tensors)
    record = {"step": found.step, "minutes": found.seconds / 60, **found.about}
    return TrainedDetector(detector=Detector(confirm=made.confirm, **built), record=record)


def _refuse_untrained(found: Checkpoint, folder: Path, config: PokemqaConfig) -> None:
    """Raise BadConfig if the selected weights of a network are those before training."""
    untrained = [one for one in (kept(found.tensors, name) for name in NETWORKS) if not one.step]
    if not untrained:
        return
    had = found.seconds / 60
    out = f" --out {folder}" if config.checkpoint else ""
    longer = f"train it longer with {how_to_train(config, had)}{out}"
    other = f"the training has finished; train another on more edits with {how_to_train(config)} --out FOLDER"
    raise BadConfig(
        f"the detector in {folder} is not better than before its training ({found.step} steps in {had:.1f} minutes)",
        hint=other if all(one.stopped for one in untrained) else longer,
    )


def folder_of(session: Session[Any], config: PokemqaConfig) -> Path:
    """Return the folder of the detector, which may not exist."""
    if config.checkpoint:
        return Path(config.checkpoint).expanduser()
    return trained_folder(session.artifacts, "pokemqa", _place(session.encoder(recipe_of(config).encoder), config))


def _place(encoder: Encoder, config: PokemqaConfig) -> dict[str, str]:
    """Return what a detector belongs to."""
    return {"encoder": encoder.id, "profile": config.profile}


def stamp_of(session: Session[Any], config: PokemqaConfig) -> tuple[object, ...]:
    """Return a value that changes whenever ``trained`` would return another detector: encoder and file metadata.

    A digest would have to read the gigabytes of ``paper`` for each group of edits.
    """
    found = [(file, file.stat()) for file in sorted(folder_of(session, config).glob("*.safetensors"))]
    files = [(str(file), about.st_ino, about.st_mtime_ns, about.st_size) for file, about in found]
    return (session.encoder(recipe_of(config).encoder).id, *files)


def how_to_train(config: PokemqaConfig, had: float = 0.0) -> str:
    """Return the training command for ``config``; ``had``: minutes trained so far."""
    options = [f" -o pokemqa.profile={config.profile}"] if config.profile != "default" else []
    options += [f" -o pokemqa.encoder={config.encoder}"] if config.encoder else []
    minutes = max(MINUTES[config.profile], math.ceil(2 * had))
    return f"ke train pokemqa --data FILE --minutes {minutes}{''.join(options)}"


def _head(encoder: Encoder, tensors: Mapping[str, Any]) -> dict[str, Any]:
    """Return the networks on the encoder's vectors."""
    pre, pairs = (kept(tensors, name).prefix for name in NETWORKS)
    offset = np.asarray(tensors[f"{pre}offset"], dtype=np.float32)
    with torch.random.fork_rng(devices=()):  # the initial weights are overwritten
        network = PairJudge(len(offset))
    load_weights(network.eval().requires_grad_(requires_grad=False), tensors, pairs)
    words = WordCounts(counts=tensors["words.counts"], texts=int(tensors["words.texts"]))

    def judge(edits: Side, questions: Side) -> Vectors:
        overlap = torch.from_numpy(words.overlap(edits.texts, questions.texts))
        logits = network(torch.from_numpy(edits.vectors), torch.from_numpy(questions.vectors), overlap)
        return _first_class(logits)

    return {"encoder": encoder, "scale": float(np.exp(tensors[f"{pre}log_scale"])), "offset": offset, "judge": judge}


def _whole(encoder: Encoder, tensors: Mapping[str, Any]) -> dict[str, Any]:
    """Return the two fine-tuned encoders; the first embeds the statements of the memory."""
    real = fine_tunable(encoder)
    with torch.random.fork_rng(devices=()):  # as above
        points, pairs = FirstToken(real), CrossJudge(real)
    for name, network in zip(NETWORKS, (points, pairs.eval()), strict=True):
        load_weights(network.requires_grad_(requires_grad=False), tensors, kept(tensors, name).prefix)
    tuned = SentenceEncoder(
        model=points.model, tokenizer=real.tokenizer, pooling="cls", normalized=False, longest=points.longest
    )

    def judge(edits: Side, questions: Side) -> Vectors:
        parts = [slice(start, start + PAIRS) for start in range(0, len(edits.texts), PAIRS)]
        logits = [pairs(list(edits.texts[part]), list(questions.texts[part])) for part in parts]
        return _first_class(torch.cat(logits))

    size = real.model.config.hidden_size
    return {"encoder": tuned, "scale": 1.0, "offset": np.zeros(size, dtype=np.float32), "judge": judge}


def _first_class(logits: torch.Tensor) -> Vectors:
    """Return the probability of class 0, in scope."""
    found: Vectors = logits.softmax(dim=1)[:, 0].cpu().numpy()
    return found
