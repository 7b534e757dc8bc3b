"""From a checkpoint of ``ke train pokemqa`` to a detector that works."""

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
from ke_plugin_pokemqa.profiles import MINUTES, PROFILES
from ke_plugin_pokemqa.scope import Detector, Side, Vectors
from ke_plugin_pokemqa.words import WordCounts
from ke_weights import Checkpoint, read_checkpoint, trained_folder

NETWORKS = ("pre", "judge")
PAIRS = 256
"""Pairs judged at once."""


@frozen(kw_only=True, eq=False)
class TrainedDetector:
    """A detector, and what is on record of where it comes from: nothing of what only its training needs."""

    detector: Detector
    record: Details


def trained(session: Session[Any], config: PokemqaConfig) -> TrainedDetector:
    """The detector named in the options, else the one in the cache. Raises BadConfig where none fits."""
    made = PROFILES[config.profile]
    name = config.encoder or made.encoder
    encoder = session.encoder(name)
    place = _place(encoder, config)
    given, folder = config.checkpoint, folder_of(session, config)
    how = how_to_train(config)
    found = read_checkpoint(folder)
    if found is None:
        where = f"in {folder}" if given else f"for the encoder {name}, profile {config.profile}"
        raise BadConfig(
            f"pokemqa needs a trained scope detector, and there is none {where}",
            hint=f"train one: {how}; or use -o pokemqa.detector=nearest",
        )
    if found.about.get("editor") != "pokemqa":
        raise BadConfig(f"{folder} was trained for {found.about.get('editor')}, not for pokemqa", hint=how)
    if dict(found.about["place"]) != place:
        was = found.about["place"]
        raise BadConfig(
            f"the detector in {folder} was trained with profile {was['profile']} on the encoder {was['encoder']}, not "
            f"with {config.profile} on {name} ({encoder.id})",
            hint=f"name that profile and encoder, or train another: {how} --out FOLDER",
        )
    _refuse_untrained(found, folder, config)
    built = _head(encoder, found.tensors) if made.tune == "head" else _whole(encoder, found.tensors)
    record = {"step": found.step, "minutes": found.seconds / 60, **found.about}
    return TrainedDetector(detector=Detector(confirm=made.confirm, **built), record=record)


def _refuse_untrained(found: Checkpoint, folder: Path, config: PokemqaConfig) -> None:
    """Of both networks the weights that are kept must have been learned."""
    untrained = [one for one in (kept(found.tensors, name) for name in NETWORKS) if not one.step]
    if not untrained:
        return
    had = found.seconds / 60
    out = f" --out {folder}" if config.checkpoint else ""
    longer = f"train it longer: {how_to_train(config, had)}{out}"
    other = f"it has stopped by itself: train another, on more edits: {how_to_train(config)} --out FOLDER"
    raise BadConfig(
        f"the detector in {folder} is as good as untrained: after {found.step} steps in {had:.1f} minutes it validates "
        "no better than at its start",
        hint=other if all(one.stopped for one in untrained) else longer,
    )


def folder_of(session: Session[Any], config: PokemqaConfig) -> Path:
    """Where the detector lies, if there is one."""
    if config.checkpoint:
        return Path(config.checkpoint).expanduser()
    encoder = session.encoder(config.encoder or PROFILES[config.profile].encoder)
    return trained_folder(session.artifacts, "pokemqa", _place(encoder, config))


def _place(encoder: Encoder, config: PokemqaConfig) -> dict[str, str]:
    """Whom a detector fits."""
    return {"encoder": encoder.id, "profile": config.profile}


def stamp_of(session: Session[Any], config: PokemqaConfig) -> tuple[object, ...]:
    """Differs where ``trained`` would: the encoder, and the file, which a training replaces.

    Not its digest: with each group of edits the gigabytes of ``published`` would be read anew.
    """
    found = [(file, file.stat()) for file in sorted(folder_of(session, config).glob("*.safetensors"))]
    files = [(str(file), about.st_ino, about.st_mtime_ns, about.st_size) for file, about in found]
    return (session.encoder(config.encoder or PROFILES[config.profile].encoder).id, *files)


def how_to_train(config: PokemqaConfig, had: float = 0.0) -> str:
    """The command, with the options that it takes to get a detector for ``config``; ``had``: minutes behind it."""
    options = [f" -o pokemqa.profile={config.profile}"] if config.profile != "small" else []
    options += [f" -o pokemqa.encoder={config.encoder}"] if config.encoder else []
    minutes = max(MINUTES[config.profile], math.ceil(2 * had))
    return f"ke train pokemqa --data FILE --minutes {minutes}{''.join(options)}"


def _head(encoder: Encoder, tensors: Mapping[str, Any]) -> dict[str, Any]:
    """Small networks on the vectors that the encoder gives."""
    pre, pairs = (kept(tensors, name).prefix for name in NETWORKS)
    offset = np.asarray(tensors[f"{pre}offset"], dtype=np.float32)
    with torch.random.fork_rng(devices=()):  # the weights that a new network draws are overwritten
        network = PairJudge(len(offset))
    load_weights(network.eval().requires_grad_(requires_grad=False), tensors, pairs)
    words = WordCounts(counts=tensors["words.counts"], texts=int(tensors["words.texts"]))

    def judge(edits: Side, questions: Side) -> Vectors:
        overlap = torch.from_numpy(words.overlap(edits.texts, questions.texts))
        logits = network(torch.from_numpy(edits.vectors), torch.from_numpy(questions.vectors), overlap)
        return _first_class(logits)

    return {"encoder": encoder, "scale": float(np.exp(tensors[f"{pre}log_scale"])), "offset": offset, "judge": judge}


def _whole(encoder: Encoder, tensors: Mapping[str, Any]) -> dict[str, Any]:
    """Two fine-tuned encoders; the first reads what is put into the memory."""
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
    """Probability of class 0, in scope."""
    found: Vectors = logits.softmax(dim=1)[:, 0].cpu().numpy()
    return found
