"""Common options of datasets, as attrs fields of their configs."""

from __future__ import annotations

from typing import Any

from attrs import field, validators

HIDE = "hide from each case the edits that contradict the facts its answer depends on"


def data_dir_option(file: str, family: str) -> Any:
    """Return the field ``data_dir``: the folder with the published ``file``, directly or in a subfolder ``family``."""
    text = f"folder with {file}, directly or in a subfolder {family}/; also searched: KE_DATA_DIR, cache"
    return field(default=None, metadata={"help": text})


def file_option(text: str) -> Any:
    """Return the field ``file``: your own file."""
    return field(default=None, metadata={"help": text, "file": True})


def mask_option(text: str = f"{HIDE} (MQuAKE-Remastered)", *, default: bool = False) -> Any:
    """Return the field ``mask``: hide contradicting edits from each case."""
    return field(default=default, metadata={"help": text})


def relations_option() -> Any:
    """Return the field ``relations`` of a builder."""
    return field(default="", metadata={"help": "relations to use, separated by commas; default: all"})


def max_tokens_option(*, published: int, embedded: int) -> Any:
    """Return the field ``max_tokens`` of long answers, with the defaults of the published and the embedded dataset."""
    text = f"maximum tokens of an answer; default: {published}, or {embedded} for the embedded dataset"
    return field(default=None, validator=validators.optional(validators.ge(1)), metadata={"help": text})


def answer_end_option() -> Any:
    """Return the field ``end``: what ends a long answer."""
    text = "what ends an answer: text = the end-of-text token only (released code); line = also a line end"
    return field(default="text", metadata={"help": text})
