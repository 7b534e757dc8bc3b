"""The codebook: its lookup at the last token of a prompt, and the training of its entries."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from grace_like import GraceConfig
from torch import Tensor
from torch.nn.functional import cross_entropy

from ke_core.plugin import Details, Edit, EditFailed, PassthroughModel, Session, from_json, to_json
from ke_weights import plugin as kw

SAME_KEY = 1e-3  # closer keys belong to one prompt: the later edit replaces the earlier one


def replace_output(call: kw.LayerCall, state: Mapping[str, Tensor]) -> Tensor:
    """Replace the output at the last prompt token by a stored value, in rows that are near a stored key."""
    rows, at = torch.arange(len(call.inputs), device=call.inputs.device), call.last_prompt.clamp(min=0)
    nearest, entry = distances(call.inputs[rows, at], state["keys"]).min(dim=1)
    hit = (call.last_prompt >= 0) & (nearest <= state["radii"][entry])
    output = call.output.clone()
    output[rows[hit], at[hit]] = state["values"][entry[hit]].to(output.dtype)
    return output


def distances(queries: Tensor, keys: Tensor) -> Tensor:
    """Return the Euclidean distances [B, n] in float32."""
    return torch.cdist(queries.float(), keys, compute_mode="donot_use_mm_for_euclid_dist")


class GraceLike:
    """The editor."""

    def __init__(self, config: GraceConfig) -> None:
        self.config = config

    def check(self, session: Session[Any], edits: Sequence[Edit]) -> Mapping[str, str]:
        """Return the edits that cannot be applied, with the reasons."""
        if not edits:
            self._layer(session.model)  # raises an error for an unknown layer before the run starts
        return kw.unsupported_edits(edits, session.model.tokenizer, session.model.context)

    @contextmanager
    def edit(self, session: Session[kw.OpenModel], edits: Sequence[Edit]) -> Iterator["Codebook"]:
        """Open an empty codebook and learn ``edits``."""
        with self._opened(session, {}, {}) as codebook:
            codebook.change(add=edits)
            yield codebook

    @contextmanager
    def load(self, session: Session[kw.OpenModel], path: Path) -> Iterator["Codebook"]:
        """Open a saved codebook."""
        state, about = kw.load_state(path, session.model.device)
        edits = {name: from_json(raw, Edit, of=str(path)) for name, raw in json.loads(about["edits"]).items()}
        with self._opened(session, state, edits) as codebook:
            yield codebook

    @contextmanager
    def _opened(self, session: Session[Any], state: Mapping[str, Tensor], edits: dict[str, Edit]) -> Iterator[Any]:
        layer = self._layer(session.model)
        with session.model.adapt(layer.projection_name, replace_output, state) as adaptor:
            yield Codebook(session, self.config, layer, adaptor, edits)

    def _layer(self, model: kw.OpenModel) -> kw.Layer:
        parts = kw.find_parts(model.module)
        number = len(parts.layers) * 3 // 4 if self.config.layer is None else self.config.layer
        parts.check_layers((number,))
        return parts.layers[number]


class Codebook(PassthroughModel):
    """The edited model. State: keys [n, in], values [n, out], radii [n], and labels [n], which identify targets."""

    def __init__(self, session: Any, config: GraceConfig, layer: kw.Layer, adaptor: kw.Adaptor, edits: Any) -> None:
        super().__init__(session)
        self.model, self.config, self.layer, self.adaptor, self.edits = session.model, config, layer, adaptor, edits

    @property
    def details(self) -> Details:
        """Return what the run records about the edits."""
        return {"layer": self.layer.index, "edits": [*self.edits], "entries": len(self.adaptor.state.get("keys", ()))}

    def save(self, path: Path) -> None:
        """Write the codebook and the edits in it."""
        edits = {name: to_json(edit) for name, edit in self.edits.items()}
        kw.save_state(path, self.adaptor.state, {"edits": json.dumps(edits)})

    def change(self, *, add: Sequence[Edit] = (), remove: Sequence[str] = ()) -> None:
        """Learn the edits in ``add`` that are not in effect. If any is removed, learn the others again first."""
        kw.as_rewrites(add, self.model.tokenizer, self.model.context)  # raises for an edit that cannot be applied
        change = kw.edit_change([tuple(self.edits.values())], add, remove)
        with kw.restored_on_error(self.adaptor):
            if not change.kept:
                self.adaptor.replace_state({})
            for edit in change.todo:
                self._learn(kw.rewrite(edit))
        self.edits = (self.edits if change.kept else {}) | {edit.id: edit for edit in change.todo}

    def _learn(self, wanted: kw.Rewrite) -> None:
        """Find the entry for ``wanted``, and train its value until the model continues the prompt with the target."""
        prompt = self.model.encode(wanted.prompt)
        target = kw.answer_ids(self.model, wanted.prompt, wanted.target)
        ids = torch.tensor([[*prompt, *target[:-1]]], device=self.model.device)
        goal = torch.tensor(target, device=self.model.device)
        with kw.prompt_lengths([len(prompt)]), kw.frozen_module(self.model.module):
            state, entry = self._entry(ids, len(prompt) - 1, target)
            with torch.enable_grad():
                value = state["values"][entry].clone().requires_grad_()
                optimizer = torch.optim.Adam([value], lr=self.config.rate)
                for _step in range(self.config.steps):
                    values = state["values"].index_put((torch.tensor([entry], device=value.device),), value[None])
                    self.adaptor.replace_state({**state, "values": values})
                    logits = kw.forward(self.model.module, ids, torch.ones_like(ids)).logits[0, len(prompt) - 1 :]
                    optimizer.zero_grad()
                    cross_entropy(logits.float(), goal.to(logits.device)).backward()
                    optimizer.step()
        if not bool(value.isfinite().all()):
            raise EditFailed(f"the value of edit {wanted.id} is not finite", hint="lower -o grace-like.rate")
        state["values"][entry] = value.detach()
        self.adaptor.replace_state(state)

    def _entry(self, ids: Tensor, last: int, target: Sequence[int]) -> tuple[dict[str, Tensor], int]:
        """Return a copy of the state with an entry for this prompt, and the index of the entry."""
        rows, seen = (len(ids[0]), -1), list[Tensor]()
        with kw.Hooks() as hooks:
            hooks.before(self.layer.projection, lambda args, _kwargs: seen.append(args[0].reshape(rows)[last]))
            hooks.after(self.layer.projection, lambda output: seen.append(output.reshape(rows)[last]))
            kw.forward(self.model.module, ids, torch.ones_like(ids))
        key, value = (one.float()[None] for one in seen)
        number = int(sha256(repr(target).encode()).hexdigest()[:15], 16)
        label = torch.tensor([number], dtype=torch.int64, device=key.device)
        radius = torch.tensor([self.config.radius], dtype=torch.float32, device=key.device)
        fresh = {"keys": key, "values": value, "radii": radius, "labels": label}
        if not self.adaptor.state:
            return fresh, 0
        state = {name: tensor.clone() for name, tensor in self.adaptor.state.items()}
        nearest, near = (one[0] for one in distances(key, state["keys"]).min(dim=1))
        if nearest <= radius[0] + state["radii"][near]:
            if nearest < SAME_KEY or state["labels"][near] == label[0]:
                state["radii"][near] = torch.maximum(state["radii"][near], nearest)
                state["labels"][near] = label[0]
                return state, int(near)
            # Another target is close: the two regions must not overlap.
            state["radii"][near] = torch.minimum(state["radii"][near], nearest / 2 - 1e-5)
            fresh["radii"] = nearest[None] / 2
        return {name: torch.cat([tensor, fresh[name]]) for name, tensor in state.items()}, len(state["keys"])
