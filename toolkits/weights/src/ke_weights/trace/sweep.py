"""The numbers of ``naive``, several times faster: all interventions on one token in one pass up the blocks.

An intervention changes nothing below its block, so it joins the batch there, with the states of the corrupted run.
Tokens before the restored one never change: attention uses their keys and values from the corrupted run's cache, and
only the positions from the token on are computed. Every row has the same positions, so there is no padding. Three cases
need no computation: a token before the subject restores nothing, nor does the last block's output before the last
token, and the last block's output at the last token is the clean run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import torch
from attrs import frozen
from torch import Tensor

from ke_plugin_hf.decoding.float64 import double
from ke_plugin_hf.decoding.memory import out_of_memory
from ke_weights.hooks import Hooks, forward, frozen_module
from ke_weights.modules import ModuleMap
from ke_weights.tail import Call, calls_from
from ke_weights.trace.naive import restored
from ke_weights.trace.runs import Recording, part_of, state_probability
from ke_weights.trace.settings import PARTS, Curve, Part

PASS_TOKENS = 4096
AGREE = 1e-4  # maximum difference of sweep and naive, relative to the clean probability, in float32
ROUNDING = 16  # the same in roundings of the model's dtype
READ = 1e-5  # maximum difference of head(norm(h)), relative to the norm of the logits
READ_ROUNDING = 1 / 16  # the same in roundings of the model's dtype


@frozen(kw_only=True)
class Entry:
    """One intervention: its curve, its layer, and the block at which its rows join."""

    curve: Curve
    layer: int
    start: int
    window: range

    def source(self, part: Part, at: int) -> str:
        """Return the run that the output of ``part`` in block ``at`` comes from: clean, corrupted, or none."""
        if self.curve.restored == part and at in self.window:
            return "clean"
        return "corrupted" if self.curve.severed == part else ""


def sweep(
    modules: ModuleMap, found: Recording, curves: Sequence[Curve], positions: Iterable[int], window: int
) -> dict[Curve, Tensor]:
    """Return the probability of the answer by curve, position and layer, float64 [positions, n] per curve."""
    blocks = len(modules.layers)
    places = list(positions)
    tables = {curve: torch.full((len(places), blocks), found.low, dtype=torch.float64) for curve in curves}
    entries = _entries(curves, blocks, window)
    begin, end = found.prompt.subject[0], len(found.prompt.ids)
    for row, token in enumerate(places):
        for curve in curves:
            if curve.restored == "states" and token == end - 1:
                tables[curve][row, blocks - 1] = found.high
        if token < begin:
            continue
        walk = _Walk(modules, found, token)
        for batch in _batches(entries, found.prompt.samples * walk.width):
            for entry, value in zip(batch, walk.up(batch), strict=True):
                tables[entry.curve][row, entry.layer] = value
    return tables


def agrees(modules: ModuleMap, found: Recording, curves: Sequence[Curve], window: int) -> bool:
    """Return whether sweep and naive agree for this model, at the subject's last token and three layers per curve.

    They differ if the model scales or caps its logits, or calls its blocks in a way that cannot be repeated. The first
    is checked separately: in half precision, rounding can hide it.
    """
    if not _reads_states(modules, found):
        return False
    token, blocks = found.prompt.subject[1] - 1, len(modules.layers)
    try:
        quick = sweep(modules, found, curves, [token], window)
    except (RuntimeError, TypeError, ValueError) as error:
        if out_of_memory(error):
            raise
        return False  # shapes do not fit: this model's blocks cannot be called separately
    tolerance = max(AGREE, ROUNDING * torch.finfo(found.entering[0].dtype).eps) * found.high
    return all(
        abs(float(quick[curve][0, layer]) - restored(modules, found, curve, token, layer, window=window)) <= tolerance
        for curve in curves
        for layer in {0, blocks // 2, max(0, blocks - 2)}
    )


def _reads_states(modules: ModuleMap, found: Recording) -> bool:
    """Return whether the model's logits are head(norm(h)) of its last states, for the clean row.

    It compares one pass with all tokens, so products and rounding are the same and the tolerance can be small.
    """
    row = found.prompt.rows(modules.device)[:1]
    last: list[Tensor] = []
    with frozen_module(modules.module), Hooks() as hooks:
        hooks.after(modules.layers[-1].block, last.append)
        logits = forward(modules.module, row, torch.ones_like(row)).logits
        read = modules.logits(last[0])
    tolerance = max(READ, READ_ROUNDING * torch.finfo(found.entering[0].dtype).eps)
    return bool((read - logits.to(read)).norm() <= tolerance * read.norm())


class _Walk:
    """Runs the blocks with one token restored. Column 0 of the states is the first computed position."""

    def __init__(self, modules: ModuleMap, found: Recording, token: int) -> None:
        self.modules, self.found, self.token = modules, found, token
        self.first = token if found.cache is not None else 0
        self.width = len(found.prompt.ids) - self.first
        row = found.prompt.rows(modules.device)[:1]
        self.calls: tuple[Call, ...] = calls_from(modules, row, self.first, found.cache)

    def up(self, entries: Sequence[Entry]) -> list[float]:
        """Return p(answer) of each entry, averaged over the samples; entries are sorted by their first block."""
        hidden: Tensor | None = None
        here = 0
        with frozen_module(self.modules.module):
            for at in range(entries[0].start, len(self.calls)):
                joining = [entry for entry in entries[here:] if entry.start == at]
                here += len(joining)
                new = [self._entering(entry) for entry in joining]
                hidden = torch.cat(new if hidden is None else [hidden, *(one.to(hidden.device) for one in new)])
                hidden = self._block(at, hidden, entries[:here])
            assert hidden is not None
            rows = state_probability(self.modules, hidden[:, -1], self.found.answer)
        means: list[float] = double(rows).reshape(len(entries), -1).mean(1).tolist()
        return means

    def _entering(self, entry: Entry) -> Tensor:
        """Return the corrupted states below block ``entry.start``, with the restored one among them."""
        states = self.found.entering[entry.start]
        made = states[1:, self.first :].clone()
        if entry.curve.restored == "states":
            made[:, self.token - self.first] = states[0, self.token]
        return made

    def _block(self, at: int, hidden: Tensor, entries: Sequence[Entry]) -> Tensor:
        with Hooks() as hooks:
            for part in PARTS:
                rows, values = self._forced(at, part, entries)
                if values is None:
                    continue

                def make(output: Tensor, rows: Tensor = rows, values: Tensor = values) -> Tensor:
                    states = output.reshape(-1, self.width, output.shape[-1]).clone()
                    states[rows.to(states.device), self.token - self.first] = values.to(states)
                    return states.reshape(output.shape)

                hooks.change(part_of(self.modules.layers[at], part), make)
            return self.calls[at].run(hidden.to(self.found.entering[at].device))

    def _forced(self, at: int, part: Part, entries: Sequence[Entry]) -> tuple[Tensor, Tensor | None]:
        """Return rows whose output of ``part`` is replaced, and the values, [rows, d]."""
        output, samples = self.found.outputs[part][at][:, self.token], self.found.prompt.samples
        clean, corrupted = output[:1].expand(samples, -1), output[1:]
        sources = [entry.source(part, at) for entry in entries]
        given = [index for index, source in enumerate(sources) if source]
        if not given:
            return torch.empty(0), None
        rows = torch.tensor([index * samples + sample for index in given for sample in range(samples)])
        return rows, torch.cat([clean if sources[index] == "clean" else corrupted for index in given])


def _entries(curves: Sequence[Curve], blocks: int, window: int) -> list[Entry]:
    """Return every intervention to compute, sorted by its first block."""
    found: list[Entry] = []
    for curve in curves:
        for layer in range(blocks):
            if curve.restored != "states":
                span = curve.window(layer, blocks, window)
                found.append(Entry(curve=curve, layer=layer, start=span.start, window=span))
            elif layer < blocks - 1:
                found.append(Entry(curve=curve, layer=layer, start=layer + 1, window=range(0)))
    return sorted(found, key=lambda entry: entry.start)


def _batches(entries: Sequence[Entry], tokens: int) -> Iterator[Sequence[Entry]]:
    """Yield entries to run together; each has ``tokens`` tokens."""
    size = max(1, PASS_TOKENS // tokens)
    for start in range(0, len(entries), size):
        yield entries[start : start + size]
