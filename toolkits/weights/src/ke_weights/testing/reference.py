"""Reference implementation of target optimization, for tests of faster implementations.

It processes one edit and one row at a time, with full forward passes, all logits, explicit loops and torch's Adam. It
does not use the code under test: the caller names the module, and the subject's position follows from the tokens of the
text up to its end. On a float64 model it is a float64 reference.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from attrs import define, field, frozen
from torch import Tensor, nn

from ke_weights.covariance import KeyCovariance
from ke_weights.optimize import TargetSettings
from ke_weights.rewrites import Rewrite


@frozen(kw_only=True, eq=False)
class ReferenceTarget:
    """``path``: z [d] before each update and after the last. ``losses``, ``nlls`` and ``kls`` (unweighted) are those
    of the path's points, in nats; ``clean`` [d] is the state that z started from.
    """

    path: tuple[Tensor, ...]
    clean: Tensor
    losses: tuple[float, ...]
    nlls: tuple[float, ...]
    kls: tuple[float, ...]

    @property
    def z(self) -> Tensor:
        """The last z of the path."""
        return self.path[-1]

    @property
    def steps(self) -> int:
        """Number of updates."""
        return len(self.path) - 1


@frozen
class _ReferenceRow:
    """Ids of a row, the index of the subject's last token, and the position that predicts the target's first token."""

    ids: list[int]
    index: int
    predicts: int


@define(eq=False)
class ReferenceOptimizer:
    """Optimizes targets at the output of ``site``: a block (MEMIT), or the MLP of a block (ROME).

    ``swapped_kl`` uses KL(before || now) instead of KL(now || before), to test that the direction matters.
    """

    module: Any
    tokenizer: Any
    site: nn.Module
    swapped_kl: bool = field(default=False, kw_only=True)

    def target(self, edit: Rewrite, templates: Sequence[str], settings: TargetSettings) -> ReferenceTarget:
        """Return the target of one edit. Each template ends in ``{}``, and ``templates[0]`` is only that."""
        wanted: list[int] = self.tokenizer(f" {edit.target}", add_special_tokens=False)["input_ids"]
        lines = [self._line(edit, template, wanted) for template in templates]
        essence, at = self.ids(f"{edit.subject} is a"), len(self.ids(edit.subject)) - 1
        _logs, clean = self.run(lines[0].ids, lines[0].index, None)
        before = self.run(essence, at, None)[0][at].detach()
        delta = torch.zeros_like(clean, requires_grad=True)
        adam = torch.optim.Adam([delta], lr=settings.lr)
        path: list[Tensor] = []
        seen: list[tuple[float, float, float]] = []
        hits = 0
        for step in range(settings.steps):
            nll = torch.zeros((), dtype=clean.dtype)
            most_probable = []
            for line in lines:
                logs, _ = self.run(line.ids, line.index, delta)
                each = [logs[line.predicts + number, token] for number, token in enumerate(wanted)]
                nll = nll - torch.stack(each).mean() / len(lines)
                best = logs[line.predicts : line.predicts + len(wanted)].argmax(-1).tolist()
                most_probable.append(best == wanted)
            hits += all(most_probable[1:] or most_probable)
            now = self.run(essence, at, delta)[0][at]
            kl = (before.exp() * (before - now)).sum() if self.swapped_kl else (now.exp() * (now - before)).sum()
            loss = nll + settings.kl * kl + settings.weight_decay * delta.norm() / clean.norm() ** 2
            path.append((clean + delta).detach())
            seen.append((float(loss.detach()), float(nll.detach()), float(kl.detach())))
            enough = 0 < settings.stop_hits <= hits
            if loss < settings.stop_loss or enough or step == settings.steps - 1:
                break
            adam.zero_grad()
            loss.backward()
            adam.step()
            with torch.no_grad():
                limit = settings.clamp * clean.norm()
                if delta.norm() > limit:
                    delta *= limit / delta.norm()
        losses, nlls, kls = zip(*seen, strict=True)
        return ReferenceTarget(path=tuple(path), clean=clean, losses=losses, nlls=nlls, kls=kls)

    def ids(self, text: str) -> list[int]:
        """Return the token ids without an EOS at the end, because more text follows."""
        found: list[int] = self.tokenizer(text)["input_ids"]
        alone: list[int] = self.tokenizer("")["input_ids"]
        while found and alone and found[-1] == alone[-1] == self.tokenizer.eos_token_id:
            found = found[:-1]
        return found

    def run(self, ids: list[int], index: int, delta: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return log-probabilities [T, V] with delta added at ``index``, and the site's unchanged output there, [d]."""
        clean: list[Tensor] = []

        def hook(_module: nn.Module, _args: Any, output: Any) -> Any:
            states = output[0] if isinstance(output, tuple) else output
            flat = states.reshape(len(ids), -1)  # OPT's MLP has no batch dimension
            precise = torch.promote_types(states.dtype, torch.float32)
            clean.append(flat[index].detach().to(precise).clone())
            if delta is None:
                return output
            offset = torch.zeros_like(flat, dtype=precise).index_put(
                (torch.tensor([index], device=flat.device),), delta[None]
            )
            moved = (flat.to(precise) + offset).to(states.dtype).reshape(states.shape)
            return (moved, *output[1:]) if isinstance(output, tuple) else moved

        handle = self.site.register_forward_hook(hook)
        try:
            given = torch.tensor([ids], device=self.module.get_input_embeddings().weight.device)
            logits = self.module(input_ids=given).logits[0]
        finally:
            handle.remove()
        return logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(-1), clean[0]

    def _line(self, edit: Rewrite, template: str, wanted: list[int]) -> _ReferenceRow:
        assert edit.span is not None
        left = template.index("{}")
        text = template[:left] + edit.prompt
        ids = self.ids(text)
        return _ReferenceRow(ids + wanted[:-1], len(self.ids(text[: left + edit.span[1]])) - 1, len(ids) - 1)


F, D = 48, 20
"""Dimensions of a key and of a residual."""


def random_covariance() -> KeyCovariance:
    """Return the covariance of 600 random keys, float64 [F, F]."""
    data = torch.randn(600, F, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    return KeyCovariance(data.T @ data / 600, 600)


def random_problem(count: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Return random keys and residuals of ``count`` edits as columns, float64 [F, count] and [D, count]."""
    draw = torch.Generator().manual_seed(100 * seed + count)
    keys = torch.randn(F, count, dtype=torch.float64, generator=draw)
    return keys, torch.randn(D, count, dtype=torch.float64, generator=draw)
