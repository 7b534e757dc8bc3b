"""The counterfactual model, and the checkpoints of ``ke train serac``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from attrs import frozen

from ke_core.plugin import BadConfig, Details, Encoder, Session
from ke_memory.plugin import second_session
from ke_plugin_serac import SeracConfig
from ke_plugin_serac.scope import Vectors
from ke_weights import checkpoint_digest, read_checkpoint, trained_folder
from ke_weights.plugin import OpenModel

LOG_WEIGHTS, PREFIX = "scope.log_weights", "counterfactual."
"""Names in a checkpoint: log w of the scope classifier, and the trained weights of the counterfactual model."""


@frozen(kw_only=True, eq=False)
class TrainedSerac:
    """Both trained networks. ``small``: the session of the counterfactual model. ``digest``: of the checkpoint.

    ``record``: the origin of the checkpoint.
    """

    encoder: Encoder
    weights: Vectors
    small: Session[OpenModel]
    digest: str
    record: Details


def open_counterfactual(session: Session[Any], config: SeracConfig) -> tuple[Session[OpenModel], dict[str, str]]:
    """Return the counterfactual model before training, and what a checkpoint for it is valid for."""
    small = second_session(session, config.counterfactual)
    return small, {"encoder": session.encoder(config.encoder).id, "counterfactual": small.model.digest}


def load_trained(session: Session[Any], config: SeracConfig) -> TrainedSerac:
    """Return the networks of the options, else those in the cache. Raises BadConfig if none fit."""
    given, how = config.checkpoint, "ke train serac --data FILE --minutes 30"
    small, place = open_counterfactual(session, config)
    folder = Path(given).expanduser() if given else trained_folder(session.artifacts, "serac", place)
    found = read_checkpoint(folder)
    if found is None:
        where = f"in {folder}" if given else f"for {config.counterfactual} and the encoder {config.encoder}"
        raise BadConfig(f"serac needs trained networks: none found {where}", hint=f"train them with {how}")
    if found.about.get("editor") != "serac":
        raise BadConfig(f"{folder} was trained for {found.about.get('editor')}, not for serac", hint=f"use {how}")
    if dict(found.about["place"]) != place:
        raise BadConfig(
            f"the networks in {folder} were trained with another encoder or counterfactual model than "
            f"{config.encoder} and {config.counterfactual}",
            hint=f"set the options of that training, or train others with {how} --out FOLDER",
        )
    load_weights(small.model, found.tensors)
    return TrainedSerac(
        encoder=session.encoder(config.encoder),
        weights=np.exp(np.asarray(found.tensors[LOG_WEIGHTS], dtype=np.float32)),
        small=small,
        digest=checkpoint_digest(folder),
        record={"step": found.step, "minutes": found.seconds / 60, **found.about},
    )


@torch.no_grad()
def load_weights(model: OpenModel, tensors: Mapping[str, Any]) -> None:
    """Copy the trained weights of a checkpoint into the counterfactual model."""
    parameters = dict(model.module.named_parameters())
    for name, array in tensors.items():
        if name.startswith(PREFIX):
            parameters[name.removeprefix(PREFIX)].copy_(torch.from_numpy(np.array(array)))
