"""The detector's networks: pre-detector (``pre``) and disambiguator (``judge``), trained separately.

Texts are addressed by index.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ke_core.plugin import BadConfig, Encoder
from ke_memory.plugin import SentenceEncoder
from ke_plugin_pokemqa.words import FEATURES, WordCounts

WIDTH, SHARED = 64, 32
LONGEST = 256  # tokens, as published


class Shift(nn.Module):
    """Point of a statement: scale * (vector + offset); of a question: scale * vector. Starts as the identity."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.log_scale = nn.Parameter(torch.zeros(()))
        self.offset = nn.Parameter(torch.zeros(size))

    def forward(self, vectors: Tensor, *, edits: bool) -> Tensor:
        """Points [n, d]."""
        moved: Tensor = self.log_scale.exp() * (vectors + self.offset if edits else vectors)
        return moved


class PairJudge(nn.Module):
    """Two layers on |a - b| and a * b of both vectors' projections, their cosine, and the word overlap."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.edit, self.question = nn.Linear(size, SHARED), nn.Linear(size, SHARED)
        self.hidden = nn.Linear(2 * SHARED + 1 + FEATURES, WIDTH)
        self.out = nn.Linear(WIDTH, 2)

    def forward(self, edits: Tensor, questions: Tensor, overlap: Tensor) -> Tensor:
        """Return logits [n, 2] of vectors [n, d] and word overlaps [n, FEATURES]."""
        a, b = self.edit(edits), self.question(questions)
        cosine = nn.functional.cosine_similarity(edits, questions)[:, None]
        seen = torch.cat([(a - b).abs(), a * b, cosine, overlap], dim=1)
        logits: Tensor = self.out(self.hidden(seen).relu())
        return logits


class Head:
    """Small networks on frozen ``vectors`` [n, d] of ``texts``."""

    def __init__(self, texts: Sequence[str], vectors: Tensor, words: WordCounts, *, seed: int = 0) -> None:
        self.texts, self.vectors, self.words = texts, vectors, words
        self.pre = Shift(vectors.shape[1])
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.judge = PairJudge(vectors.shape[1])

    def points(self, texts: Sequence[int], *, edits: bool) -> Tensor:
        """Return the pre-detector's points for these texts (statements if ``edits``), [n, d]."""
        found: Tensor = self.pre(self.vectors[list(texts)], edits=edits)
        return found

    def logits(self, edits: Sequence[int], questions: Sequence[int]) -> Tensor:
        """Return the disambiguator's logits of each pair, [n, 2]; class 0 is in scope."""
        one, other = list(edits), list(questions)
        overlap = self.words.overlap([self.texts[at] for at in one], [self.texts[at] for at in other])
        found: Tensor = self.judge(self.vectors[one], self.vectors[other], torch.from_numpy(overlap))
        return found


class FirstToken(nn.Module):
    """An encoder to fine-tune: last hidden state of the first token."""

    def __init__(self, encoder: SentenceEncoder) -> None:
        super().__init__()
        self.model = copy.deepcopy(encoder.model).requires_grad_(requires_grad=True)
        self.tokenizer = encoder.tokenizer
        self.longest = min(LONGEST, encoder.longest)

    def forward(self, *texts: list[str]) -> Tensor:
        """Return [n, d] of texts or of pairs of texts."""
        read = self.tokenizer(*texts, truncation=True, max_length=self.longest, padding=True, return_tensors="pt")
        found: Tensor = self.model(**read.to(self.model.device)).last_hidden_state[:, 0]
        return found


class CrossJudge(nn.Module):
    """``edit [SEP] question`` with a dense layer and two logits on top, as in DistilBERT's classifier."""

    def __init__(self, encoder: SentenceEncoder, *, seed: int = 0) -> None:
        super().__init__()
        self.encoder = FirstToken(encoder)
        size, device = encoder.model.config.hidden_size, encoder.model.device
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.head = nn.Sequential(nn.Linear(size, size), nn.ReLU(), nn.Dropout(0.2), nn.Linear(size, 2)).to(device)

    def forward(self, edits: list[str], questions: list[str]) -> Tensor:
        """Logits [n, 2]."""
        found: Tensor = self.head(self.encoder(edits, questions))
        return found


class Whole:
    """The published detector: two fully fine-tuned copies of the encoder."""

    def __init__(self, texts: Sequence[str], encoder: Encoder, *, seed: int = 0) -> None:
        real = fine_tunable(encoder)
        self.texts = texts
        self.pre, self.judge = FirstToken(real), CrossJudge(real, seed=seed)

    def points(self, texts: Sequence[int], *, edits: bool) -> Tensor:
        """Return the points for these texts, [n, d]. Statements and questions are encoded the same way."""
        del edits
        found: Tensor = self.pre([self.texts[at] for at in texts])
        return found

    def logits(self, edits: Sequence[int], questions: Sequence[int]) -> Tensor:
        """Return the disambiguator's logits of each pair, [n, 2]; class 0 is in scope."""
        found: Tensor = self.judge([self.texts[at] for at in edits], [self.texts[at] for at in questions])
        return found


def fine_tunable(encoder: Any) -> SentenceEncoder:
    """Return the encoder if it is a trainable model. Raises BadConfig."""
    if not isinstance(encoder, SentenceEncoder):
        raise BadConfig(f"{encoder.id} cannot be fine-tuned", hint="use -o pokemqa.profile=default")
    return encoder
