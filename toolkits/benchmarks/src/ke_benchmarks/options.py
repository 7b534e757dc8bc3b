"""Options that several datasets have, as attrs fields of their configs."""

from __future__ import annotations

from typing import Any

from attrs import field

HIDE = "hide from each case the edits that contradict the facts it rests on"


def data_dir_option(file: str, family: str) -> Any:
    """``data_dir``: the folder with the published ``file``, directly or in a folder named after the family."""
    text = f"folder that holds {file} (or a folder {family}/ with it); else KE_DATA_DIR, cache"
    return field(default=None, metadata={"help": text})


def file_option(text: str) -> Any:
    """``file``: a file of the user's own."""
    return field(default=None, metadata={"help": text, "file": True})


def mask_option(text: str = f"{HIDE} (MQuAKE-Remastered)", *, default: bool = False) -> Any:
    """``mask``: hide contradicting edits from each case."""
    return field(default=default, metadata={"help": text})


def relations_option() -> Any:
    """``relations`` of a builder."""
    return field(default="", metadata={"help": "relations to use, with commas between them; all by default"})
