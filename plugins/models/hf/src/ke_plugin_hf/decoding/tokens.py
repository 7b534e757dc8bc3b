"""Prompts and continuations to token ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import define, field

from ke_plugin_hf.decoding.text import decode

TODAY = "{% macro strftime_now(form) %}26 Jul 2024{% endmacro %}"
"""The date that chat templates are told where they ask for one: always the same, or a run could not be repeated.

It is the one that LLaMA's templates write where they cannot ask."""

LINE = "\n"  # seldom one token with what follows it


@define(eq=False)
class PromptTokenizer:
    """A tokenizer, and how prompts are put: as they stand, or as one user turn of the chat template.

    Plain prompts get the special tokens that the tokenizer puts before a text by default (none, or a beginning-of-text
    token), and none after it: a text that goes on has no end. A chat template writes its own, and is told that it is
    always the same day.
    """

    tokenizer: Any
    chat: bool = False
    _after: int = field(init=False)
    _begins: bool = field(init=False)

    def __attrs_post_init__(self) -> None:
        bare = len(self.tokenizer("a", add_special_tokens=False)["input_ids"])
        ids = self.tokenizer("a")["input_ids"]
        special = set(self.tokenizer.all_special_ids)
        after = next((at for at, one in enumerate(reversed(ids)) if one not in special), 0)
        self._after = after if len(ids) > bare else 0
        # Whether something is put before the beginning of a text, a space say.
        self._begins = self._inside("a") != self._alone("a")

    def prompts(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of each prompt as the model is to read it; never empty."""
        if not texts:
            return []
        return self._whole([self._turn(text) for text in texts] if self.chat else texts)

    def continuation(self, prompt: str, ids: Sequence[int], text: str) -> list[int]:
        """Token ids of ``text`` after a prompt that was coded as ``ids``, without special tokens.

        Coded together with the prompt where that leaves the prompt's ids as they are: a tokenizer of the SentencePiece
        kind would otherwise put a space of its own before ``text``. Else coded without it.
        """
        both = self._whole([(self._turn(prompt) if self.chat else prompt) + text])[0]
        if both[: len(ids)] == list(ids):
            return both[len(ids) :]
        return self._inside(text) if self._begins else self._alone(text)

    def whole(self, text: str) -> tuple[list[int], list[int]]:
        """Token ids of what stands before a text that is scored as a whole, and of the text: no chat template, no
        special tokens of the tokenizer but the one that begins a text (else the one that ends it).
        """
        coded = self.tokenizer("")["input_ids"]
        return coded[: len(coded) - self._after] or [self.begin], self._alone(text)

    def _whole(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of texts from their beginnings on, a chat template's already around them."""
        coded = self.tokenizer(list(texts), add_special_tokens=not self.chat)["input_ids"]
        after = 0 if self.chat else self._after
        return [ids[: len(ids) - after] or [self.begin] for ids in coded]

    def _inside(self, text: str) -> list[int]:
        """Token ids of ``text`` where a line begins, which is not where the text does; alone if that cannot be seen."""
        line = self._alone(LINE)
        both = self._alone(LINE + text)
        return both[len(line) :] if both[: len(line)] == line else self._alone(text)

    def _alone(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """Text of ``ids``, special tokens left out."""
        return decode(self.tokenizer, ids)

    def _turn(self, text: str) -> str:
        written: str = self.tokenizer.apply_chat_template(
            [{"role": "user", "content": text}],
            add_generation_prompt=True,
            tokenize=False,
            chat_template=self._template(),
        )
        return written

    def _template(self) -> str:
        written: str = self.tokenizer.get_chat_template()
        return f"{TODAY}{written}" if "strftime_now" in written else written

    @property
    def begin(self) -> int:
        """What stands for an empty prompt."""
        for one in (self.tokenizer.bos_token_id, self.tokenizer.eos_token_id, self.tokenizer.pad_token_id):
            if one is not None:
                return int(one)
        return 0
