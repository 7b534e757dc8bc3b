"""Convert prompts and continuations to token ids."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from attrs import define, field

from ke_plugin_hf.decoding.text import decode

TODAY = "{% macro strftime_now(form) %}26 Jul 2024{% endmacro %}"
"""The date for chat templates that ask for one: always the same, so that runs are reproducible.

It is the default in LLaMA's templates.
"""

LINE = "\n"  # seldom one token with what follows it
ONE_SPACE = re.compile(r"\A (?=\S)")
"""The space that separates a continuation from its prompt."""


@define(eq=False)
class PromptTokenizer:
    """A tokenizer, and the prompt format: plain, or one user turn of the chat template.

    Plain prompts get the special tokens that the tokenizer adds before a text by default (none, or a beginning-of-text
    token), and none after it, because the text continues. A chat template adds its own, with a fixed date.
    """

    tokenizer: Any
    chat: bool = False
    _after: int = field(init=False)

    def __attrs_post_init__(self) -> None:
        bare = len(self.tokenizer("a", add_special_tokens=False)["input_ids"])
        ids = self.tokenizer("a")["input_ids"]
        special = set(self.tokenizer.all_special_ids)
        after = next((at for at, one in enumerate(reversed(ids)) if one not in special), 0)
        self._after = after if len(ids) > bare else 0

    def prompts(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of each prompt as the model reads it; never empty."""
        if not texts:
            return []
        return self._whole([self._turn(text) for text in texts] if self.chat else texts)

    def continuation(self, prompt: str, ids: Sequence[int], text: str) -> list[int]:
        """Return the token ids of ``text`` after a prompt encoded as ``ids``, without special tokens.

        They are encoded together if that does not change the prompt's ids, because a SentencePiece tokenizer would add
        a space before ``text``. Otherwise ``text`` is encoded separately.

        A message after white space, such as the line break at the end of a chat template, begins without a space. The
        space at the start of ``text`` is then omitted.
        """
        before = self._turn(prompt) if self.chat else prompt
        if self.chat and before[-1:].isspace():
            text = ONE_SPACE.sub("", text)
        both = self._whole([before + text])[0]
        if both[: len(ids)] == list(ids):
            return both[len(ids) :]
        return inside_ids(self.tokenizer, text)

    def whole(self, text: str) -> tuple[list[int], list[int]]:
        """Return the token ids before a text that is scored as a whole, and those of the text. There is no chat
        template, and the only special token is the one that begins a text (or the one that ends it).
        """
        coded = self.tokenizer("")["input_ids"]
        return coded[: len(coded) - self._after] or [self.begin], _alone(self.tokenizer, text)

    def _whole(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of complete texts, with a chat template already applied."""
        coded = self.tokenizer(list(texts), add_special_tokens=not self.chat)["input_ids"]
        after = 0 if self.chat else self._after
        return [ids[: len(ids) - after] or [self.begin] for ids in coded]

    def decode(self, ids: Sequence[int]) -> str:
        """Decode ``ids`` without special tokens."""
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
        """The tokens for an empty prompt."""
        for one in (self.tokenizer.bos_token_id, self.tokenizer.eos_token_id, self.tokenizer.pad_token_id):
            if one is not None:
                return int(one)
        return 0


def inside_ids(tokenizer: Any, text: str) -> list[int]:
    """Return the token ids of ``text`` inside a longer text, without special tokens.

    Some tokenizers add a space at the start of a text. With these, ``text`` is encoded after a line break.
    """
    if _after_line(tokenizer, "a") == _alone(tokenizer, "a"):
        return _alone(tokenizer, text)
    return _after_line(tokenizer, text)


def _after_line(tokenizer: Any, text: str) -> list[int]:
    """Encode ``text`` after a line break, or separately if the two merge."""
    line, both = _alone(tokenizer, LINE), _alone(tokenizer, LINE + text)
    return both[len(line) :] if both[: len(line)] == line else _alone(tokenizer, text)


def _alone(tokenizer: Any, text: str) -> list[int]:
    ids: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
    return ids
