"""The target z of each edit: the output of block L at the subject's last token (MEMIT section 4.2, equation 16).

z = h + delta, where delta minimizes, over templates x_j and with all weights frozen,

    mean_j -log P(target | x_j + prompt)  +  kl * KL(P_now || P_before | "subject is a")  +  decay * |delta| / |h|^2

with the KL term at the subject's last token. Edits are optimized together and independently: their losses are summed (a
mean would change each edit's gradient when others finish), and each edit finishes when its own loss is below the
threshold.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from attrs import frozen
from torch import Tensor

from ke_core.plugin import EditFailed
from ke_weights.hooks import frozen_module
from ke_weights.keys import attention_states, mlp_states
from ke_weights.modules import ModuleMap
from ke_weights.offset_rows import Held, OffsetRows, ScoredPositions, Site
from ke_weights.rewrites import Rewrite
from ke_weights.subject import SubjectTokens, locate, target_ids

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8  # Adam's
EASED = 0.1  # weight of the NLL while the target is predicted, with kl_stop
ESSENCE = " is a"
LOSSES = ("nll", "kl", "decay", "total")
"""The terms of the loss, weighted, and their sum; with ``kl_stop``, the NLL before it is eased."""


@frozen(kw_only=True)
class TargetSettings:
    """``steps`` loss evaluations, so at most ``steps - 1`` updates; ``clamp`` bounds |delta| / |h|.

    ``layer`` is the block. ``site`` selects its output h: the block's own (MEMIT), or its MLP's (ROME section 3.1). A
    residual block adds the MLP's output to the stream, so delta moves the same states; h differs, and therefore clamp,
    decay and z. ``attention+mlp`` optimizes an offset of both outputs, and z is the MLP's (PMET section 4.1).

    ``stop_hits``: stop when every target token was the most probable one, after each sampled context, in so many
    evaluations (0: never; ENCORE section 4). ``kl_stop``: after an evaluation in which every target token was the most
    probable one, the next one gives the NLL a tenth of its weight; stop if the weighted KL term is at most
    ``kl_stop`` (PMET's code).
    """

    layer: int
    site: Site = "block"
    steps: int
    lr: float
    kl: float
    weight_decay: float
    clamp: float
    stop_loss: float = 0.05
    stop_hits: int = 0
    kl_stop: float | None = None


@frozen(kw_only=True, eq=False)
class OptimizedTarget:
    """``z`` [d] at the optimized site; ``change`` is |delta| / |h|.

    ``losses`` [evaluations, 4], on the CPU, has the ``LOSSES`` of each evaluation, in nats. The last one is that of z.
    """

    z: Tensor
    losses: Tensor
    change: float

    @property
    def steps(self) -> int:
        """Number of updates of delta."""
        return len(self.losses) - 1

    @property
    def nll(self) -> float:
        """The negative log-likelihood of the target for z."""
        return float(self.losses[-1, 0])

    @property
    def kl(self) -> float:
        """The weighted KL term for z."""
        return float(self.losses[-1, 1])

    @property
    def loss(self) -> float:
        """The total loss for z."""
        return float(self.losses[-1, 3])

    def report(self) -> dict[str, Any]:
        """Return JSON values for the record."""
        return {"steps": self.steps, "loss": self.loss, "nll": self.nll, "kl": self.kl, "change": self.change}


@frozen(kw_only=True)
class TargetRows:
    """Rows of one edit: one per template with all but the last target token, and the row of the KL term.

    ``essence`` is None for all edits that are optimized together, or for none; then there is no KL term. ``held``:
    states of the rows before the offset, which are optimized already.
    """

    rewrite: Rewrite
    rows: tuple[SubjectTokens, ...]
    essence: SubjectTokens | None
    target: tuple[int, ...]
    held: Held = ()

    @property
    def suffix(self) -> int:
        """Tokens from the first changed state to the end of the longest row."""
        return max(len(row.ids) - min((row.index, *(at for at, _state in self.held))) for row in self.rows)


def target_rows(tokenizer: Any, rewrite: Rewrite, templates: Sequence[str]) -> TargetRows:
    """Tokenize one edit. ``templates[0]`` is the bare prompt, whose state delta is added to."""
    target = target_ids(tokenizer, rewrite.prompt, rewrite.target)
    essence = locate(tokenizer, rewrite.subject + ESSENCE, (0, len(rewrite.subject)))
    return TargetRows(
        rewrite=rewrite,
        rows=tuple(rewrite.row(tokenizer, template).plus(target) for template in templates),
        essence=essence.to_subject,  # later tokens cannot change the prediction at the subject's last token
        target=target,
    )


def optimize_targets(
    modules: ModuleMap, plans: Sequence[TargetRows], settings: TargetSettings
) -> list[OptimizedTarget]:
    """Return the targets of ``plans``, in order, optimized together. Raises EditFailed, which names the edit."""
    with frozen_module(modules.module), torch.enable_grad():
        return _Optimization(modules, plans, settings).run()


class _Optimization:
    """State of the edits that are not finished; ``live`` are their places in the result."""

    def __init__(self, modules: ModuleMap, plans: Sequence[TargetRows], settings: TargetSettings) -> None:
        self.modules, self.plans, self.settings = modules, plans, settings
        rows = [row for made in plans for row in made.rows]
        held = [made.held for made in plans for _row in made.rows]
        self.prompts = OffsetRows.open(modules, rows, len(plans[0].rows), settings.layer, settings.site, held)
        # Separate from the prompts: they end at the offset, and would be padded to the longest prompt.
        essences = [made.essence for made in plans if made.essence is not None]
        self.essences = OffsetRows.open(modules, essences, 1, settings.layer, settings.site) if essences else None
        self.device = self.prompts.column.device
        self.scored = self._positions()
        self.live = torch.arange(len(plans), device=self.device)
        self.clean = self._clean([made.rows[0].to_subject for made in plans])  # [E, sites, d]
        self.size = self.clean.norm(dim=-1)
        self.delta = torch.zeros_like(self.clean, requires_grad=True)
        self.mean, self.square = torch.zeros_like(self.clean), torch.zeros_like(self.clean)
        self.hits = torch.zeros_like(self.live)
        self.ease = torch.ones(len(plans), dtype=modules.dtype, device=self.device)  # weight of the NLL
        self.before: Tensor | None = None  # log P of the unedited model at the KL position, [E, V]
        self.history = torch.zeros(settings.steps, len(plans), len(LOSSES), dtype=modules.dtype, device=self.device)
        self.done: dict[int, OptimizedTarget] = {}

    def run(self) -> list[OptimizedTarget]:
        """Run loss, stop test, last-step test, gradient, step and clamp in the published order."""
        for step in range(self.settings.steps):
            losses = self._losses()
            loss = losses[:, -1]
            self._check(loss, step)
            self.history[step, self.live] = losses.detach()
            stop = (loss < self.settings.stop_loss) | (step == self.settings.steps - 1)
            if self.settings.stop_hits:
                stop |= self.hits >= self.settings.stop_hits
            if self.settings.kl_stop is not None:
                stop |= (self.ease < 1) & (losses[:, 1] <= self.settings.kl_stop)
            self._finish(stop, step)
            if bool(stop.all()):
                break
            (gradient,) = torch.autograd.grad(loss[~stop].sum(), self.delta)
            self._leave(~stop)
            self._adam(gradient[~stop], step + 1)
        return [self.done[place] for place in range(len(self.plans))]

    def _losses(self) -> Tensor:
        """Return the ``LOSSES`` of each live edit, [E, 4]."""
        top = self.prompts.run(self.delta)
        scored = self._log_probabilities(top, self.scored.row, self.scored.column)
        wrong = scored.argmax(-1) != self.scored.token
        if self.settings.stop_hits:
            self._count_hits(wrong)
        chosen = scored.gather(1, self.scored.token[:, None])[:, 0]
        none = torch.zeros(len(self.live), dtype=scored.dtype, device=self.device)
        nll = none.index_add(0, self.scored.edit, -chosen * self.scored.weight)
        kl = none if self.essences is None else self._kl(self.essences)
        decay = (self.settings.weight_decay * self.delta.norm(dim=-1) / self.size**2).sum(1)
        losses = torch.stack([nll, kl, decay, self.ease * nll + kl + decay], dim=1)
        if self.settings.kl_stop is not None:
            self.ease = self._eased(wrong)
        return losses

    def _log_probabilities(self, top: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
        """Return log P [N, V] of the next token, from the last block's output at N positions of ``top``."""
        states = top[rows.to(top.device), columns.to(top.device)]
        return self.modules.logits(states).log_softmax(-1).to(self.device)

    def _kl(self, essences: OffsetRows) -> Tensor:
        """Return the weighted KL term of each edit, [E]."""
        now = self._log_probabilities(essences.run(self.delta), torch.arange(len(self.live)), essences.column)
        if self.before is None:
            self.before = now.detach()
        return self.settings.kl * (now.exp() * (now - self.before)).sum(-1)

    def _eased(self, wrong: Tensor) -> Tensor:
        """Return the next weight of the NLL, [E]: lower for edits without a ``wrong`` token [M]."""
        misses = torch.zeros_like(self.hits).index_add(0, self.scored.edit, wrong.to(self.hits.dtype))
        return torch.where(misses == 0, EASED, 1.0).to(self.ease.dtype)

    def _count_hits(self, wrong: Tensor) -> None:
        """Count the edits without a ``wrong`` token [M] after the sampled contexts, or after the bare prompt."""
        sampled = (self.scored.row % self.prompts.per_edit != 0) | (self.prompts.per_edit == 1)
        misses = torch.zeros_like(self.hits).index_add(0, self.scored.edit, (wrong & sampled).to(self.hits.dtype))
        self.hits = self.hits + (misses == 0).to(self.hits.dtype)

    def _adam(self, gradient: Tensor, step: int) -> None:
        """Make one step of Adam, and project back into the ball |delta| <= clamp |h|."""
        self.mean = BETA1 * self.mean + (1 - BETA1) * gradient
        self.square = BETA2 * self.square + (1 - BETA2) * gradient**2
        scale = (self.square.sqrt() / (1 - BETA2**step) ** 0.5) + EPSILON
        delta = self.delta.detach() - self.settings.lr / (1 - BETA1**step) * self.mean / scale
        limit = self.settings.clamp * self.size[..., None]
        norm = delta.norm(dim=-1, keepdim=True)
        delta = torch.where(norm > limit, delta * (limit / norm), delta)
        self.delta = delta.requires_grad_()

    def _finish(self, stop: Tensor, step: int) -> None:
        z = (self.clean + self.delta).detach()[:, -1]
        change = (self.delta.detach().norm(dim=-1) / self.size)[:, -1].tolist()
        for at in stop.nonzero()[:, 0].tolist():
            place = int(self.live[at])
            losses = self.history[: step + 1, place].cpu()
            self.done[place] = OptimizedTarget(z=z[at].clone(), losses=losses, change=change[at])

    def _leave(self, stay: Tensor) -> None:
        """Remove finished edits from every array, including Adam's."""
        if bool(stay.all()):
            return
        edits = stay.nonzero()[:, 0]
        self.scored = self.scored.of(edits, self.prompts.of(edits))
        self.prompts = self.prompts.keep(edits)
        if self.essences is not None and self.before is not None:
            self.essences, self.before = self.essences.keep(edits), self.before[edits]
        self.live, self.hits, self.ease = self.live[edits], self.hits[edits], self.ease[edits]
        self.clean, self.size, self.delta = self.clean[edits], self.size[edits], self.delta[edits]
        self.mean, self.square = self.mean[edits], self.square[edits]

    def _check(self, loss: Tensor, step: int) -> None:
        bad = (~loss.isfinite()).nonzero()[:, 0].tolist()
        if bad:
            name = self.plans[int(self.live[bad[0]])].rewrite.id
            raise EditFailed(
                f"the loss of edit {name!r} is not finite at step {step} of its optimization",
                hint="lower the learning rate, or load the model with --dtype float32",
            )

    def _clean(self, bare: Sequence[SubjectTokens]) -> Tensor:
        """Return the unchanged outputs h of the sites at the subject of the bare prompts, [E, sites, d].

        They are on the device of the rows, which may be that of the block below.
        """
        layer = self.settings.layer
        if self.settings.site == "block":
            at = self.live * self.prompts.per_edit
            return self.prompts.tail.hidden[at, self.prompts.column[at]].to(self.modules.dtype)[:, None]
        outputs = [mlp_states(self.modules, bare, layer)]
        if self.settings.site == "attention+mlp":
            outputs.insert(0, attention_states(self.modules, bare, layer))
        return torch.stack([output.to(self.device) for output in outputs], dim=1)

    def _positions(self) -> ScoredPositions:
        """Return where the target's tokens are predicted: the last prompt token and the earlier target tokens."""
        found: list[tuple[int, int, int, float, int]] = []
        starts = self.prompts.tail.start.tolist()
        for edit, made in enumerate(self.plans):
            share = 1.0 / (len(made.rows) * len(made.target))
            for number, row in enumerate(made.rows):
                at = edit * self.prompts.per_edit + number
                begin = len(row.ids) - len(made.target) - starts[at]
                found += [(at, begin + j, token, share, edit) for j, token in enumerate(made.target)]
        rows, columns, tokens, weights, edits = zip(*found, strict=True)
        return ScoredPositions(
            row=torch.tensor(rows, device=self.device),
            column=torch.tensor(columns, device=self.device),
            token=torch.tensor(tokens, device=self.device),
            weight=torch.tensor(weights, dtype=self.modules.dtype, device=self.device),
            edit=torch.tensor(edits, device=self.device),
        )
