"""Common options of datasets, as attrs fields of their configs."""

from __future__ import annotations

from typing import Any

from attrs import validators

from ke_core.plugin import option

HIDE = "hide from each case the edits that contradict the facts its answer depends on"


def data_dir_option(file: str, family: str) -> Any:
    """Return the field ``data_dir``: the folder with the published ``file``, directly or in a subfolder ``family``."""
    text = f"folder with {file}, directly or in a subfolder {family}/; also searched: KE_DATA_DIR, cache"
    return option(text, None)


def file_option(text: str) -> Any:
    """Return the field ``file``: your own file."""
    return option(text, None, file=True)


def mask_option(text: str = f"{HIDE} (MQuAKE-Remastered)", *, default: bool = False) -> Any:
    """Return the field ``mask``: hide contradicting edits from each case."""
    return option(text, default)


def relations_option() -> Any:
    """Return the field ``relations`` of a builder."""
    return option("relations to use, separated by commas; default: all", "")


def max_tokens_option(*, published: int, embedded: int) -> Any:
    """Return the field ``max_tokens`` of long answers, with the defaults of the published and the embedded dataset."""
    text = f"maximum tokens of an answer; default: {published}, or {embedded} for the embedded dataset"
    return option(text, None, validators.optional(validators.ge(1)))


def answer_end_option() -> Any:
    """Return the field ``end``: what ends a long answer."""
    text = "what ends an answer: text = the end-of-text token only (released code); line = also a line end"
    return option(text, "text")
