"""``ke train serac``: the scope classifier and the counterfactual model, separately (section 3).

    scope           - mean [log s(z, x_in) + log(1 - s(z', x_out))]     z' the nearest edit that x_out is not about
    counterfactual  - mean log p(y | z, x_in) per token                 z the statement of the edit, y its target

They share no parameter, so the step on the sum of both losses is one step on each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from attrs import frozen
from torch import Tensor, nn

from ke_core.plugin import BadData, EditFailed, Encoder, Session
from ke_memory.plugin import sentence
from ke_plugin_serac import SeracConfig
from ke_plugin_serac.scope import scope_key
from ke_plugin_serac.trained import LOG_WEIGHTS, PREFIX, load_weights, open_counterfactual
from ke_weights.example_lengths import ExampleTexts, check_lengths
from ke_weights.hypernetwork import NetworkOptimizer
from ke_weights.plugin import OpenModel, ScoredTokens, encode, find_parts, forward, scored_tokens, target_ids
from ke_weights.trainers import Training, TrainingExample, TrainStep

MIN_MISS = 1e-6
"""Lower bound of 1 - s: log(1 - s) of a negative that equals an edit's input is minus infinity."""


class SeracTrainer:
    """Trainer of ``serac``. It needs no base model: one training serves every model."""

    def __init__(self, config: SeracConfig) -> None:
        self.config = config
        self._opened: tuple[Session[OpenModel], dict[str, str]] | None = None

    def place(self, session: Session[Any]) -> Mapping[str, Any]:
        """Return what the networks belong to: the encoder, and the counterfactual model before training."""
        return self._open(session)[1]

    def recipe(self, session: Session[Any]) -> Mapping[str, Any]:
        """Return the settings of the training."""
        del session
        names = ("blocks", "lr", "scope_lr", "batch", "scope_batch")
        return {name: getattr(self.config, name) for name in names}

    def start(
        self, session: Session[Any], examples: Sequence[TrainingExample], saved: Mapping[str, Any] | None
    ) -> Training:
        """Start, or resume from ``saved``. Raises BadData for fewer than two usable examples, or one too long."""
        model = self._open(session)[0].model
        encoder = session.encoder(self.config.encoder)
        found = scope_examples(examples)
        texts = [
            ExampleTexts(name=repr(one.statement[:60]), target=one.target, prompts=[*counterfactual_prompts(one)])
            for one in found
        ]
        check_lengths(texts, model.tokenizer, model.context, extra=len(end_tokens(model)))
        training = SeracTraining(model, encoder, found, self.config, seed=session.seed)
        if saved is not None:
            training.load(saved)
        return training

    def _open(self, session: Session[Any]) -> tuple[Session[OpenModel], dict[str, str]]:
        if self._opened is None:
            self._opened = open_counterfactual(session, self.config)
        return self._opened


@frozen(kw_only=True)
class ScopeExample:
    """An edit with the ``questions`` in its scope, and ``others`` that are not. ``key``: its input."""

    key: str
    statement: str
    target: str
    questions: tuple[str, ...]
    others: tuple[str, ...]


def scope_examples(examples: Sequence[TrainingExample]) -> tuple[ScopeExample, ...]:
    """Return the examples that have a prompt and a target. Raises BadData if there are fewer than two."""
    found = tuple(
        ScopeExample(
            key=scope_key(edit),
            statement=edit.statement,
            target=edit.target,
            questions=tuple(dict.fromkeys(text.rstrip() for text in example.paraphrases)) or (edit.prompt,),
            others=example.locality,
        )
        for example in examples
        for edit in (example.edit,)
        if edit.prompt and edit.target
    )
    if len(found) < 2:
        raise BadData(
            f"{len(found)} of {len(examples)} examples have a prompt and a target: too few to train a scope classifier",
            hint="provide prompt, subject and target; statements are split by the clozes of --without DATASET",
        )
    return found


class SeracTraining:
    """A training between two steps. A step depends on its number and on what ``tensors`` returns."""

    def __init__(
        self, model: OpenModel, encoder: Encoder, examples: Sequence[ScopeExample], config: SeracConfig, *, seed: int
    ) -> None:
        self.model, self.encoder, self.examples, self.config, self.seed = model, encoder, examples, config, seed
        self.step = 0
        self.log_weights = nn.Parameter(torch.zeros(encoder.embed(["a"]).shape[1]))
        self.trained = {f"{PREFIX}{name}": one for name, one in trained_parameters(model, config.blocks).items()}
        self.optimizers = (
            NetworkOptimizer({LOG_WEIGHTS: self.log_weights}, config.scope_lr),
            NetworkOptimizer(self.trained, config.lr),
        )

    def advance(self) -> TrainStep:
        """Make one step of both networks. Raises EditFailed if a loss is not finite."""
        rng = np.random.default_rng([self.seed, self.step])
        self.step += 1
        with torch.enable_grad():
            scope, numbers = self._scope_loss(rng)
            counterfactual = row_losses(self.model, self._rows(rng)).mean()
            numbers |= {"scope": float(scope.detach()), "counterfactual": float(counterfactual.detach())}
            if not np.isfinite(list(numbers.values())).all():
                raise EditFailed(
                    f"a loss of serac is not finite at step {self.step}: {numbers}",
                    hint="lower -o serac.lr and -o serac.scope_lr",
                )
            for optimizer, loss in zip(self.optimizers, (scope, counterfactual), strict=True):
                optimizer.adam.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]  # untyped in torch
                optimizer.adam.step()
        return TrainStep(step=self.step, loss=numbers["scope"] + numbers["counterfactual"], numbers=numbers)

    def finished(self) -> bool:
        """Return False: only the time limits the training."""
        return False

    def tensors(self) -> Mapping[str, Any]:
        """Return both networks, the optimizers, and the step."""
        found: dict[str, Tensor] = {LOG_WEIGHTS: self.log_weights, **self.trained}
        for optimizer in self.optimizers:
            found |= {f"adam.{name}": value for name, value in optimizer.tensors().items()}
        arrays = {name: one.detach().cpu().numpy().copy() for name, one in found.items()}
        return arrays | {"step": np.array(self.step)}

    @torch.no_grad()
    def load(self, saved: Mapping[str, Any]) -> None:
        """Continue from ``tensors`` of a checkpoint."""
        self.step = int(saved["step"])
        self.log_weights.copy_(torch.from_numpy(np.array(saved[LOG_WEIGHTS])))
        load_weights(self.model, saved)
        moments = {name.removeprefix("adam."): one for name, one in saved.items() if name.startswith("adam.")}
        for optimizer in self.optimizers:
            optimizer.load(moments)

    def _scope_loss(self, rng: np.random.Generator) -> tuple[Tensor, dict[str, float]]:
        """Return the loss of a batch, and the means of s in and out of scope."""
        some = self._sample(rng, self.config.scope_batch)
        asked = [str(rng.choice(example.questions)) for example in some]
        others = [str(rng.choice(example.others)) for example in some if example.others]
        keys, queries = (
            torch.from_numpy(self.encoder.embed(texts)) for texts in ([one.key for one in some], [*asked, *others])
        )
        mine = [
            [question in one.questions or one.key == own.key for one in some]
            for own, question in zip(some, asked, strict=True)
        ]
        return scope_loss(keys, queries, torch.tensor(mine), self.log_weights.exp())

    def _rows(self, rng: np.random.Generator) -> ScoredTokens:
        """Return a batch of edits, each before a question or its own prompt, with the target and the end scored."""
        rows = []
        for example in self._sample(rng, self.config.batch):
            prompt = str(rng.choice(counterfactual_prompts(example)))
            tokenizer = self.model.tokenizer
            ids, target = encode(tokenizer, prompt)[0], target_ids(tokenizer, prompt, example.target)
            rows.append((ids, target + end_tokens(self.model)))
        return scored_tokens(rows, self.model.device)

    def _sample(self, rng: np.random.Generator, count: int) -> list[ScopeExample]:
        return [self.examples[at] for at in rng.permutation(len(self.examples))[:count]]


def counterfactual_prompts(example: ScopeExample) -> tuple[str, ...]:
    """Return the edit's statement before its own prompt, and before each question in its scope."""
    return tuple(f"{sentence(example.statement)}\n{text}" for text in (example.key, *example.questions))


def end_tokens(model: OpenModel) -> tuple[int, ...]:
    """Return the end-of-sequence token, which a target ends with, if the tokenizer has one."""
    end = model.tokenizer.eos_token_id
    return () if end is None else (end,)


def trained_parameters(model: OpenModel, blocks: int) -> dict[str, nn.Parameter]:
    """Return the parameters of the last ``blocks`` blocks, of all of them if 0, with gradients enabled."""
    prefixes = tuple(f"{layer.name}." for layer in find_parts(model.module).layers[-blocks:]) if blocks else ("",)
    found = {name: one for name, one in model.module.named_parameters() if name.startswith(prefixes)}
    for parameter in found.values():
        parameter.requires_grad_()
    return found


def row_losses(model: OpenModel, tokens: ScoredTokens) -> Tensor:
    """Return the negative log-likelihood per token of each row's target."""
    return tokens.nll(tokens.pick(forward(model.module, tokens.ids, tokens.mask).logits))


def scope_loss(keys: Tensor, queries: Tensor, mine: Tensor, weights: Tensor) -> tuple[Tensor, dict[str, float]]:
    """Return the loss, and the means of s in and out of scope.

    ``keys`` [n, d], of edits; ``queries`` [n or more, d]: query i < n is in scope of edit i, later ones of none.
    ``mine`` [n, n]: whether query i is in scope of edit j, which is not its negative then.
    """
    squared = ((queries[:, None] - keys[None]).pow(2) * weights).sum(-1)
    own = squared.diagonal()
    excluded = torch.zeros_like(squared, dtype=torch.bool)
    excluded[: len(keys)] = mine
    nearest = squared.masked_fill(excluded, torch.inf).amin(1)
    loss = own.mean() - (-torch.expm1(-nearest)).clamp(min=MIN_MISS).log().mean()
    return loss, {
        "in_scope": float((-own.detach()).exp().mean()),
        "out_of_scope": float((-nearest.detach()).exp().mean()),
    }
