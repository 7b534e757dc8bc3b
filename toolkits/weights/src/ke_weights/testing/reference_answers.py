"""Reference implementation of long answers (UnKE, AnyEdit), for tests: one row at a time, whole passes, torch's AdamW.

Parameters are trained in the model itself and restored.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from attrs import define, field, frozen
from torch import Tensor

from ke_core.plugin import Edit, FreeForm, digest
from ke_testing.examples import FREE_FORM
from ke_weights.corpus import read_corpus
from ke_weights.modules import module_map
from ke_weights.subject import target_ids

LONG = Edit(
    id="long",
    statement="Why is the sky dark at night? Because light is young.\nMost stars are far.",
    free_form=FreeForm(prompt="Why is the sky dark at night?", target="Because light is young.\nMost stars are far."),
)
"""An edit without a subject, with a target of two lines."""
LONG_EDITS = (FREE_FORM, LONG)
SMALL_ANSWERS: Mapping[str, Any] = {
    "layer": 1, "steps": 6, "lr": 0.3, "weight_decay": 0.5, "clamp": 0.6, "block_steps": 4, "block_lr": 1e-3,
    "block_decay": 0.1, "keep": 3, "document_length": 12,
}  # fmt: skip
"""Options of ``LongTargetConfig`` for a tiny model."""
ANSWER_LIMITS = (("gpt2", "float64", 1e-8), ("llama", "float32", 1e-5))
"""Largest distances. The key bias of GPT-2 has no gradient, and AdamW makes a step of its rounding error in float32."""


@frozen(kw_only=True, eq=False)
class ReferenceAnswer:
    """The states z of one edit, at ``positions`` of ``ids``."""

    ids: list[int]
    positions: list[int]
    z: list[Tensor]


@define(eq=False)
class ReferenceAnswers:
    """Long answers of a model with the options ``SMALL_ANSWERS``, at block ``layer``.

    ``window`` 0: one for the whole answer.
    """

    model: Any
    window: int = 0
    layer: int = SMALL_ANSWERS["layer"]
    block: Any = field(init=False)
    name: str = field(init=False)

    def __attrs_post_init__(self) -> None:
        place = module_map(self.model.module).layers[self.layer]
        self.block, self.name = place.block, place.name

    def tokens(self, edit: Edit) -> tuple[list[int], list[int]]:
        """Return the ids of the question and of the answer with its end-of-sequence token."""
        answer = target_ids(self.model.tokenizer, edit.prompt, edit.target)
        return self.model.encode(edit.prompt), [*answer, self.model.tokenizer.eos_token_id]

    def answer(self, edit: Edit) -> ReferenceAnswer:
        """Optimize the states of one edit, window by window."""
        question, answer = self.tokens(edit)
        size = self.window or len(answer)
        positions: list[int] = []
        states: list[Tensor] = []
        for start in range(0, len(answer), size):
            before, window = question + answer[:start], answer[start : start + size]
            states.append(self.state(before, window, dict(zip(positions, states, strict=True))))
            positions.append(len(before) - 1)
        return ReferenceAnswer(ids=(question + answer)[: positions[-1] + 1], positions=positions, z=states)

    def state(self, before: Sequence[int], window: Sequence[int], held: Mapping[int, Tensor]) -> Tensor:
        """Return z at the last token of ``before``, with the states ``held`` at earlier positions."""
        at, clean = len(before) - 1, self.output(before)[-1].detach()
        delta = torch.zeros_like(clean, requires_grad=True)
        adam = torch.optim.Adam([delta], lr=SMALL_ANSWERS["lr"])
        for _ in range(SMALL_ANSWERS["steps"] - 1):
            logits = self.logits([*before, *window[:-1]], {**held, at: clean + delta})[at:]
            nll = -logits.log_softmax(-1)[torch.arange(len(window)), list(window)].mean()
            adam.zero_grad()
            (nll + SMALL_ANSWERS["weight_decay"] * delta.norm() / clean.norm() ** 2).backward()
            adam.step()
            with torch.no_grad():
                delta.mul_(min(1.0, float(SMALL_ANSWERS["clamp"] * clean.norm() / delta.norm())))
        return (clean + delta).detach()

    def logits(self, ids: Sequence[int], states: Mapping[int, Tensor]) -> Tensor:
        """Return logits [T, V] with ``states`` in place of the block's output at their positions."""
        with replaced(self.block, states):
            found: Tensor = self.model.module(input_ids=torch.tensor([list(ids)])).logits[0]
        return found

    def output(self, ids: Sequence[int]) -> Tensor:
        """Return the block's output for one row, [T, d]."""
        seen: list[Tensor] = []
        handle = self.block.register_forward_hook(
            lambda _module, _args, output: seen.append(output if isinstance(output, Tensor) else output[0])
        )
        self.model.module(input_ids=torch.tensor([list(ids)]))
        handle.remove()
        return seen[0][0]

    def train(
        self, edits: Sequence[Edit], kept: Sequence[Sequence[int]], *, padding: bool = False
    ) -> dict[str, Tensor]:
        """Return the changes of the block's parameters, as stored."""
        answers = [self.answer(edit) for edit in edits]
        rows = [answer.ids for answer in answers]
        wanted = self.outputs(rows, padding=padding)
        for states, answer in zip(wanted, answers, strict=True):
            for at, z in zip(answer.positions, answer.z, strict=True):
                states[at] = z
        held = self.outputs(kept, padding=padding)
        before = {name: value.detach().clone() for name, value in self.block.named_parameters()}
        norms = [value for name, value in self.block.named_parameters() if "norm" in name or "ln_" in name]
        others = [value for value in self.block.parameters() if not any(value is norm for norm in norms)]
        self.block.requires_grad_(requires_grad=True)
        groups = [
            {"params": others, "weight_decay": SMALL_ANSWERS["block_decay"]}, {"params": norms, "weight_decay": 0.0}
        ]  # fmt: skip
        adam = torch.optim.AdamW(groups, lr=SMALL_ANSWERS["block_lr"])
        for _ in range(SMALL_ANSWERS["block_steps"]):
            loss = self.mean(rows, wanted, padding=padding) + self.mean(kept, held, padding=padding)
            adam.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]  # untyped in torch
            adam.step()
        found = {f"{self.name}.{name}": value.detach() - before[name] for name, value in self.block.named_parameters()}
        with torch.no_grad():
            for name, value in self.block.named_parameters():
                value.copy_(before[name])
        self.block.requires_grad_(requires_grad=False)
        return found

    def outputs(self, rows: Sequence[Sequence[int]], *, padding: bool) -> list[Tensor]:
        """Return copies of the block's output for each row, [T, d]; ``padding``: with those of padding tokens."""
        found = list(self.padded_output(rows)) if padding else [self.output(row) for row in rows]
        return [states.detach().clone() for states in found]

    def mean(self, rows: Sequence[Sequence[int]], wanted: Sequence[Tensor], *, padding: bool) -> Tensor:
        """Return the mean squared error over positions; ``padding``: of rows that are padded to the longest."""
        if padding:
            return (self.padded_output(rows) - torch.stack(list(wanted))).pow(2).mean()
        sums = [(self.output(row) - states).pow(2).sum() for row, states in zip(rows, wanted, strict=True)]
        return torch.stack(sums).sum() / (sum(map(len, rows)) * wanted[0].shape[1])

    def padded_output(self, rows: Sequence[Sequence[int]]) -> Tensor:
        """Return the block's output for rows padded on the right with masked tokens of id 0, [rows, T, d]."""
        width, seen = max(map(len, rows)), list[Tensor]()
        handle = self.block.register_forward_hook(
            lambda _module, _args, output: seen.append(output if isinstance(output, Tensor) else output[0])
        )
        ids = torch.tensor([[*row, *[0] * (width - len(row))] for row in rows])
        mask = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in rows])
        self.model.module(input_ids=ids, attention_mask=mask)
        handle.remove()
        return seen[0]

    def kept_rows(self, seed: int, edits: Sequence[Edit]) -> list[list[int]]:
        """Return the rows whose states are kept for these edits."""
        chooser = random.Random(digest({"seed": seed, "edits": [edit.id for edit in edits]}))  # noqa: S311
        chosen = chooser.sample(read_corpus().documents, SMALL_ANSWERS["keep"])
        return [self.model.encode(document)[: SMALL_ANSWERS["document_length"]] for document in chosen]


@contextmanager
def replaced(block: Any, states: Mapping[int, Tensor]) -> Iterator[None]:
    """Replace the output of ``block`` at the positions of ``states``."""

    def hook(_module: Any, _args: Any, output: Any) -> Any:
        before = output if isinstance(output, Tensor) else output[0]
        after = torch.stack([states.get(at, before[0, at]) for at in range(before.shape[1])])[None]
        return after if isinstance(output, Tensor) else (after, *output[1:])

    handle = block.register_forward_hook(hook)
    try:
        yield
    finally:
        handle.remove()
