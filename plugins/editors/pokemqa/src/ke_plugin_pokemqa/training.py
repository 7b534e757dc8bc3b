"""``ke train pokemqa``: train the pre-detector and the disambiguator, alternating steps."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import torch
from attrs import asdict
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from ke_core.plugin import EditFailed, Encoder, Session
from ke_memory.plugin import read_arrays, write_arrays
from ke_plugin_pokemqa import PokemqaConfig
from ke_plugin_pokemqa.examples import Numbers, ScopeExamples, negatives, order, scope_examples
from ke_plugin_pokemqa.learner import Learner
from ke_plugin_pokemqa.networks import Head, Whole, fine_tunable
from ke_plugin_pokemqa.profiles import Recipe, recipe_of
from ke_plugin_pokemqa.words import WordCounts, count_words
from ke_weights.trainers import Training, TrainingExample, TrainStep

RIVALS = 10
"""Number of other edits to validate the disambiguator with, per question."""
CHUNK = 1024
"""Texts embedded or pairs scored at once."""


class ScopeTrainer:
    """Trainer of ``pokemqa``. It needs no language model."""

    def __init__(self, config: PokemqaConfig) -> None:
        self.profile, self.made = config.profile, recipe_of(config)

    def place(self, session: Session[Any]) -> Mapping[str, Any]:
        """Return what a detector belongs to: the encoder and the profile."""
        return {"encoder": session.encoder(self.made.encoder).id, "profile": self.profile}

    def recipe(self, session: Session[Any]) -> Mapping[str, Any]:
        """Return the profile's settings. Raises BadConfig if the encoder cannot be trained with them."""
        if self.made.tune == "all":
            fine_tunable(session.encoder(self.made.encoder))
        return asdict(self.made)

    def start(
        self, session: Session[Any], examples: Sequence[TrainingExample], saved: Mapping[str, Any] | None
    ) -> Training:
        """Embed every text once (default profile), and start or resume. Raises BadData."""
        data = scope_examples(examples, session.seed, validate_on=2 if self.made.select == "loss" else 1)
        encoder = session.encoder(self.made.encoder)
        trained_on = [data.edits[data.train], data.question[data.pairs_of(data.train)]]
        words = count_words(data.texts[at] for at in np.unique(np.concatenate(trained_on)))
        networks: Head | Whole
        if self.made.tune == "head":
            vectors = torch.from_numpy(_vectors(session, encoder, data.texts))
            networks = Head(data.texts, vectors, words, seed=session.seed)
        else:
            networks = Whole(data.texts, encoder, seed=session.seed)
        return ScopeTraining(networks, data, self.made, words=words, seed=session.seed, saved=saved)


class ScopeTraining:
    """A training between two steps."""

    def __init__(
        self,
        networks: Head | Whole,
        examples: ScopeExamples,
        recipe: Recipe,
        *,
        words: WordCounts,
        seed: int = 0,
        saved: Mapping[str, Any] | None = None,
    ) -> None:
        self.networks, self.examples, self.made, self.words, self.seed = networks, examples, recipe, words, seed
        self.step = 0
        self.pairs = examples.pairs_of(examples.train)
        self.pre = Learner("pre", networks.pre, recipe.pre, len(self.pairs))
        self.judge = Learner("judge", networks.judge, recipe.judge, len(examples.train))
        self.rivals = self._near_rivals() if recipe.hard else _rivals(examples, seed)
        if saved is not None:
            self.step = int(saved["step"])
            for learner in (self.pre, self.judge):
                learner.load(saved)

    def advance(self) -> TrainStep:
        """Make one step of each network that is still training. Raises EditFailed if a loss is not finite."""
        self.pre.advance(self._pre_loss, self._pre_merit, seed=self.seed)
        self.judge.advance(self._judge_loss, self._judge_merit, seed=self.seed)
        self.step += 1
        losses = {"pre": self.pre.loss, "judge": self.judge.loss}
        if not np.isfinite(list(losses.values())).all():
            raise EditFailed(f"a loss of pokemqa's detector is not finite at step {self.step}: {losses}")
        numbers = losses | {"pre_merit": self.pre.merit, "judge_merit": self.judge.merit}
        return TrainStep(step=self.step, loss=sum(losses.values()), numbers=numbers)

    def finished(self) -> bool:
        """Return whether both have stopped: no improvement for a while, or all epochs done."""
        return self.pre.stopped and self.judge.stopped

    def tensors(self) -> Mapping[str, Any]:
        """Return current and best weights of both networks, which of them to use, optimizers, and words."""
        known = {"words.counts": self.words.counts, "words.texts": np.array(self.words.texts)}
        networks = self.pre.tensors(self._pre_merit) | self.judge.tensors(self._judge_merit)
        return networks | known | {"step": np.array(self.step)}

    def _pre_loss(self) -> Tensor:
        """Return the loss of positive pairs, with negatives from the batch."""
        epoch, batch = self.pre.place
        size = self.pre.batch
        some = self.pairs[order(len(self.pairs), epoch, seed=self.seed, part=1)[batch * size : (batch + 1) * size]]
        records = self.examples.record[some]
        rng = np.random.default_rng([self.seed, 2, self.pre.step])
        wrong = negatives(self.examples.family[records], self.made.negatives, rng)
        edits = self.networks.points(self.examples.edits[records].tolist(), edits=True)
        questions = self.networks.points(self.examples.question[some].tolist(), edits=False)
        return pre_detector_loss(edits, questions, questions[torch.from_numpy(wrong)])

    def _judge_loss(self) -> Tensor:
        """Return the loss of the pairs of some records, and as many with another record's question."""
        epoch, batch = self.judge.place
        size, train = self.judge.batch, self.examples.train
        records = train[order(len(train), epoch, seed=self.seed, part=3)[batch * size : (batch + 1) * size]]
        some = self.examples.pairs_of(records)
        edits, asked = self.examples.edits[self.examples.record[some]], self.examples.question[some]
        wrong = asked[self._wrong(some, edits, asked)]
        logits = self.networks.logits([*edits.tolist(), *edits.tolist()], [*asked.tolist(), *wrong.tolist()])
        return judge_loss(logits, positives=len(some), kind=self.made.loss)

    def _wrong(self, some: Numbers, edits: Numbers, asked: Numbers) -> Numbers:
        """Return for each pair the place in the batch of a question that its edit does not answer, [n]."""
        families = self.examples.family[self.examples.record[some]]
        rng = np.random.default_rng([self.seed, 4, self.judge.step])
        if not self.made.hard:
            return negatives(families, 1, rng)[:, 0]
        with torch.no_grad():
            points = self.networks.points(edits.tolist(), edits=True)
            apart = torch.cdist(points, self.networks.points(asked.tolist(), edits=False)).cpu().numpy()
        apart[families[:, None] == families] = np.inf
        others = int(np.isfinite(apart).sum(1).min())
        if not others:
            return negatives(families, 1, rng)[:, 0]
        near = np.argsort(apart, axis=1, kind="stable")[:, : min(self.made.hard, others)]
        found: Numbers = near[np.arange(len(some)), rng.integers(near.shape[1], size=len(some))]
        return found

    def _pre_merit(self) -> float:
        """Validate every question against every edit, or (``select=loss``) return minus the loss."""
        examples = self.examples
        some = examples.pairs_of(examples.valid)
        edits = _chunked(self.networks, examples.edits[examples.valid], edits=True)
        questions = _chunked(self.networks, examples.question[some], edits=False)
        mine = edits[np.searchsorted(examples.valid, examples.record[some])]
        if self.made.select == "loss":
            rng = np.random.default_rng([self.seed, 6])
            wrong = negatives(examples.family[examples.record[some]], self.made.negatives, rng)
            return -float(pre_detector_loss(mine, questions, questions[torch.from_numpy(wrong)]))
        rival = []
        for start in range(0, len(some), CHUNK):
            p = torch.exp(-torch.cdist(questions[start : start + CHUNK], edits).pow(2))
            own = torch.from_numpy(self._same(some[start : start + CHUNK], examples.valid)).to(p.device)
            rival.append(p.masked_fill(own, 0).amax(1))
        return merit(scope(mine, questions), torch.cat(rival))

    def _judge_merit(self) -> float:
        """Validate every question with its own and other edits, or return minus the loss of that."""
        some, rivals = self.rivals
        width = 1 + rivals.shape[1]
        asked = np.repeat(self.examples.question[some], width)
        edits = np.concatenate([self.examples.edits[self.examples.record[some]][:, None], rivals], axis=1).ravel()
        found = [
            self.networks.logits(edits[start : start + CHUNK].tolist(), asked[start : start + CHUNK].tolist())
            for start in range(0, len(asked), CHUNK)
        ]
        logits = torch.cat(found).reshape(-1, width, 2)
        if self.made.select == "loss":
            own, other = (part.log_softmax(dim=-1) for part in (logits[:, 0], logits[:, 1:]))
            return 0.5 * float(own[..., 0].mean() + other[..., 1].mean())
        p = logits.softmax(dim=-1)[..., 0]
        return merit(p[:, 0], p[:, 1:].amax(1))

    def _same(self, pairs: Numbers, records: Numbers) -> NDArray[np.bool_]:
        """Return whether the question of each pair is of the family of each record, [pairs, records]."""
        found: NDArray[np.bool_] = (
            self.examples.family[self.examples.record[pairs]][:, None] == self.examples.family[records]
        )
        return found

    def _near_rivals(self) -> tuple[Numbers, Numbers]:
        """Return the pairs as ``_rivals`` does, with the validation edits that are nearest before the training."""
        examples = self.examples
        some = examples.pairs_of(examples.valid)
        with torch.no_grad():
            edits = _chunked(self.networks, examples.edits[examples.valid], edits=True)
            questions = _chunked(self.networks, examples.question[some], edits=False)
            apart = torch.cdist(questions, edits).cpu().numpy()
        apart[self._same(some, examples.valid)] = np.inf
        others = int(np.isfinite(apart).sum(1).min())
        if not others:
            return _rivals(examples, self.seed)
        near = np.argsort(apart, axis=1, kind="stable")[:, : min(self.made.hard, others)]
        return some, examples.edits[examples.valid[near]]


def _rivals(examples: ScopeExamples, seed: int) -> tuple[Numbers, Numbers]:
    """Return validation pairs [n], and ``RIVALS`` sampled statements of other families for each."""
    some = examples.pairs_of(examples.valid)
    rng = np.random.default_rng([seed, 5])
    drawn = rng.integers(len(examples.edits), size=(len(some), RIVALS))
    family = examples.family[examples.record[some]][:, None]
    while (wrong := examples.family[drawn] == family).any():
        drawn[wrong] = rng.integers(len(examples.edits), size=int(wrong.sum()))
    return some, examples.edits[drawn]


def _chunked(networks: Head | Whole, texts: Numbers, *, edits: bool) -> Tensor:
    parts = [texts[start : start + CHUNK].tolist() for start in range(0, len(texts), CHUNK)]
    return torch.cat([networks.points(part, edits=edits) for part in parts])


def _vectors(session: Session[Any], encoder: Encoder, texts: Sequence[str]) -> Any:
    """Return the texts' vectors, float32 [n, d], cached because embedding takes longer than the training."""
    listed = hashlib.sha256("\x00".join(texts).encode()).hexdigest()
    path = session.artifacts.path("sentence-vectors", {"encoder": encoder.id, "texts": listed}, ".safetensors")
    if (known := read_arrays(path)) is not None:
        return known["vectors"]
    starts = session.progress.track(range(0, len(texts), CHUNK), "embedding the examples", -(-len(texts) // CHUNK))
    vectors = np.concatenate([encoder.embed(texts[start : start + CHUNK]) for start in starts])
    write_arrays(path, {"vectors": vectors})
    return vectors


MIN_MISS = 1e-6
"""Lower bound of 1 - p: log(1 - p) of a negative that equals the edit is minus infinity."""


def scope(edits: Tensor, questions: Tensor) -> Tensor:
    """Return p(e, q) = exp(-|e - q|^2) of points [..., d]; it is 1/2 at a squared distance of ln 2."""
    return torch.exp(-(edits - questions).pow(2).sum(-1))


def pre_detector_loss(edits: Tensor, positives: Tensor, negatives: Tensor) -> Tensor:
    """Return -[log p(e, q+) + mean log(1 - p(e, q-))], averaged over edits [B, d].

    Positives [B, d], negatives [B, n, d].
    """
    near = (edits - positives).pow(2).sum(-1)
    far = (edits[:, None] - negatives).pow(2).sum(-1)
    return (near - (-torch.expm1(-far)).clamp(min=MIN_MISS).log().mean(1)).mean()


def judge_loss(logits: Tensor, *, positives: int, kind: Literal["two-class", "binary"]) -> Tensor:
    """Return the loss of logits [n, 2]; the first ``positives`` rows are in scope, class 0.

    ``binary``: as released, where labels of one-hot floats produce two independent binary cross-entropies.
    """
    labels = (torch.arange(len(logits), device=logits.device) >= positives).long()
    if kind == "two-class":
        return functional.cross_entropy(logits, labels)
    return functional.binary_cross_entropy_with_logits(logits, functional.one_hot(labels, 2).to(logits.dtype))


def merit(own: Tensor, rival: Tensor) -> float:
    """Return recall (the right edit above every other) plus block rate (the best other below 1/2), of [n]; 0 to 2."""
    return float((own > rival).double().mean() + (rival < 0.5).double().mean())
