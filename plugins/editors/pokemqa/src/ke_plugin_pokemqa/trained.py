"""From a checkpoint of ``ke train pokemqa`` to a detector that works."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from attrs import frozen

from ke_core.plugin import BadConfig, Checkpoint, Encoder, Session, read_checkpoint, trained_folder
from ke_core.retrieval import SentenceEncoder
from ke_plugin_pokemqa import PokemqaConfig
from ke_plugin_pokemqa.learner import load_weights
from ke_plugin_pokemqa.networks import CrossJudge, FirstToken, PairJudge, fine_tunable
from ke_plugin_pokemqa.profiles import PROFILES
from ke_plugin_pokemqa.scope import Detector, Side, Vectors
from ke_plugin_pokemqa.words import Words

PAIRS = 256
"""Pairs judged at once."""


@frozen(kw_only=True, eq=False)
class Trained:
    """A detector, and where it comes from."""

    detector: Detector
    checkpoint: Checkpoint


def trained(session: Session[Any], config: PokemqaConfig) -> Trained:
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
    built = _head(encoder, found.tensors) if made.tune == "head" else _whole(encoder, found.tensors)
    return Trained(detector=Detector(confirm=made.confirm, **built), checkpoint=found)


def folder_of(session: Session[Any], config: PokemqaConfig) -> Path:
    """Where the detector lies, if there is one."""
    if config.checkpoint:
        return Path(config.checkpoint).expanduser()
    encoder = session.encoder(config.encoder or PROFILES[config.profile].encoder)
    return trained_folder(session.artifacts, "pokemqa", _place(encoder, config))


def _place(encoder: Encoder, config: PokemqaConfig) -> dict[str, str]:
    """Whom a detector fits."""
    return {"encoder": encoder.id, "profile": config.profile}


def how_to_train(config: PokemqaConfig) -> str:
    """The command, with the options that it takes to get a detector for ``config``."""
    options = [f" -o pokemqa.profile={config.profile}"] if config.profile != "small" else []
    options += [f" -o pokemqa.encoder={config.encoder}"] if config.encoder else []
    return f"ke train pokemqa --data FILE --minutes 3{''.join(options)}"


def _head(encoder: Encoder, tensors: Mapping[str, Any]) -> dict[str, Any]:
    """Small networks on the vectors that the encoder gives."""
    offset = np.asarray(tensors["pre.best.offset"], dtype=np.float32)
    with torch.random.fork_rng(devices=()):  # the weights that a new network draws are overwritten
        network = PairJudge(len(offset))
    load_weights(network.eval().requires_grad_(requires_grad=False), tensors, "judge.best.")
    words = Words(counts=tensors["words.counts"], texts=int(tensors["words.texts"]))

    def judge(edits: Side, questions: Side) -> Vectors:
        overlap = torch.from_numpy(words.overlap(edits.texts, questions.texts))
        logits = network(torch.from_numpy(edits.vectors), torch.from_numpy(questions.vectors), overlap)
        return _first_class(logits)

    return {"encoder": encoder, "scale": float(np.exp(tensors["pre.best.log_scale"])), "offset": offset, "judge": judge}


def _whole(encoder: Encoder, tensors: Mapping[str, Any]) -> dict[str, Any]:
    """Two fine-tuned encoders; the first reads what is put into the memory."""
    real = fine_tunable(encoder)
    with torch.random.fork_rng(devices=()):  # as above
        points, pairs = FirstToken(real), CrossJudge(real)
    load_weights(points.requires_grad_(requires_grad=False), tensors, "pre.best.")
    load_weights(pairs.eval().requires_grad_(requires_grad=False), tensors, "judge.best.")
    tuned = SentenceEncoder(
        model=points.model, tokenizer=real.tokenizer, pooling="cls", normalised=False, longest=points.longest
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
